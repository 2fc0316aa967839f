// Streams, events, memory and tensors when all is well: order, reuse, moving, sharing with other
// libraries. Method: a made-up GPU whose operations take virtual care of order, and CPU devices.

#include "support.hpp"

#include <troupe/core/dlpack.hpp>
#include <troupe/device/tensor.hpp>

#include <dlpack/dlpack.h>

namespace {

using namespace device_test;

/// Both kinds of device that can be had anywhere, with room for slow work.
struct both {
  both() {
    auto how = quick();
    how.hang_after = 60s;
    f = std::make_unique<fixture>(fake_options{}, how);
    fake = f->open();
    cpu = device::open(f->env(), make_cpu_backend(f->env()), 0, how).value_or_throw();
  }
  ~both() {
    CHECK(fake->close(5s));
    CHECK(cpu->close(5s));
  }
  std::vector<std::shared_ptr<device>> all() { return {fake, cpu}; }
  std::unique_ptr<fixture> f;
  std::shared_ptr<device> fake, cpu;
};

device_op push(std::vector<int>& to, std::mutex& mutex, int what) {
  return {.name = "push", .run = [&to, &mutex, what](const launch_site&) {
            std::lock_guard lock{mutex};
            to.push_back(what);
            return device_answer{};
          }};
}

TEST_CASE("device: names") {
  CHECK(to_string(device_id{device_kind::gpu, 3}) == "gpu:3");
  CHECK(parse_device("cpu:0").value_or_throw() == device_id{});
  CHECK(parse_device("gpu:12").value_or_throw() == device_id{device_kind::gpu, 12});
  for (auto bad :
       {"", "gpu", "gpu:", "gpu:x", "gpu:-1", "gpu:01", "tpu:0", "cpu:4294967296", "cpu:1 "})
    names(failure_of(parse_device(bad)), errc::invalid_argument, {bad, "cpu:N"});
}

TEST_CASE("device: a stream runs in order, and others wait by events") {
  both b;
  for (auto& d : b.all()) {
    CAPTURE(to_string(d->id()));
    auto compute = d->make_stream("compute").value_or_throw();
    auto reduce = d->make_stream("reduce").value_or_throw();
    std::vector<int> seen;
    std::mutex mutex;
    for (int i = 0; i < 100; ++i) {
      auto e = d->submit(compute, push(seen, mutex, 2 * i)).value_or_throw();
      REQUIRE(d->wait_event(reduce, e));
      auto back = d->submit(reduce, push(seen, mutex, 2 * i + 1)).value_or_throw();
      REQUIRE(d->wait_event(compute, back));
    }
    REQUIRE(d->wait(d->record_event(compute).value_or_throw(), long_enough));
    REQUIRE(seen.size() == 200);
    for (int i = 0; i < 200; ++i)
      CHECK(seen[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("device: work after a depend does not delay what was there before") {
  both b;
  auto& d = b.cpu;
  auto first = d->make_stream("a").value_or_throw(), second = d->make_stream("b").value_or_throw();
  std::atomic<bool> open{false}, ran{false};
  auto gate = d->submit(first, {.name = "gate",
                                .run =
                                  [&](const launch_site&) {
                                    (void)comes_true(b.f->env(), [&] { return open.load(); });
                                    return device_answer{};
                                  }})
                .value_or_throw();
  auto before = d->submit(second, nothing()).value_or_throw();
  REQUIRE(d->wait_event(second, gate));
  auto late = d->submit(second, {.name = "late",
                                 .run =
                                   [&](const launch_site&) {
                                     ran = true;
                                     return device_answer{};
                                   }})
                .value_or_throw();
  CHECK(d->wait(before, long_enough)); // though the gate is closed
  CHECK(!d->passed(late).value_or_throw());
  CHECK(!ran);
  open = true;
  CHECK(d->wait(late, long_enough));
  CHECK(ran);
}

TEST_CASE("device: notifications come once each, for events in any order") {
  both b;
  for (auto& d : b.all()) {
    auto s = d->make_stream("compute").value_or_throw();
    std::atomic<int> told{0};
    for (int i = 0; i < 50; ++i) {
      auto e = d->submit(s, nothing()).value_or_throw();
      REQUIRE(d->notify(e, [&](const result<void>& out) { told += out ? 1 : 1000; }));
    }
    CHECK(comes_true(b.f->env(), [&] { return told == 50; }));
    CHECK(comes_true(b.f->env(), [&] { return d->statistics().events_open == 0; }));
  }
}

TEST_CASE("device: an event is used again for the next record, and old handles don't see it") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  for (int i = 0; i < 1000; ++i)
    REQUIRE(d->wait(d->submit(s, nothing()).value_or_throw(), long_enough));
  CHECK(f.backend->calls("make_event") <= 2);
  f.closes_clean(d);
}

TEST_CASE("pool: sizes are rounded up to eighths of powers of two") {
  CHECK(caching_pool::rounded(0) == 512);
  CHECK(caching_pool::rounded(1) == 512);
  CHECK(caching_pool::rounded(513) == 1024);
  CHECK(caching_pool::rounded(8193) == 8192 + 2048);
  CHECK(caching_pool::rounded(std::size_t{1} << 20) == std::size_t{1} << 20);
  for (std::size_t n = 1; n < 100'000; n += 37) {
    CHECK(caching_pool::rounded(n) >= n);
    CHECK((n <= 4096 || caching_pool::rounded(n) - n < n / 3));
    CHECK(caching_pool::rounded(caching_pool::rounded(n)) == caching_pool::rounded(n));
  }
}

TEST_CASE("pool: the same stream gets a block back at once, another only when it is free") {
  auto how = quick();
  how.hang_after = 60s;
  fixture f{{}, how};
  auto d = f.open();
  auto a = d->make_stream("a").value_or_throw(), b = d->make_stream("b").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto m = d->allocate(4096, a).value_or_throw();
  void* const first = m.data();
  REQUIRE(d->submit(a, nothing("spin"))); // uses it, and does not end yet
  m = {};
  auto for_b = d->allocate(4096, b).value_or_throw();
  CHECK(for_b.data() != first);
  m = d->allocate(4096, a).value_or_throw();
  CHECK(m.data() == first);
  m = {};
  f.backend->release_hangs();
  REQUIRE(d->wait(d->record_event(a).value_or_throw(), long_enough));
  auto again = d->allocate(4096, b).value_or_throw();
  CHECK(again.data() == first);
  again = {};
  for_b = {};
  const auto pool = d->statistics().memory;
  CHECK(pool.taken_from_device == 2);
  CHECK(pool.taken_from_cache == 2);
  CHECK(pool.bytes_in_use == 0);
  f.closes_clean(d);
}

TEST_CASE("pool: a block that another stream used too waits for both") {
  auto how = quick();
  how.hang_after = 60s;
  fixture f{{}, how};
  auto d = f.open();
  auto a = d->make_stream("a").value_or_throw(), b = d->make_stream("b").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto m = d->allocate(4096, a).value_or_throw();
  void* const first = m.data();
  m.used_on(b);
  REQUIRE(d->submit(b, nothing("spin")));
  m = {};
  auto other = d->allocate(4096, a).value_or_throw();
  CHECK(other.data() != first); // b may still write there
  f.backend->release_hangs();
  REQUIRE(d->wait(d->record_event(b).value_or_throw(), long_enough));
  REQUIRE(d->wait(d->record_event(a).value_or_throw(), long_enough));
  CHECK(d->allocate(4096, a).value_or_throw().data() == first);
  other = {};
  f.closes_clean(d);
}

TEST_CASE("tensor: there and back, and from device to device, in one call each") {
  both b;
  auto x = tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  for (auto& d : b.all()) {
    auto s = d->make_stream("copies").value_or_throw();
    auto on_device = device_tensor::from_host(d, s, x).value_or_throw();
    CHECK(on_device.where() == d->id());
    CHECK(on_device.shape() == x.shape());
    CHECK(on_device.to_host(s).value_or_throw() == x);
    auto empty = device_tensor::from_host(d, s, tensor{dtype::f32, {0, 4}}).value_or_throw();
    CHECK(empty.to_host(s).value_or_throw().shape() == shape_t{0, 4});
    CHECK_THROWS_WITH_AS((void)on_device.as<double>(), doctest::Contains("f64"), error);
    CHECK_THROWS_WITH_AS((void)on_device.reshaped({4}), doctest::Contains("[2, 3]"), error);
  }
  auto s = b.fake->make_stream("a").value_or_throw(), t = b.cpu->make_stream("b").value_or_throw();
  auto here = device_tensor::from_host(b.fake, s, x).value_or_throw();
  auto there = here.to(b.cpu, t, s).value_or_throw();
  CHECK(there.where() == b.cpu->id());
  CHECK(there.to_host(t).value_or_throw() == x);
  CHECK(there.to(b.cpu, t, t).value_or_throw().data() == there.data()); // lives there already
}

TEST_CASE("tensor: a host tensor may be changed as soon as its copy was asked for") {
  auto how = quick();
  how.hang_after = 60s;
  fixture f{{}, how};
  auto d = f.open();
  auto s = d->make_stream("copies").value_or_throw();
  f.backend->set_duration("copy", 5ms);
  for (int round = 0; round < 5; ++round) {
    auto a = tensor::of<int>({3}, {1, 2, 3}), b = tensor::of<int>({3}, {4, 5, 6});
    auto first = device_tensor::from_host(d, s, a).value_or_throw();
    auto second =
      device_tensor::from_host(d, s, b).value_or_throw(); // not in the same pinned block
    a.mutable_as<int>()[0] = 99;
    CHECK(first.to_host(s).value_or_throw() == tensor::of<int>({3}, {1, 2, 3}));
    CHECK(second.to_host(s).value_or_throw() == b);
  }
  f.closes_clean(d);
}

TEST_CASE("DLPack: out and in again is the same memory, on the host and on devices") {
  auto x = tensor::of<float>({2, 2}, {1, 2, 3, 4});
  auto* out = to_dlpack(x);
  CHECK(out->dl_tensor.ndim == 2);
  CHECK(out->dl_tensor.device.device_type == kDLCPU);
  CHECK(out->dl_tensor.data == x.bytes().data());
  auto back = from_dlpack(out).value_or_throw();
  CHECK(back.bytes().data() == x.bytes().data());
  x = {};
  CHECK(back == tensor::of<float>({2, 2}, {1, 2, 3, 4})); // the view keeps it alive
  auto scalar = from_dlpack(to_dlpack(tensor::scalar<double>(2.5))).value_or_throw();
  CHECK(scalar.item<double>() == 2.5);
  auto none = from_dlpack(to_dlpack(tensor{dtype::bf16, {0, 3}})).value_or_throw();
  CHECK(none.shape() == shape_t{0, 3});
  CHECK(none.type() == dtype::bf16);

  fixture f;
  auto d = f.open();
  auto s = d->make_stream("copies").value_or_throw();
  {
    auto on_device = device_tensor::from_host(d, s, back).value_or_throw();
    void* const at = on_device.data();
    auto* shared = to_dlpack(on_device);
    CHECK(shared->dl_tensor.device.device_type == kDLCUDA);
    on_device = {};
    auto again = from_dlpack(shared, d).value_or_throw();
    CHECK(again.data() == at);
    CHECK(again.to_host(s).value_or_throw() == back);
    names(failure_of(from_dlpack(to_dlpack(again))), errc::invalid_argument, {"gpu:0", "host"});
    names(failure_of(from_dlpack(to_dlpack(back), d)), errc::device_unavailable,
          {"cpu:0", "gpu:0"});
  }
  f.closes_clean(d);
}

TEST_CASE("DLPack: what does not fit is refused, and given back") {
  static int given_back = 0;
  std::int64_t shape[] = {2, 3}, strides[] = {3, 1}, columns[] = {1, 2};
  float data[6] = {1, 2, 3, 4, 5, 6};
  auto with = [&](auto change) {
    auto* x = new DLManagedTensor{};
    x->dl_tensor = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
    x->deleter = [](DLManagedTensor* self) {
      ++given_back;
      delete self;
    };
    change(x->dl_tensor);
    return x;
  };
  given_back = 0;
  {
    auto plain = from_dlpack(with([](DLTensor&) {})).value_or_throw();
    CHECK(plain == tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
    auto later = from_dlpack(with([](DLTensor& x) {
                   x.byte_offset = 4;
                   x.shape[0] = 1;
                 }))
                   .value_or_throw();
    CHECK(later == tensor::of<float>({1, 3}, {2, 3, 4}));
    shape[0] = 2;
    CHECK(given_back == 0);
  }
  CHECK(given_back == 2);
  auto refused = [&](auto change, std::initializer_list<const char*> words) {
    const int before = given_back;
    names(failure_of(from_dlpack(with(change))), errc::invalid_argument, words);
    CHECK(given_back == before + 1);
  };
  refused([&](DLTensor& x) { x.strides = columns; }, {"stride of axis", "[2, 3]"});
  refused([](DLTensor& x) { x.dtype = {kDLComplex, 64, 1}; }, {"type code 5", "64 bits"});
  refused([](DLTensor& x) { x.dtype.lanes = 4; }, {"4 lanes"});
  refused([](DLTensor& x) { x.device = {kDLMetal, 0}; }, {"device type is 8"});
  refused([](DLTensor& x) { x.data = nullptr; }, {"data is null"});
  refused([](DLTensor& x) { x.ndim = -1; }, {"ndim is -1"});
  names(failure_of(from_dlpack(nullptr)), errc::invalid_argument, {"null"});
}

TEST_CASE("CPU devices: an operation that throws names itself, and its stream is over") {
  fixture f;
  auto d = device::open(f.env(), make_cpu_backend(f.env()), 0, quick()).value_or_throw();
  auto s = d->make_stream("compute").value_or_throw();
  REQUIRE(d->enqueue(s, {.name = "bad_luck", .run = [](const launch_site&) -> device_answer {
                           throw std::runtime_error{"no"};
                         }}));
  names(failure_behind(*d, s), errc::launch_failed, {"cpu:0", "'bad_luck' broke"});
  CHECK(d->why_failed());
  names(failure_of(d->close(1s)), errc::launch_failed, {"'bad_luck'"});
}

TEST_CASE("CPU devices: a full queue waits, and goes on in order") {
  fixture f;
  auto how = quick();
  how.hang_after = 60s;
  auto d =
    device::open(f.env(), make_cpu_backend(f.env(), {.queue_len_max = 4}), 0, how).value_or_throw();
  auto s = d->make_stream("compute").value_or_throw();
  std::vector<int> seen;
  std::mutex mutex;
  for (int i = 0; i < 1000; ++i)
    REQUIRE(d->enqueue(s, push(seen, mutex, i)));
  REQUIRE(d->wait(d->record_event(s).value_or_throw(), long_enough));
  REQUIRE(seen.size() == 1000);
  for (int i = 0; i < 1000; ++i)
    CHECK(seen[static_cast<std::size_t>(i)] == i);
  CHECK(d->close(2s));
}

TEST_CASE("CPU devices: memory that comes back from both sides of a full queue blocks nobody") {
  fixture f;
  auto how = quick();
  how.hang_after = 60s;
  auto d =
    device::open(f.env(), make_cpu_backend(f.env(), {.queue_len_max = 2}), 0, how).value_or_throw();
  auto s = d->make_stream("compute").value_or_throw();
  for (int i = 0; i < 2000; ++i) {
    // The thread lets go of one tensor while this thread gives another back under the pool's lock.
    auto x = device_tensor::make(d, s, dtype::f32, {64}).value_or_throw();
    REQUIRE(
      d->enqueue(s, {.name = "hold", .run = [x](const launch_site&) { return device_answer{}; }}));
    auto y = device_tensor::make(d, s, dtype::f32, {64}).value_or_throw();
  }
  REQUIRE(d->wait(d->record_event(s).value_or_throw(), long_enough));
  CHECK(d->close(2s));
}

} // namespace
