// Two actor systems and the links between them: what their actors see is ordinary messages.
#include <troupe/actors/control_plane/control_plane.hpp>

#include <condition_variable>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <doctest/doctest.h>

#include <troupe/messages/admission.hpp>
#include <troupe/messages/closures.hpp>
#include <troupe/messages/interfaces.hpp>
#include <troupe/messages/links.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/messages/registration.hpp>
#include <troupe/messages/variables.hpp>

#include "../data_plane/parameter_fixture.hpp"

using namespace troupe;
using parameter_test::world;

namespace {

/// What an actor has heard, in order.
struct ears {
  std::mutex mutex{};
  std::condition_variable changed{};
  std::vector<std::string> lines{};
  caf::strong_actor_ptr peer{};
  void add(std::string line, caf::strong_actor_ptr from = {}) {
    std::lock_guard lock{mutex};
    lines.push_back(std::move(line));
    if (from)
      peer = std::move(from);
    changed.notify_all();
  }
  bool hear(const std::string& line) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, std::chrono::seconds{20}, [&] {
      return std::find(lines.begin(), lines.end(), line) != lines.end();
    });
  }
  caf::strong_actor_ptr handle() {
    std::lock_guard lock{mutex};
    return peer;
  }
  void clear() {
    std::lock_guard lock{mutex};
    peer = nullptr;
  }
};

std::string number(request_no n) { return std::to_string(value_of(n)); }

caf::behavior coordinator(caf::event_based_actor*, ears* to) {
  return {
    [to](worker_linked& msg) {
      to->add("linked " + std::to_string(msg.inc.counter), std::move(msg.handle));
    },
    [to](link_ended& msg) { to->add(msg.clean ? "ended" : "lost"); },
    [to](worker_report& msg) { to->add("report " + number(msg.header.request)); },
    [to](request_variable& msg) {
      to->add("asked for " + msg.wanted.name);
      return variable_answer{.why = {}, .made = std::move(msg.wanted)};
    },
  };
}

caf::behavior worker(caf::event_based_actor* self, ears* to) {
  auto reply_to = [self](auto msg) {
    self->send(caf::actor_cast<caf::actor>(self->current_sender()), std::move(msg));
  };
  return {
    [=](admit_worker& msg) {
      to->add("admitted", self->current_sender());
      reply_to(worker_report{.header = msg.header});
    },
    [=](run_closures& msg) {
      to->add("run " + number(msg.header.request));
      reply_to(worker_report{.header = msg.header});
    },
    [to](link_ended& msg) { to->add(msg.clean ? "ended" : "lost"); },
    [=](const std::string& name) { // of the test
      self
        ->request(caf::actor_cast<caf::actor>(to->handle()), std::chrono::seconds{20},
                  request_variable{.header = {}, .wanted = {.name = name}})
        .then([to](variable_answer& x) { to->add("made " + x.made.name); },
              [to](caf::error&) { to->add("no answer"); });
    },
  };
}

/// A process: system, actor, links.
struct process {
  process(world& w, job_kind job, std::string address)
    : config{make_config()},
      system{*config},
      plane{w.env(), system, {.address = std::move(address), .cluster = "test"}} {
    if (job == job_kind::chief) {
      at = plane.open().value_or_throw();
      actor = system.spawn(coordinator, &heard);
    } else {
      actor = system.spawn(worker, &heard);
    }
    plane.start(job, caf::actor_cast<caf::strong_actor_ptr>(actor));
  }
  ~process() {
    plane.stop();
    heard.clear();
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  static std::unique_ptr<caf::actor_system_config> make_config() {
    auto out = std::make_unique<caf::actor_system_config>();
    configure_system(*out, init_messages);
    return out;
  }
  ears heard{};
  std::unique_ptr<caf::actor_system_config> config;
  caf::actor_system system;
  control_plane plane;
  caf::actor actor{};
  std::string at{};
};

const link_owner first_session{{.job = job_kind::worker, .index = 1}, {.counter = 1, .nonce = 9}};

struct cluster {
  cluster() { other.plane.dial(first_session, term_no{1}, chief.at); }
  caf::actor to_worker() { return caf::actor_cast<caf::actor>(chief.heard.handle()); }
  world w{};
  process chief{w, job_kind::chief, "chief:0"};
  process other{w, job_kind::worker, ""};
};

template <class Message>
Message numbered(std::uint64_t n) {
  return Message{.header = {.request = static_cast<request_no>(n)}};
}

} // namespace

TEST_CASE(
  "control plane: what is sent to a linked worker arrives in order, and so do its answers") {
  cluster c;
  REQUIRE(c.chief.heard.hear("linked 1"));
  auto to = c.to_worker();
  CHECK(to->node() != c.chief.system.node());
  caf::anon_send(to, numbered<admit_worker>(0));
  for (std::uint64_t i = 1; i <= 200; ++i)
    caf::anon_send(to, numbered<run_closures>(i));
  REQUIRE(c.other.heard.hear("run 200"));
  REQUIRE(c.chief.heard.hear("report 200"));
  REQUIRE(c.other.heard.lines.size() == 201);
  REQUIRE(c.chief.heard.lines.size() == 202);
  CHECK(c.other.heard.lines[0] == "admitted");
  for (std::size_t i = 1; i <= 200; ++i) {
    CHECK(c.other.heard.lines[i] == "run " + std::to_string(i));
    CHECK(c.chief.heard.lines[i + 1] == "report " + std::to_string(i));
  }
}

TEST_CASE("control plane: a worker's question is answered; without a link it fails at once") {
  cluster c;
  REQUIRE(c.chief.heard.hear("linked 1"));
  caf::anon_send(c.to_worker(), numbered<admit_worker>(0));
  REQUIRE(c.other.heard.hear("admitted"));
  caf::anon_send(c.other.actor, std::string{"weights"});
  CHECK(c.other.heard.hear("made weights"));
  CHECK(c.chief.heard.hear("asked for weights"));
  c.other.plane.end(first_session, {});
  REQUIRE(c.chief.heard.hear("ended"));
  REQUIRE(c.other.heard.hear("ended"));
  caf::anon_send(c.other.actor, std::string{"late"});
  CHECK(c.other.heard.hear("no answer"));
}

TEST_CASE("control plane: a message that is for the other end is nobody's, and ends the link") {
  cluster c;
  REQUIRE(c.chief.heard.hear("linked 1"));
  caf::anon_send(c.to_worker(), numbered<admit_worker>(0));
  REQUIRE(c.chief.heard.hear("report 0"));
  REQUIRE(c.other.heard.hear("admitted"));
  caf::anon_send(caf::actor_cast<caf::actor>(c.other.heard.handle()), numbered<run_closures>(1));
  CHECK(c.chief.heard.hear("lost"));
  CHECK(c.other.heard.hear("lost"));
}

TEST_CASE("control plane: what does not travel is dropped, and the link lives on") {
  cluster c;
  REQUIRE(c.chief.heard.hear("linked 1"));
  caf::anon_send(c.to_worker(), fence_member{});
  caf::anon_send(c.to_worker(), numbered<run_closures>(7));
  CHECK(c.other.heard.hear("run 7"));
}

TEST_CASE("control plane: an actor that has gone is told nothing, and holds nobody up") {
  cluster c;
  REQUIRE(c.chief.heard.hear("linked 1"));
  auto to = c.to_worker();
  caf::anon_send_exit(c.other.actor, caf::exit_reason::kill);
  for (std::uint64_t i = 1; i <= 10; ++i)
    caf::anon_send(to, numbered<run_closures>(i));
  c.chief.plane.end(first_session, {});
  CHECK(c.chief.heard.hear("ended"));
}
