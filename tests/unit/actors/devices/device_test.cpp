// The owner of a device. Goal: it opens and closes on threads of its own, finds a device that hangs
// while nobody uses it, tells who watches, early or late, and reports. Method: a made-up GPU with
// faults on demand under a real actor.

#include <doctest/doctest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <atomic>
#include <mutex>

#include <troupe/actors/devices/device.hpp>
#include <troupe/actors/devices/device_plane.hpp>
#include <troupe/actors/devices/notify_actor.hpp>
#include <troupe/core/caf_compat.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/core/tracers.hpp>
#include <troupe/device/fake_backend.hpp>
#include <troupe/messages/registration.hpp>
#include <troupe/transport/memory_transport.hpp>

#include "../../../support/port_waiting.hpp"

namespace {

using namespace troupe;
using namespace std::chrono_literals;

/// A port with one made-up kind of device.
struct fake_port final : device_port {
  explicit fake_port(std::shared_ptr<fake_backend> t) : backend{std::move(t)} {}
  std::vector<std::shared_ptr<device_backend>> backends() override { return {backend}; }
  std::shared_ptr<fake_backend> backend;
};

/// What threads that were given up may use after their test. Never destroyed.
struct machine {
  std::unique_ptr<production_ports> ports = make_production_ports();
  std::unique_ptr<data_transport> transport = make_memory_transport(ports->waits());
  counting_tracer traced{};
};

machine& new_machine() {
  static auto& all = *new std::vector<std::unique_ptr<machine>>;
  return *all.emplace_back(std::make_unique<machine>());
}

struct stage {
  explicit stage(fake_options options = {}) {
    configure_system(config, init_messages);
    system = std::make_unique<caf::actor_system>(config);
    backend = std::make_shared<fake_backend>(env, options);
    port = std::make_unique<fake_port>(backend);
    env.devices = port.get();
    plane = std::make_shared<device_plane>(
      env, *system,
      device_plane_options{.device = {.hang_after = 300ms, .check_every = 20ms}, .check_ms = 20});
  }
  ~stage() { backend->release_hangs(); }

  template <class Pred>
  bool comes_true(Pred pred) {
    return testing::comes_true(env, pred);
  }

  machine& m = new_machine();
  counting_tracer& traced = m.traced;
  environment env{m.ports->clock(),
                  m.ports->random(),
                  m.ports->storage(),
                  m.ports->threads(),
                  m.ports->waits(),
                  *m.transport,
                  &traced};
  caf::actor_system_config config{};
  std::unique_ptr<caf::actor_system> system;
  std::shared_ptr<fake_backend> backend;
  std::unique_ptr<fake_port> port;
  std::shared_ptr<device_plane> plane;
};

struct watcher final : device_watcher {
  void on_device_failed(const device_failed& msg) override {
    std::lock_guard lock{mutex};
    why = msg.why;
    ++told;
  }
  std::mutex mutex{};
  failure why{};
  std::atomic<int> told{0};
};

constexpr device_id gpu0{device_kind::gpu, 0};

TEST_CASE("device actor: opened once for all who ask, and closed with nothing left") {
  stage s{{.devices = 2}};
  CHECK(s.plane->list().size() == 2);
  auto d = s.plane->open(gpu0).value_or_throw();
  CHECK(s.plane->open(gpu0).value_or_throw() == d);
  CHECK(d->id() == gpu0);
  CHECK(s.traced.events("device.opened") == 1);
  d = nullptr;
  CHECK(s.plane->close(after(s.env.clock.now(), 5s)));
  CHECK(s.backend->census() == fake_census{});
  CHECK(s.traced.events("device.closed") == 1);
  auto late = s.plane->open(gpu0);
  REQUIRE(!late);
  CHECK(late.error().code == errc::wrong_state);
}

TEST_CASE("device actor: a device that is not there is refused, saying what is") {
  stage s{{.devices = 2}};
  auto none = s.plane->open({device_kind::gpu, 5});
  REQUIRE(!none);
  CHECK(none.error().code == errc::device_unavailable);
  CHECK(none.error().text.find("gpu:5 does not exist; available devices: gpu:0 gpu:1") == 0);
  CHECK(s.plane->close(after(s.env.clock.now(), 5s)));
}

TEST_CASE("device actor: what cannot be opened says why, and may be tried again") {
  stage s;
  s.backend->plant(
    {.function = "bind", .answer = {.status = device_status::unavailable, .text = "busy"}});
  auto none = s.plane->open(gpu0);
  REQUIRE(!none);
  CHECK(none.error().code == errc::device_unavailable);
  CHECK(none.error().text.find("busy") != std::string::npos);
  CHECK(s.plane->open(gpu0));
  CHECK(s.plane->close(after(s.env.clock.now(), 5s)));
  CHECK(s.backend->census() == fake_census{});
}

TEST_CASE("device actor: who watches hears of the end once, however late he comes") {
  stage s;
  auto early = std::make_shared<watcher>(), first = std::make_shared<watcher>();
  s.plane->watch(gpu0, early); // before it is in use
  auto d = s.plane->open(gpu0).value_or_throw();
  s.plane->watch(gpu0, first);
  s.backend->lose(0);
  REQUIRE(s.comes_true([&] { return early->told == 1 && first->told == 1; }));
  CHECK(early->why.code == errc::device_lost);
  CHECK(early->why.text.find("gpu:0") != std::string::npos);
  auto late = std::make_shared<watcher>();
  s.plane->watch(gpu0, late);
  CHECK(s.comes_true([&] { return late->told == 1; }));
  CHECK(s.traced.events("device.failed") == 1);
  d = nullptr;
  CHECK(!s.plane->close(after(s.env.clock.now(), 2s)));
  CHECK(early->told == 1);
}

TEST_CASE("device actor: probes find what hangs on any stream while nobody waits") {
  stage s;
  auto seen = std::make_shared<watcher>();
  s.plane->watch(gpu0, seen);
  auto d = s.plane->open(gpu0).value_or_throw();
  auto stream = d->make_stream("compute").value_or_throw();
  // An idle device that answers is well for longer than it may hang.
  const auto begin = s.env.clock.now();
  REQUIRE(s.comes_true([&] { return s.env.clock.now() - begin > 500ms; }));
  CHECK(seen->told == 0);
  CHECK(s.backend->calls("record") >= 3);
  s.backend->plant({.function = "execute:spin", .hang = true});
  REQUIRE(d->enqueue(stream,
                     {.name = "spin", .run = [](const launch_site&) { return device_answer{}; }}));
  REQUIRE(s.comes_true([&] { return seen->told == 1; }));
  CHECK(seen->why.code == errc::device_timeout);
  CHECK(seen->why.text.find("gpu:0 stream 'compute'") == 0);
  CHECK(s.env.clock.now() - begin > 790ms); // not before its time
  d = nullptr;
  CHECK(!s.plane->close(after(s.env.clock.now(), 2s)));
}

TEST_CASE(
  "device actor: a driver that hangs under the poller ends the device, and holds no actor") {
  stage s;
  auto seen = std::make_shared<watcher>();
  s.plane->watch(gpu0, seen);
  auto d = s.plane->open(gpu0).value_or_throw();
  s.backend->plant({.function = "health", .hang = true});
  REQUIRE(s.comes_true([&] { return seen->told == 1; }));
  CHECK(seen->why.code == errc::device_timeout);
  CHECK(seen->why.text.find("gpu:0: the poller hangs") == 0);
  d = nullptr;
  CHECK(!s.plane->close(after(s.env.clock.now(), 2s)));
  s.backend->release_hangs();
}

using asker_actor = caf::typed_actor<signature<void(device_event)>>;

TEST_CASE("device actor: an actor hears of an event that passed, and of one that never will") {
  stage s;
  std::mutex mutex;
  std::map<std::uint64_t, failure> heard;
  auto body = [&](asker_actor::pointer, int) -> asker_actor::behavior_type {
    return {[&](device_event& msg) {
      std::lock_guard lock{mutex};
      heard[msg.number] = msg.why;
    }};
  };
  auto asker = s.system->spawn(body, 0);
  auto count = [&] {
    std::lock_guard lock{mutex};
    return heard.size();
  };
  auto d = s.plane->open(gpu0).value_or_throw();
  auto stream = d->make_stream("compute").value_or_throw();
  REQUIRE(notify_actor(*d, d->record_event(stream).value_or_throw(), asker, 7));
  REQUIRE(s.comes_true([&] { return count() == 1; }));
  s.backend->plant({.function = "execute:spin", .hang = true});
  auto never_passes =
    d->submit(stream, {.name = "spin", .run = [](const launch_site&) { return device_answer{}; }})
      .value_or_throw();
  REQUIRE(notify_actor(*d, never_passes, asker, 8));
  s.backend->lose(0);
  REQUIRE(s.comes_true([&] { return count() == 2; }));
  CHECK(heard[7].code == errc::none);
  CHECK(heard[8].code == errc::device_lost);
  never_passes = {};
  d = nullptr;
  CHECK(!s.plane->close(after(s.env.clock.now(), 2s)));
}

TEST_CASE("device actor: a driver that hangs as it opens keeps no handler waiting") {
  stage s;
  s.backend->plant({.function = "describe", .hang = true});
  device_actor_options options{.backend = s.backend, .check_ms = 20};
  std::atomic<int> told{0};
  options.opened = [&](result<std::shared_ptr<device>> what) { told += what ? 100 : 1; };
  options.closed = std::make_shared<promise_slot<bool>>(s.env);
  auto closed = options.closed;
  auto actor = spawn_device(*s.system, s.env, std::move(options));
  REQUIRE(s.comes_true([&] { return s.backend->hanging() == 1; }));
  tell_from_outside(actor, close_device{.deadline_ms = 100, .here = made_here()});
  actor = nullptr;
  auto ended = closed->wait(after(s.env.clock.now(), 10s), "close");
  REQUIRE(ended);
  CHECK(!*ended);
  CHECK(told == 1);
  s.backend->release_hangs();
  CHECK(s.comes_true([&] { return s.traced.events("device.closed") == 1; })); // by who came late
}

TEST_CASE("device actor: orders from another process are nobody's") {
  stage s;
  auto d = s.plane->open(gpu0).value_or_throw();
  device_actor_options options{.backend = s.backend};
  std::shared_ptr<device> made;
  std::atomic<bool> opened{false};
  options.opened = [&](result<std::shared_ptr<device>> what) {
    made = std::move(what).value_or_throw();
    opened = true;
  };
  auto actor = spawn_device(*s.system, s.env, std::move(options));
  REQUIRE(s.comes_true([&] { return opened.load(); }));
  tell_from_outside(actor, close_device{.deadline_ms = 100}); // as it comes off a wire
  tell_from_outside(
    actor, device_failed{.device = "gpu:0", .why = make_failure(errc::device_lost, "so they say")});
  auto seen = std::make_shared<watcher>();
  tell_from_outside(actor, watch_device{.by = {seen}});
  auto stream = made->make_stream("s").value_or_throw();
  CHECK(made->wait(made->record_event(stream).value_or_throw(), 5s));
  CHECK(seen->told == 0);
  made = nullptr;
  d = nullptr;
  tell_from_outside(actor, close_device{.deadline_ms = 100, .here = made_here()});
  actor = nullptr;
  CHECK(s.plane->close(after(s.env.clock.now(), 5s)));
}

} // namespace
