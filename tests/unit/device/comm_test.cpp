// Groups of devices that sum together: their epochs, and what goes wrong with them. Method: as in
// faults_test.cpp; the second half runs on CPU devices, through the in-process reduction.

#include "support.hpp"

#include <thread>

namespace {

using namespace device_test;

/// Some devices of one backend in one group.
struct group_of {
  explicit group_of(fixture& f, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) {
      devices.push_back(f.open(i));
      streams.push_back(devices[i]->make_stream("reduce").value_or_throw());
    }
    key = devices[0]->comms().get_unique_id().value_or_throw();
  }
  /// All join at the same time, each on its own thread.
  std::vector<result<device_comm>> open(group_epoch epoch, duration timeout = long_enough) {
    std::vector<result<device_comm>> out(devices.size(), make_failure(errc::none, ""));
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < devices.size(); ++i)
      threads.emplace_back([&, i] {
        out[i] = devices[i]->comms().open(epoch, key, static_cast<std::uint32_t>(devices.size()), i,
                                          timeout);
      });
    for (auto& t : threads)
      t.join();
    return out;
  }
  std::vector<std::shared_ptr<device>> devices{};
  std::vector<device_stream> streams{};
  unique_id key{};
};

constexpr group_epoch first{1};

TEST_CASE("comm: two devices sum, behind what their streams hold") {
  fixture f{{.devices = 2}};
  group_of g{f, 2};
  auto comms = g.open(first);
  std::vector<float> x[2] = {{1, 2, 3}, {10, 20, 30}};
  std::vector<stream_event> events;
  for (std::uint32_t i = 0; i < 2; ++i) {
    REQUIRE(comms[i]);
    CHECK(comms[i]->size() == 2);
    events.push_back(
      g.devices[i]->comms().all_reduce(*comms[i], g.streams[i], x[i].data(), 3).value_or_throw());
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    CHECK(g.devices[i]->wait(events[i], long_enough));
    CHECK(x[i] == std::vector<float>{11, 22, 33});
  }
  events.clear();
  for (auto& d : g.devices)
    CHECK(d->close(2s));
  g.streams.clear();
  CHECK(f.backend->census() == fake_census{});
}

TEST_CASE("comm fault 01: a member that never comes ends the opening at its deadline") {
  fixture f{{.devices = 2}};
  group_of g{f, 2};
  auto alone = g.devices[0]->comms().open(first, g.key, 2, 0, 30ms);
  names(failure_of(alone), errc::deadline, {"gpu:0", "epoch 1", "rank 0 of 2"});
  CHECK(comes_true(f.env(), [&] { return g.devices[0]->comms().open_count() == 0; }));
  CHECK(g.devices[0]->close(2s));
}

TEST_CASE("comm fault 02: the library refuses to open") {
  fixture f;
  group_of g{f, 1};
  f.backend->plant({.function = "comm_open", .answer = {.status = device_status::invalid}});
  names(failure_of(g.devices[0]->comms().open(first, g.key, 1, 0, 1s)), errc::collective_failed,
        {"gpu:0", "epoch 1"});
  g.streams.clear();
  f.closes_clean(g.devices[0]);
}

TEST_CASE("comm fault 03: a rank outside the group") {
  fixture f;
  group_of g{f, 1};
  names(failure_of(g.devices[0]->comms().open(first, g.key, 1, 1, 1s)), errc::invalid_argument,
        {"gpu:0", "rank is 1 of 1"});
  g.streams.clear();
  f.closes_clean(g.devices[0]);
}

TEST_CASE("comm fault 04: revoke while opening ends it at once") {
  fixture f{{.devices = 2}};
  group_of g{f, 2};
  std::thread revoker{[&] {
    (void)comes_true(f.env(), [&] { return g.devices[0]->comms().open_count() == 1; });
    g.devices[0]->comms().revoke(first, "worker:1 is lost");
  }};
  auto alone = g.devices[0]->comms().open(first, g.key, 2, 0, long_enough);
  revoker.join();
  names(failure_of(alone), errc::revoked, {"gpu:0", "epoch 1", "worker:1 is lost"});
  CHECK(g.devices[0]->close(2s));
}

TEST_CASE(
  "comm: groups on one device count their epochs apart, and one that ends leaves the other") {
  fixture f;
  group_of g{f, 1};
  auto& comms = g.devices[0]->comms();
  const comm_epochs mine, others;
  auto open = [&](group_epoch epoch, const comm_epochs& of) {
    return comms.open(epoch, comms.get_unique_id().value_or_throw(), 1, 0, long_enough, of);
  };
  auto a = open(group_epoch{7}, mine).value_or_throw();
  auto b = open(group_epoch{3}, others).value_or_throw();
  auto c = *g.open(first)[0]; // of who brings no epochs
  comms.revoke(group_epoch{9}, "mine are over", mine);
  names(a.broken().value_or(failure{}), errc::revoked, {"epoch 7", "mine are over"});
  CHECK(!b.broken());
  CHECK(!c.broken());
  names(failure_of(open(group_epoch{9}, mine)), errc::revoked, {"epoch 9"});
  CHECK(open(group_epoch{10}, mine));
  others.end(group_epoch{4}); // what is open stays
  CHECK(!b.broken());
  names(failure_of(open(group_epoch{4}, others)), errc::revoked, {"epoch 4"});
  comms.revoke(first, "and the last");
  CHECK(c.broken());
  CHECK(!b.broken());
  g.streams.clear();
  f.closes_clean(g.devices[0]);
  CHECK(b.broken());
}

TEST_CASE("comm fault 05: revoke in the middle of a collective frees the stream") {
  fixture f{{.devices = 2}};
  group_of g{f, 2};
  auto comms = g.open(first);
  std::vector<float> x(8, 1.0f);
  auto& d = *g.devices[0];
  auto e = d.comms().all_reduce(*comms[0], g.streams[0], x.data(), x.size()).value_or_throw();
  CHECK(d.passed(e).value_or_throw() == false); // the other never came
  std::atomic<int> told{0};
  REQUIRE(d.notify(e, [&](const result<void>& out) {
    told += !out && out.error().code == errc::revoked ? 1 : 100;
  }));
  d.comms().revoke(first, "worker:1 is lost");
  names(failure_of(d.wait(e, long_enough)), errc::revoked, {"epoch 1", "worker:1 is lost"});
  CHECK(comes_true(f.env(), [&] { return told == 1; }));
  names(failure_of(d.comms().all_reduce(*comms[0], g.streams[0], x.data(), 8)), errc::revoked,
        {"worker:1 is lost"});
  // The device is well: it goes on with other work on the same stream.
  auto next = d.submit(g.streams[0], nothing()).value_or_throw();
  CHECK(d.wait(next, long_enough));
  for (auto& each : g.devices)
    CHECK(each->close(2s));
}

TEST_CASE("comm fault 06: an abort that hangs ends the device, not the process") {
  fixture f{{.devices = 2}};
  group_of g{f, 2};
  auto comms = g.open(first);
  f.backend->plant({.function = "comm_abort", .device = 0, .hang = true});
  g.devices[0]->comms().revoke(first, "worker:1 is lost");
  REQUIRE(comes_true(f.env(), [&] { return g.devices[0]->why_failed().has_value(); }));
  names(*g.devices[0]->why_failed(), errc::device_timeout, {"gpu:0", "epoch 1", "abort hangs"});
  CHECK(!g.devices[0]->close(2s));
  CHECK(!g.devices[1]->why_failed());
  CHECK(g.devices[1]->close(2s));
  f.backend->release_hangs();
}

TEST_CASE("comm fault 07: closing does not wait for an abort for ever") {
  auto how = quick();
  how.abort_max = 60s;
  fixture f{{.devices = 2}, how};
  group_of g{f, 2};
  auto comms = g.open(first);
  f.backend->plant({.function = "comm_abort", .device = 0, .hang = true});
  names(failure_of(g.devices[0]->close(100ms)), errc::device_timeout, {"gpu:0", "abort hangs"});
  f.backend->release_hangs();
  CHECK(g.devices[1]->close(2s));
}

TEST_CASE("comm fault 08: a communicator that breaks by itself is aborted") {
  fixture f{{.devices = 2}};
  group_of g{f, 2};
  auto comms = g.open(first);
  f.backend->plant(
    {.function = "comm_status",
     .device = 0,
     .answer = {.status = device_status::invalid, .native = 6, .text = "remote error"}});
  REQUIRE(comes_true(f.env(), [&] { return comms[0]->broken().has_value(); }));
  names(*comms[0]->broken(), errc::collective_failed, {"gpu:0", "epoch 1", "remote error", "6"});
  CHECK(comes_true(f.env(), [&] { return f.backend->calls("comm_abort") == 1; }));
  CHECK(!g.devices[0]->why_failed());
  for (auto& each : g.devices)
    CHECK(each->close(2s));
}

TEST_CASE("comm fault 09: a collective that can't be started breaks its group") {
  fixture f{{.devices = 1}};
  group_of g{f, 1};
  auto comms = g.open(first);
  std::vector<float> x(8, 1.0f);
  f.backend->plant({.function = "comm_all_reduce", .answer = {.status = device_status::invalid}});
  names(failure_of(g.devices[0]->comms().all_reduce(*comms[0], g.streams[0], x.data(), 8)),
        errc::collective_failed, {"gpu:0", "all_reduce"});
  CHECK(comms[0]->broken());
  CHECK(g.devices[0]->close(2s));
}

TEST_CASE("comm fault 10: the device is lost in the middle of a collective") {
  fixture f{{.devices = 2}};
  group_of g{f, 2};
  auto comms = g.open(first);
  std::vector<float> x(8, 1.0f);
  auto e = g.devices[0]->comms().all_reduce(*comms[0], g.streams[0], x.data(), 8).value_or_throw();
  f.backend->lose(0);
  names(failure_of(g.devices[0]->wait(e, long_enough)), errc::device_lost, {"gpu:0"});
  CHECK(!g.devices[0]->close(2s));
  CHECK(g.devices[1]->close(2s));
}

TEST_CASE("comm fault 11: an epoch that was revoked takes no new members") {
  fixture f;
  group_of g{f, 1};
  g.devices[0]->comms().revoke(group_epoch{3}, "a member left");
  names(failure_of(g.devices[0]->comms().open(group_epoch{2}, g.key, 1, 0, 1s)), errc::revoked,
        {"epoch 2"});
  names(failure_of(g.devices[0]->comms().open(group_epoch{3}, g.key, 1, 0, 1s)), errc::revoked,
        {"epoch 3"});
  auto next = g.devices[0]->comms().open(group_epoch{4}, g.key, 1, 0, 1s);
  REQUIRE(next);
  CHECK(next->epoch() == group_epoch{4});
  CHECK(g.devices[0]->close(2s));
}

TEST_CASE("comm: CPU devices sum through the in-process reduction, and a revoke frees them") {
  counting_tracer traced;
  fixture f; // for its environment
  auto backend = make_cpu_backend(f.env(), {.devices = 2});
  std::vector<std::shared_ptr<device>> devices;
  std::vector<device_stream> streams;
  for (std::uint32_t i = 0; i < 2; ++i) {
    devices.push_back(device::open(f.env(), backend, i, quick()).value_or_throw());
    streams.push_back(devices[i]->make_stream("reduce").value_or_throw());
  }
  auto key = devices[0]->comms().get_unique_id().value_or_throw();
  std::vector<device_comm> comms(2);
  {
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        comms[i] = devices[i]->comms().open(first, key, 2, i, long_enough).value_or_throw();
      });
    for (auto& t : threads)
      t.join();
  }
  std::vector<float> x[2] = {std::vector<float>(1000, 1.5f), std::vector<float>(1000, 2.0f)};
  std::vector<stream_event> events;
  for (std::uint32_t i = 0; i < 2; ++i)
    events.push_back(
      devices[i]->comms().all_reduce(comms[i], streams[i], x[i].data(), 1000).value_or_throw());
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto done = devices[i]->wait(events[i], long_enough);
    CHECK_MESSAGE(done, (done ? std::string{} : to_string(done.error())));
    CHECK(x[i] == std::vector<float>(1000, 3.5f));
  }
  // One member alone in the next: it waits in the collective until its epoch ends.
  auto alone =
    devices[0]->comms().all_reduce(comms[0], streams[0], x[0].data(), 1000).value_or_throw();
  devices[0]->comms().revoke(first, "the other left");
  names(failure_of(devices[0]->wait(alone, long_enough)), errc::revoked,
        {"cpu:0", "the other left"});
  auto after_it = devices[0]->submit(streams[0], nothing()).value_or_throw();
  CHECK(devices[0]->wait(after_it, long_enough));
  for (auto& d : devices)
    CHECK(d->close(5s));
}

} // namespace
