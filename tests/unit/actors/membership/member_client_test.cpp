// Goal: a member's patience ends when its coordinator shows no sign of life for so long, whatever
// else it finds at the address, and costs next to nothing until then. Method: a server whose
// network is an actor of the test.
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <doctest/doctest.h>

#include <troupe/actors/server/parameter_server.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/messages/registration.hpp>
#include <troupe/transport/memory_transport.hpp>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct seen_calls {
  std::atomic<int> publishes{0};
  std::atomic<int> refusals_left{0}; ///< of publishing
  std::atomic<int> connects{0};
  std::atomic<int> unpublishes{0};
  std::atomic<bool> reuse{false};
};

/// Stands for CAF's network layer: every address leads to `found`.
caf::behavior network(caf::event_based_actor* self, std::shared_ptr<seen_calls> seen,
                      caf::strong_actor_ptr found) {
  self->set_default_handler(caf::drop);
  return {
    [=](caf::publish_atom, std::uint16_t port, const caf::strong_actor_ptr&,
        const std::set<std::string>&, const std::string&,
        bool reuse) -> caf::result<std::uint16_t> {
      ++seen->publishes;
      seen->reuse = reuse;
      if (seen->refusals_left-- > 0)
        return caf::make_error(caf::sec::cannot_open_port);
      return port;
    },
    [=](caf::unpublish_atom, const caf::actor_addr&, std::uint16_t) { ++seen->unpublishes; },
    [=](caf::connect_atom, const std::string&,
        std::uint16_t) -> caf::result<caf::node_id, caf::strong_actor_ptr, std::set<std::string>> {
      ++seen->connects;
      return {self->node(), found, std::set<std::string>{}};
    },
  };
}

struct world {
  world() { configure_system(config, init_messages); }

  /// A server that finds `found` wherever it calls, and its end.
  result<bool> run(caf::strong_actor_ptr found, std::uint64_t patience_ms) {
    environment env{ports->clock(),   ports->random(), ports->storage(),
                    ports->threads(), ports->waits(),  *transport};
    caf::actor_system system{config};
    auto net = system.spawn(network, seen, std::move(found));
    auto ended = std::make_shared<promise_slot<bool>>(env);
    server_actor_options options{.member = {.task = {.job = job_kind::ps, .index = 0},
                                            .network = net,
                                            .coordinator_host = "127.0.0.1",
                                            .coordinator_port = 4700,
                                            .listen_host = "127.0.0.1",
                                            .listen_port = 4703,
                                            .coordinator_lost_ms_max = patience_ms,
                                            .ended = ended},
                                 .store = std::make_shared<shard_store>(nullptr)};
    began = ports->clock().now();
    auto server = spawn_parameter_server(system, env, std::move(options));
    auto gone = std::make_shared<promise_slot<bool>>(env);
    server->attach_functor([gone] { gone->set(true); });
    auto out = ended->wait(after(began, 20s), "end");
    took = ports->clock().now() - began;
    if (out || out.error().code == errc::deadline) // it waits on
      caf::anon_send_exit(server, caf::exit_reason::kill);
    server = nullptr;
    CHECK(gone->wait(after(ports->clock().now(), 20s), "gone"));
    caf::anon_send_exit(net, caf::exit_reason::kill);
    return out;
  }

  caf::actor_system_config config{};
  std::unique_ptr<production_ports> ports = make_production_ports();
  std::unique_ptr<data_transport> transport = make_memory_transport(ports->waits());
  std::shared_ptr<seen_calls> seen = std::make_shared<seen_calls>();
  time_point began{};
  duration took{};
};

struct other_process {
  other_process() { configure_system(config, init_messages); }
  caf::strong_actor_ptr spawn() {
    // With an argument: without any CAF 0.17.6 binds a reference to a null tuple, which UBSan ends.
    auto body = [](caf::event_based_actor* self, int) {
      self->set_default_handler(caf::drop);
      return caf::behavior{[](caf::ok_atom) {}};
    };
    return caf::actor_cast<caf::strong_actor_ptr>(system.spawn(body, 0));
  }
  caf::actor_system_config config{};
  caf::actor_system system{config};
};

} // namespace

TEST_CASE(
  "a dead actor at the coordinator's address moved the deadline on for ever, each dial with two "
  "timers more") {
  world w;
  other_process other;
  auto dead = other.spawn();
  caf::anon_send_exit(dead, caf::exit_reason::kill);
  auto out = w.run(dead, 2'000);
  REQUIRE_FALSE(out);
  CHECK(out.error().code == errc::unavailable);
  CHECK(out.error().text.find("no coordinator at 127.0.0.1:4700 for 2 s") != std::string::npos);
  CHECK(w.took >= 1900ms);
  CHECK(w.took < 10s);
  CHECK(w.seen->connects <= 10); // one every 250 to 500 ms: no busy core
}

TEST_CASE("a coordinator that is found and never answers is no sign of life") {
  world w;
  other_process other;
  auto body = [](caf::event_based_actor* self, int) {
    self->set_default_handler(caf::skip); // kept, unanswered
    return caf::behavior{[](caf::ok_atom) {}};
  };
  auto silent = caf::actor_cast<caf::strong_actor_ptr>(other.system.spawn(body, 0));
  auto out = w.run(silent, 1'500);
  REQUIRE_FALSE(out);
  CHECK(out.error().code == errc::unavailable);
  CHECK(w.took < 12s); // one request's time beside the patience
  caf::anon_send_exit(silent, caf::exit_reason::kill);
}

TEST_CASE("a port was shut for a minute after its process had ended: it is opened again at once") {
  world w;
  other_process other;
  auto dead = other.spawn();
  caf::anon_send_exit(dead, caf::exit_reason::kill);
  SUBCASE("old sockets are no hindrance") {
    (void)w.run(dead, 300);
    CHECK(w.seen->reuse);
    CHECK(w.seen->publishes == 1);
    CHECK(w.seen->unpublishes == 1);
  }
  SUBCASE("nor is a process that is just going") {
    w.seen->refusals_left = 3;
    auto out = w.run(dead, 1'000);
    CHECK(w.seen->publishes == 4);
    CHECK(out.error().code == errc::unavailable); // it went on and found no coordinator
  }
  SUBCASE("what holds it for longer is an error that says what passes") {
    w.seen->refusals_left = 1'000;
    auto out = w.run(dead, 20'000);
    CHECK(out.error().code == errc::address_in_use);
    CHECK(out.error().text.find("ps:0 cannot listen on 127.0.0.1:4703") != std::string::npos);
    CHECK(out.error().text.find("is free again") != std::string::npos);
    CHECK(w.took < 10s);
  }
}
