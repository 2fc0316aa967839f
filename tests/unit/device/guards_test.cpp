// Work that stands behind a collective which broke: who is told, on which stream, and who is not
// kept waiting. Method: two CPU devices through the in-process reduction, and two made-up GPUs.

#include "support.hpp"

#include <thread>

#include <troupe/device/bucket_reducer.hpp>

namespace {

using namespace device_test;

/// Two devices of one backend, and their communicators.
struct pair_of {
  pair_of(const environment& env, const std::shared_ptr<device_backend>& backend,
          device_options how = patient()) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      devices.push_back(device::open(env, backend, i, how).value_or_throw());
      compute.push_back(devices[i]->make_stream("compute").value_or_throw());
      reduce.push_back(devices[i]->make_stream("reduce").value_or_throw());
    }
  }
  std::vector<device_comm> open(group_epoch epoch) {
    auto key = devices[0]->comms().get_unique_id().value_or_throw();
    std::vector<device_comm> out(2);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        out[i] = devices[i]->comms().open(epoch, key, 2, i, long_enough).value_or_throw();
      });
    for (auto& t : threads)
      t.join();
    return out;
  }
  void close() {
    for (auto& d : devices)
      CHECK(d->close(5s));
  }
  std::vector<std::shared_ptr<device>> devices{};
  std::vector<device_stream> compute{}, reduce{};
};

TEST_CASE("comm: a sum that broke is not told as done, on the side that did not revoke") {
  fixture f;
  auto backend = make_cpu_backend(f.env(), {.devices = 2});
  pair_of two{f.env(), backend};
  for (std::uint32_t round = 1; round <= 10; ++round) {
    auto comms = two.open(group_epoch{round});
    std::vector<float> x(1000, 1.0f);
    auto& d = *two.devices[0];
    auto e = d.comms().all_reduce(comms[0], two.reduce[0], x.data(), 1000).value_or_throw();
    std::atomic<int> told{0};
    auto hear = [&](const result<void>& out) {
      told += !out && out.error().code == errc::collective_failed ? 1 : 100;
    };
    if (round % 2 == 0) // the poller's way
      REQUIRE(d.notify(e, hear));
    else // nobody but who waits looks before the poller's idle round
      hear([&] {
        std::thread other{
          [&] { two.devices[1]->comms().revoke(group_epoch{round}, "the other left"); }};
        auto out = d.wait(e, long_enough);
        other.join();
        return out;
      }());
    two.devices[1]->comms().revoke(group_epoch{round}, "the other left");
    CHECK(comes_true(f.env(), [&] { return told != 0; }));
    CHECK(told == 1);
  }
  two.close();
}

TEST_CASE("comm: what another stream does with a sum that broke is told") {
  fixture f{{.devices = 2}};
  pair_of two{f.env(), f.backend};
  auto comms = two.open(group_epoch{1});
  auto& d = two.devices[0];
  {
    auto g = device_tensor::from_host(d, two.compute[0], tensor::vector<float>({1, 2}));
    bucket_reducer reducer{d, comms[0], two.reduce[0]};
    REQUIRE(reducer.add(*g, two.compute[0]));
    auto summed = reducer.finish(two.compute[0]).value_or_throw();
    REQUIRE(d->enqueue(two.compute[0], nothing("sgd"))); // on what the sum left
    d->comms().revoke(group_epoch{1}, "worker:1 is lost");
    names(failure_of(g->to_host(two.compute[0], long_enough)), errc::revoked, {"worker:1 is lost"});
    // By now it is known: the stream is free for a new start.
    CHECK(g->to_host(two.compute[0], long_enough));
    names(failure_of(d->wait(summed, long_enough)), errc::revoked, {"worker:1 is lost"});
    CHECK(d->wait(d->record_event(two.reduce[0]).value_or_throw(), long_enough));
  }
  two.close();
}

TEST_CASE("comm: a sum that went well leaves its streams free of its group") {
  fixture f{{.devices = 2}};
  pair_of two{f.env(), f.backend};
  auto comms = two.open(group_epoch{1});
  std::vector<float> x(2, 1.0f);
  std::vector<stream_event> events;
  for (std::size_t i = 0; i < 2; ++i) {
    auto& d = two.devices[i];
    auto e = d->comms().all_reduce(comms[i], two.reduce[i], x.data(), 2).value_or_throw();
    REQUIRE(d->wait_event(two.compute[i], e));
    events.push_back(d->record_event(two.compute[i]).value_or_throw());
  }
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(two.devices[i]->wait(events[i], long_enough));
  auto& d = two.devices[0];
  d->comms().revoke(group_epoch{1}, "all is done");
  CHECK(d->wait(d->record_event(two.compute[0]).value_or_throw(), long_enough));
  two.close();
}

TEST_CASE("comm: a member that does not come in time ends the group, not the device") {
  for (bool waits : {true, false}) {
    CAPTURE(waits);
    fixture f{{.devices = 2}};
    pair_of two{f.env(), f.backend, quick()};
    auto comms = two.open(group_epoch{1});
    std::vector<float> x(8, 1.0f);
    auto& d = two.devices[0];
    auto e = d->comms().all_reduce(comms[0], two.reduce[0], x.data(), 8).value_or_throw();
    REQUIRE(d->wait_event(two.compute[0], e));
    auto behind = d->record_event(two.compute[0]).value_or_throw();
    if (waits)
      names(failure_of(d->wait(behind, long_enough)), errc::collective_failed,
            {"gpu:0", "epoch 1", "hangs", "member"});
    else {
      std::atomic<int> told{0};
      REQUIRE(d->notify(behind, [&](const result<void>& out) {
        told += !out && out.error().code == errc::collective_failed ? 1 : 100;
      }));
      CHECK(comes_true(f.env(), [&] { return told == 1; }));
    }
    CHECK(comms[0].broken());
    CHECK(d->wait(d->submit(two.compute[0], nothing()).value_or_throw(), long_enough));
    CHECK(!d->why_failed());
    two.close();
  }
}

TEST_CASE("comm: a revoke does not wait for a collective that waits for a full queue") {
  fixture f;
  auto backend = make_cpu_backend(f.env(), {.devices = 2, .queue_len_max = 2, .full_max = 30s});
  pair_of two{f.env(), backend};
  auto comms = two.open(group_epoch{1});
  std::vector<float> x(1000, 1.0f);
  std::atomic<int> put{0};
  auto& d = *two.devices[0];
  std::thread sums{[&] {
    while (d.comms().all_reduce(comms[0], two.reduce[0], x.data(), 1000))
      ++put;
  }};
  REQUIRE(comes_true(f.env(), [&] { return put == 2; })); // and the third waits
  const auto begin = f.env().clock.now();
  d.comms().revoke(group_epoch{1}, "the other left");
  sums.join();
  CHECK(f.env().clock.now() - begin < 10s);
  CHECK(!d.why_failed());
  two.close();
}

} // namespace
