#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/production_ports.hpp>
#include <troupe/core/tracers.hpp>
#include <troupe/device/comm_set.hpp>
#include <troupe/device/cpu_backend.hpp>
#include <troupe/device/device.hpp>
#include <troupe/device/fake_backend.hpp>
#include <troupe/transport/memory_transport.hpp>

#include "../../support/failures.hpp"
#include "../../support/port_waiting.hpp"

/// What the device tests share: this machine's ports, a device with faults on demand, and words for
/// how a scenario must end.
namespace device_test {

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

/// The ports of this machine, which threads that were given up may use to the end of the process.
struct machine {
  std::unique_ptr<production_ports> ports = make_production_ports();
  std::unique_ptr<data_transport> transport = make_memory_transport(ports->waits());
};

inline machine& this_machine() {
  static auto& all = *new machine;
  return all;
}

/// A deadline that no healthy test reaches.
inline constexpr duration long_enough = 20s;

inline device_options quick() {
  device_options out;
  out.hang_after = 300ms;
  out.abort_max = 200ms;
  out.poll_every = 500us;
  out.check_every = 60s; // faults hit the test's own calls
  return out;
}

/// `quick`, but nothing counts as hung while a test runs.
inline device_options patient() {
  auto out = quick();
  out.hang_after = 60s;
  return out;
}

/// One or more made-up GPUs.
struct fixture {
  explicit fixture(fake_options options = {}, device_options how = quick())
    : backend{std::make_shared<fake_backend>(env(), options)}, how_{how} {}
  ~fixture() { backend->release_hangs(); }

  environment env() {
    auto& m = this_machine();
    return {m.ports->clock(),
            m.ports->random(),
            m.ports->storage(),
            m.ports->threads(),
            m.ports->waits(),
            *m.transport,
            &traced};
  }

  std::shared_ptr<device> open(std::uint32_t index = 0) {
    return device::open(env(), backend, index, how_).value_or_throw();
  }

  /// The device closes well, and nothing of it is left.
  void closes_clean(const std::shared_ptr<device>& d) {
    auto closed = d->close(2s);
    CHECK_MESSAGE(closed, (closed ? std::string{} : to_string(closed.error())));
    CHECK(backend->census() == fake_census{});
  }

  /// The device says why it failed, closing ends in time, and what is left is left untouched.
  void closes_abandoned(const std::shared_ptr<device>& d, errc code) {
    const auto begin = env().clock.now();
    auto closed = d->close(2s);
    REQUIRE(!closed);
    CHECK(closed.error().code == code);
    CHECK(env().clock.now() - begin < 5s);
    CHECK(traced.events("device.abandoned") == 1);
    CHECK(traced.events("device.closed") == 0);
  }

  counting_tracer traced{};
  std::shared_ptr<fake_backend> backend;
  device_options how_;
};

inline device_op nothing(const char* name = "nothing") {
  return {.name = name, .run = [](const launch_site&) { return device_answer{}; }};
}

/// What a stream that breaks says: to the record behind it when it broke before that, else to the
/// wait.
inline failure failure_behind(device& d, const device_stream& s) {
  auto e = d.record_event(s);
  return e ? failure_of(d.wait(*e, long_enough)) : e.error();
}

} // namespace device_test
