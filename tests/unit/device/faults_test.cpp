// What goes wrong with a device, one scenario a test. Each ends in an error that names the device
// and, where there is one, the stream and the operation; and in a teardown that either leaves
// nothing behind or touches nothing that is broken. Method: a made-up GPU with faults on demand, on
// this machine's clock, threads and waits; the device code is the one that runs on CUDA.

#include "support.hpp"

namespace {

using namespace device_test;

TEST_CASE("fault 01: devices can't be counted") {
  fixture f;
  f.backend->plant({.function = "count", .answer = {.status = device_status::unavailable}});
  names(failure_of(device::open(f.env(), f.backend, 0)), errc::device_unavailable, {"unavailable"});
  CHECK(f.backend->census() == fake_census{});
}

TEST_CASE("fault 02: there is no device of that number") {
  fixture f;
  names(failure_of(device::open(f.env(), f.backend, 3)), errc::device_unavailable,
        {"gpu:3", "number of devices of that kind: 1"});
}

TEST_CASE("fault 03: a device can't be described") {
  fixture f;
  f.backend->plant({.function = "describe", .answer = {.status = device_status::unavailable}});
  names(failure_of(device::open(f.env(), f.backend, 0)), errc::device_unavailable, {"gpu:0"});
}

TEST_CASE("fault 04: a device can't be bound") {
  fixture f;
  f.backend->plant({.function = "bind", .answer = {.status = device_status::lost}});
  names(failure_of(device::open(f.env(), f.backend, 0)), errc::device_lost, {"gpu:0", "bind"});
  CHECK(f.backend->census() == fake_census{});
}

TEST_CASE("fault 05: a stream can't be made, and the device goes on") {
  fixture f;
  auto d = f.open();
  f.backend->plant({.function = "make_stream", .answer = {.status = device_status::out_of_memory}});
  names(failure_of(d->make_stream("compute")), errc::device_memory,
        {"gpu:0", "'compute'", "make_stream"});
  CHECK(d->make_stream("compute"));
  f.closes_clean(d);
}

TEST_CASE("fault 06: more streams than allowed") {
  auto how = quick();
  how.streams_max = 2;
  fixture f{{}, how};
  auto d = f.open();
  CHECK(d->make_stream("a"));
  CHECK(d->make_stream("b"));
  names(failure_of(d->make_stream("c")), errc::out_of_range, {"gpu:0", "'c'", "2"});
  f.closes_clean(d);
}

TEST_CASE("fault 07: an event can't be made") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "make_event", .answer = {.status = device_status::out_of_memory}});
  names(failure_of(d->submit(s, nothing("adam"))), errc::device_memory,
        {"gpu:0", "'compute'", "'adam'"});
  auto e = d->submit(s, nothing("adam")).value_or_throw();
  CHECK(d->wait(e, long_enough));
  e = {};
  f.closes_clean(d);
}

TEST_CASE("fault 08: memory beyond what the device has") {
  fixture f{{.memory_bytes = 1 << 20}};
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  names(failure_of(d->allocate(2 << 20, s)), errc::device_memory,
        {"gpu:0", "2097152 bytes requested", "0 in use", "1048576 in all"});
  CHECK(d->allocate(1 << 19, s));
  CHECK(!d->why_failed());
  f.closes_clean(d);
}

TEST_CASE("fault 09: a full device gives its cache back and serves the request") {
  fixture f{{.memory_bytes = 1 << 20}};
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  { auto gone = d->allocate(1 << 19, s).value_or_throw(); }
  { auto gone = d->allocate(1 << 18, s).value_or_throw(); }
  REQUIRE(d->wait(d->record_event(s).value_or_throw(), long_enough));
  auto big = d->allocate(1 << 20, s).value_or_throw();
  CHECK(d->statistics().memory.trims == 1);
  CHECK(d->statistics().memory.bytes_cached == 0);
  big = {};
  f.closes_clean(d);
}

TEST_CASE("fault 10: the pool's own bound is the error's, not the device's") {
  auto how = quick();
  how.pool.bytes_max = 64 * 1024;
  fixture f{{}, how};
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  auto held = d->allocate(48 * 1024, s).value_or_throw();
  names(failure_of(d->allocate(32 * 1024, s)), errc::device_memory,
        {"32768 bytes requested", "49152 in use"});
  held = {};
  f.closes_clean(d);
}

TEST_CASE("fault 11: pinned host memory runs out") {
  fixture f{{.host_bytes = 4096}};
  auto d = f.open();
  auto s = d->make_stream("copies").value_or_throw();
  names(failure_of(d->allocate_host(8192, s)), errc::device_memory,
        {"gpu:0", "pinned host memory", "8192"});
  f.closes_clean(d);
}

TEST_CASE("fault 12: the driver breaks while it allocates") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant(
    {.function = "allocate", .answer = {.status = device_status::failed, .native = 999}});
  names(failure_of(d->allocate(4096, s)), errc::device_lost, {"gpu:0", "allocate", "999"});
  names(failure_of(d->submit(s, nothing())), errc::device_lost, {"allocate"});
  f.closes_abandoned(d, errc::device_lost);
}

TEST_CASE("fault 13: a launch that the driver refuses ends nothing") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant(
    {.function = "run",
     .answer = {
       .status = device_status::invalid, .native = 9, .text = "cudaErrorInvalidConfiguration"}});
  names(failure_of(d->submit(s, nothing("too_wide"))), errc::invalid_argument,
        {"gpu:0", "'compute'", "'too_wide'", "cudaErrorInvalidConfiguration", "9"});
  CHECK(!d->why_failed());
  CHECK(d->submit(s, nothing("fits")));
  f.closes_clean(d);
}

TEST_CASE("fault 14: a launch that breaks the device is sticky") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "run", .answer = {.status = device_status::launch_failed}});
  names(failure_of(d->submit(s, nothing("adam"))), errc::launch_failed,
        {"gpu:0", "'compute'", "'adam'"});
  names(failure_of(d->allocate(16, s)), errc::launch_failed, {"'adam'"});
  names(failure_of(d->make_stream("more")), errc::launch_failed, {"'adam'"});
  f.closes_abandoned(d, errc::launch_failed);
}

TEST_CASE("fault 15: an operation that breaks as it runs shows at the wait behind it") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant(
    {.function = "execute:softmax",
     .answer = {
       .status = device_status::launch_failed, .native = 700, .text = "cudaErrorIllegalAddress"}});
  auto e = d->submit(s, nothing("softmax")).value_or_throw();
  names(failure_of(d->wait(e, long_enough)), errc::launch_failed,
        {"gpu:0", "cudaErrorIllegalAddress", "700"});
  f.closes_abandoned(d, errc::launch_failed);
}

TEST_CASE("fault 16: the operation's own code says no") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  auto e =
    d->submit(
       s,
       {.name = "picky",
        .run = [](const launch_site&) { return device_answer{.status = device_status::invalid}; }})
      .value_or_throw();
  names(failure_of(d->wait(e, long_enough)), errc::launch_failed, {"gpu:0"});
  f.closes_abandoned(d, errc::launch_failed);
}

TEST_CASE("fault 17: a copy that the driver refuses") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("copies").value_or_throw();
  char from[8] = "1234567";
  auto to = d->allocate(8, s).value_or_throw();
  f.backend->plant({.function = "copy", .answer = {.status = device_status::invalid}});
  names(failure_of(d->copy(s, to.data(), from, 8, copy_kind::host_to_device)),
        errc::invalid_argument, {"gpu:0", "'copies'", "'copy'"});
  names(failure_of(d->copy(s, nullptr, from, 8, copy_kind::host_to_device)), errc::invalid_argument,
        {"8 bytes", "null"});
  auto e = d->copy(s, to.data(), from, 8, copy_kind::host_to_device).value_or_throw();
  CHECK(d->wait(e, long_enough));
  CHECK(std::memcmp(to.data(), from, 8) == 0);
  to = {};
  e = {};
  f.closes_clean(d);
}

TEST_CASE("fault 18: a copy that takes the device with it") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("copies").value_or_throw();
  char from[8] = {};
  auto to = d->allocate(8, s).value_or_throw();
  f.backend->plant({.function = "execute:copy", .answer = {.status = device_status::lost}});
  auto e = d->copy(s, to.data(), from, 8, copy_kind::host_to_device).value_or_throw();
  names(failure_of(d->wait(e, long_enough)), errc::device_lost, {"gpu:0"});
  f.closes_abandoned(d, errc::device_lost);
}

TEST_CASE("fault 19: an event can't be recorded") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "record", .answer = {.status = device_status::failed}});
  names(failure_of(d->submit(s, nothing("adam"))), errc::device_lost,
        {"gpu:0", "'compute'", "'adam'"});
  f.closes_abandoned(d, errc::device_lost);
}

TEST_CASE("fault 20: a stream can't be made to wait") {
  fixture f;
  auto d = f.open();
  auto a = d->make_stream("compute").value_or_throw();
  auto b = d->make_stream("reduce").value_or_throw();
  auto e = d->submit(a, nothing("layer")).value_or_throw();
  f.backend->plant({.function = "depend", .answer = {.status = device_status::invalid}});
  names(failure_of(d->wait_event(b, e)), errc::invalid_argument, {"gpu:0", "'reduce'", "'layer'"});
  e = {};
  f.closes_clean(d);
}

TEST_CASE("fault 21: an operation hangs, and the caller's patience ends first") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto e = d->submit(s, nothing("spin")).value_or_throw();
  names(failure_of(d->wait(e, 20ms)), errc::device_timeout,
        {"gpu:0", "'compute'", "'spin'", "20 ms"});
  CHECK(!d->why_failed()); // slow is not dead
  f.backend->release_hangs();
  CHECK(d->wait(e, long_enough));
  e = {};
  f.closes_clean(d);
}

TEST_CASE("fault 22: an operation that hangs for too long ends the device") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto e = d->submit(s, nothing("spin")).value_or_throw();
  names(failure_of(d->wait(e, long_enough)), errc::device_timeout,
        {"gpu:0", "'compute'", "'spin'", "hangs"});
  f.closes_abandoned(d, errc::device_timeout);
}

TEST_CASE("fault 23: the poller sees a hang that nobody waits for") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto e = d->submit(s, nothing("spin")).value_or_throw();
  std::atomic<int> told{0};
  std::mutex mutex;
  failure why;
  REQUIRE(d->notify(e, [&](const result<void>& out) {
    std::lock_guard lock{mutex};
    if (!out)
      why = out.error();
    ++told;
  }));
  REQUIRE(comes_true(f.env(), [&] { return told == 1; }));
  names(why, errc::device_timeout, {"gpu:0", "'compute'", "'spin'"});
  f.closes_abandoned(d, errc::device_timeout);
}

TEST_CASE("fault 24: a device falls off its bus while nothing is asked of it") {
  fixture f;
  auto d = f.open();
  std::atomic<int> told{0};
  d->on_failure([&](const failure&) { ++told; });
  f.backend->lose(0);
  REQUIRE(comes_true(f.env(), [&] { return told == 1; })); // the poller looks
  names(*d->why_failed(), errc::device_lost, {"gpu:0", "fell off its bus"});
  d->on_failure([&](const failure&) { ++told; }); // who comes late hears of it too
  CHECK(told == 2);
  f.closes_abandoned(d, errc::device_lost);
}

TEST_CASE("fault 25: a lost device ends every wait and every notification") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto e = d->submit(s, nothing("spin")).value_or_throw();
  std::atomic<int> told{0};
  for (int i = 0; i < 3; ++i)
    REQUIRE(d->notify(e, [&](const result<void>& out) { told += out ? 100 : 1; }));
  f.backend->lose(0);
  names(failure_of(d->wait(e, long_enough)), errc::device_lost, {"gpu:0"});
  CHECK(comes_true(f.env(), [&] { return told == 3; }));
  f.closes_abandoned(d, errc::device_lost);
}

TEST_CASE("fault 26: one of two devices is lost, the other goes on") {
  fixture f{{.devices = 2}};
  auto a = f.open(0);
  auto b = f.open(1);
  auto s = b->make_stream("compute").value_or_throw();
  f.backend->lose(0);
  REQUIRE(comes_true(f.env(), [&] { return a->why_failed().has_value(); }));
  auto e = b->submit(s, nothing()).value_or_throw();
  CHECK(b->wait(e, long_enough));
  CHECK(!b->why_failed());
  f.closes_abandoned(a, errc::device_lost);
  CHECK(b->close(2s));
}

TEST_CASE("fault 27: too many notifications are refused, not queued") {
  auto how = quick();
  how.notify_max = 2;
  how.hang_after = 60s;
  fixture f{{}, how};
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto e = d->submit(s, nothing("spin")).value_or_throw();
  std::atomic<int> told{0};
  auto count = [&](const result<void>&) { ++told; };
  CHECK(d->notify(e, count));
  CHECK(d->notify(e, count));
  // The poller holds open events in its hands for a moment, where they don't count.
  REQUIRE(comes_true(f.env(), [&] {
    auto more = d->notify(e, count);
    if (!more)
      names(more.error(), errc::try_again, {"gpu:0", "2 events"});
    return !more;
  }));
  f.backend->release_hangs();
  e = {};
  f.closes_clean(d);
}

TEST_CASE("fault 28: a host callback that can't be posted costs a round of the poller, no more") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "post", .answer = {.status = device_status::invalid}});
  auto e = d->submit(s, nothing()).value_or_throw();
  std::atomic<int> told{0};
  REQUIRE(d->notify(e, [&](const result<void>& out) { told += out ? 1 : 100; }));
  CHECK(comes_true(f.env(), [&] { return told == 1; }));
  e = {};
  f.closes_clean(d);
}

TEST_CASE("fault 29: closing waits for what runs, but not for ever") {
  auto how = quick();
  how.hang_after = 60s;
  fixture f{{}, how};
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  REQUIRE(d->submit(s, nothing("spin")));
  auto closed = d->close(50ms);
  names(failure_of(closed), errc::device_timeout, {"gpu:0", "'compute'", "does not end"});
  CHECK(f.traced.events("device.abandoned") == 1);
}

TEST_CASE("fault 30: the driver hangs in a call of the poller") {
  auto how = quick();
  fixture f{{}, how};
  auto d = f.open();
  f.backend->plant({.function = "health", .hang = true});
  REQUIRE(comes_true(f.env(), [&] { return f.backend->hanging() == 1; }));
  auto closed = d->close(100ms);
  names(failure_of(closed), errc::device_timeout, {"gpu:0", "poller"});
  CHECK(f.traced.events("device.abandoned") == 1);
  f.backend->release_hangs();
}

TEST_CASE("fault 31: memory and events that come back after the device failed are left alone") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  auto m = d->allocate(4096, s).value_or_throw();
  auto e = d->submit(s, nothing()).value_or_throw();
  f.backend->lose(0);
  REQUIRE(comes_true(f.env(), [&] { return d->why_failed().has_value(); }));
  f.closes_abandoned(d, errc::device_lost);
  const auto released = f.backend->calls("release");
  const auto dropped = f.backend->calls("drop_event");
  m = {};
  e = {};
  d.reset();
  CHECK(f.backend->calls("release") == released);
  CHECK(f.backend->calls("drop_event") == dropped);
}

TEST_CASE("fault 32: handles may outlive a device that closed well") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  auto m = d->allocate(4096, s).value_or_throw();
  auto e = d->submit(s, nothing()).value_or_throw();
  REQUIRE(d->close(2s));
  names(failure_of(d->submit(s, nothing("late"))), errc::wrong_state, {"gpu:0", "late", "closed"});
  names(failure_of(d->wait(e, 1s)), errc::wrong_state, {"gpu:0"});
  m = {};
  e = {};
  s = {};
  d.reset();
  CHECK(f.backend->census() == fake_census{});
}

TEST_CASE("fault 33: an answer that nobody knows ends the device only when the device is ill") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  f.backend->plant({.function = "run",
                    .answer = {.status = device_status::failed, .native = 999, .text = "news"},
                    .breaks = false});
  names(failure_of(d->submit(s, nothing("adam"))), errc::invalid_argument,
        {"gpu:0", "'compute'", "'adam'", "news", "999"});
  CHECK(!d->why_failed());
  CHECK(d->wait(d->submit(s, nothing()).value_or_throw(), long_enough));
  f.backend->plant(
    {.function = "run", .answer = {.status = device_status::failed, .text = "news"}});
  names(failure_of(d->submit(s, nothing("adam"))), errc::device_lost, {"gpu:0", "news"});
  f.closes_abandoned(d, errc::device_lost);
}

} // namespace
