// Streams, events, memory and collectives on a GPU; those that go wrong without hurting it.

#include <troupe/core/dlpack.hpp>
#include <troupe/device/ops.hpp>

#include <atomic>

#include "gpu_support.hpp"

namespace {

using namespace gpu_test;

GPU_TEST("gpu: facts") {
  auto d = open_gpu();
  MESSAGE(d->facts().name << ", " << d->facts().arch << ", " << d->facts().memory_bytes
                          << " bytes");
  CHECK(d->facts().arch.starts_with("sm_"));
  CHECK(d->facts().memory_bytes > 0);
  closes_well(d);
}

GPU_TEST("gpu: there is no device of a number that is too high") {
  auto count = here().backend->count().value_or_throw();
  auto none = device::open(here().env, here().backend, count);
  REQUIRE(!none);
  CHECK(none.error().code == errc::device_unavailable);
}

GPU_TEST("gpu: streams run in order and wait for each other's events") {
  auto d = open_gpu();
  {
    auto a = d->make_stream("a").value_or_throw(), b = d->make_stream("b").value_or_throw();
    device_ops on_a{d, a}, on_b{d, b};
    constexpr std::int64_t n = 1 << 20;
    auto x = device_tensor::make(d, a, dtype::f32, {n}).value_or_throw();
    x.used_on(b);
    REQUIRE(on_a.fill(1, x));
    for (int i = 0; i < 50; ++i) { // x = 2 x + 1, the halves on streams of their own
      REQUIRE(on_a.scale(2, x, x));
      REQUIRE(d->wait_event(b, on_a.record_event().value_or_throw()));
      REQUIRE(on_b.scale(0.5, x, x));
      REQUIRE(d->wait_event(a, on_b.record_event().value_or_throw()));
    }
    auto out = x.to_host(a).value_or_throw();
    CHECK(out.as<float>()[0] == 1.0f);
    CHECK(out.as<float>()[n - 1] == 1.0f);
  }
  closes_well(d);
}

GPU_TEST("gpu: the poller tells of events, and the host is called back") {
  auto d = open_gpu();
  auto s = d->make_stream("s").value_or_throw();
  std::atomic<int> told{0};
  for (int i = 0; i < 100; ++i) {
    auto e =
      d->submit(s, {.name = "nothing", .run = [](const launch_site&) { return device_answer{}; }})
        .value_or_throw();
    REQUIRE(d->notify(e, [&](const result<void>& out) { told += out ? 1 : 1000; }));
  }
  REQUIRE(d->wait(d->record_event(s).value_or_throw(), 20s));
  closes_well(d); // tells the rest
  CHECK(told.load() % 1000 + told.load() / 1000 == 100);
}

GPU_TEST("gpu: memory beyond what there is says so, and the device goes on") {
  auto d = open_gpu();
  auto s = d->make_stream("s").value_or_throw();
  auto no = d->allocate(std::size_t{1} << 46, s);
  REQUIRE(!no);
  CHECK(no.error().code == errc::device_memory);
  CHECK(no.error().text.find("gpu:0") != std::string::npos);
  CHECK(!d->why_failed());
  CHECK(d->allocate(1 << 20, s));
  closes_well(d);
}

GPU_TEST("gpu: a launch that is refused names its operation, and the device goes on") {
  auto d = open_gpu();
  auto s = d->make_stream("s").value_or_throw();
  auto no = d->submit(s, {.name = "too_wide", .run = [](const launch_site&) {
                            return cuda_answer(9); // cudaErrorInvalidConfiguration
                          }});
  REQUIRE(!no);
  CHECK(no.error().code == errc::invalid_argument);
  CHECK(no.error().text.find("too_wide") != std::string::npos);
  CHECK(!d->why_failed());
  closes_well(d);
}

GPU_TEST("gpu: tensors there and back, and through DLPack") {
  auto d = open_gpu();
  auto s = d->make_stream("s").value_or_throw();
  {
    auto x = tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
    auto on_device = device_tensor::from_host(d, s, x).value_or_throw();
    CHECK(to_string(on_device.where()) == "gpu:0");
    auto again = from_dlpack(to_dlpack(on_device), d).value_or_throw();
    CHECK(again.data() == on_device.data());
    CHECK(again.to_host(s).value_or_throw() == x);
  }
  closes_well(d);
}

GPU_TEST("gpu: a group of one device sums, and is revoked") {
  auto d = open_gpu();
  auto s = d->make_stream("reduce").value_or_throw();
  auto key = d->comms().get_unique_id();
  if (!key) {
    MESSAGE("no collectives: " << key.error().text);
    closes_well(d);
    return;
  }
  {
    auto comm = d->comms().open(group_epoch{1}, *key, 1, 0, 60s).value_or_throw();
    auto x = device_tensor::from_host(d, s, tensor::of<float>({3}, {1, 2, 3})).value_or_throw();
    auto e = d->comms().all_reduce(comm, s, x.data(), 3).value_or_throw();
    CHECK(d->wait(e, 20s));
    CHECK(x.to_host(s).value_or_throw() == tensor::of<float>({3}, {1, 2, 3}));
    d->comms().revoke(group_epoch{1}, "the test says so");
    auto no = d->comms().all_reduce(comm, s, x.data(), 3);
    REQUIRE(!no);
    CHECK(no.error().code == errc::revoked);
  }
  closes_well(d);
}

} // namespace
