// What ends while other threads still use it: a device that closes, handles that come back, calls
// that hang. Method: CPU devices, and a made-up GPU whose calls hang on demand.

#include "support.hpp"

#include <thread>

#include <troupe/device/context.hpp>
#include <troupe/device/tensor.hpp>

namespace {

using namespace device_test;

/// A gate that an operation waits at.
struct barrier {
  std::atomic<bool> open{false};
  std::atomic<bool> reached{false};
  device_op op(const environment& env, const char* name = "waits") {
    return {.name = name, .run = [this, env](const launch_site&) {
              reached = true;
              (void)comes_true(env, [this] { return open.load(); });
              return device_answer{};
            }};
  }
};

TEST_CASE("close: a handle that drops while streams run out frees nothing that they still use") {
  fixture f;
  auto d = device::open(f.env(), make_cpu_backend(f.env()), 0, patient()).value_or_throw();
  auto a = d->make_stream("a").value_or_throw(), b = d->make_stream("b").value_or_throw();
  auto used = d->allocate(1 << 16, b).value_or_throw();
  auto held = d->allocate(1 << 12, a).value_or_throw();
  barrier slow, first;
  REQUIRE(d->enqueue(b, slow.op(f.env(), "slow")));
  REQUIRE(d->enqueue(b, {.name = "use", .run = [at = used.data()](const launch_site&) {
                           std::memset(
                             at, 1, 1 << 16); // the address sanitizer sees when the memory has gone
                           return device_answer{};
                         }}));
  used = {}; // back to the pool, in stream order
  REQUIRE(d->enqueue(
    a, {.name = "hold",
        .run = [held, op = first.op(f.env())](const launch_site& s) { return op.run(s); }}));
  held = {};
  std::thread closing{[&] { CHECK(d->close(10s)); }};
  (void)comes_true(f.env(), [&] { return !d->enqueue(a, nothing()); }); // it closes
  const auto cached = d->statistics().memory.blocks_cached;
  first.open = true; // lets go of `held`, while "slow" still runs
  CHECK(comes_true(f.env(), [&] { return d->statistics().memory.blocks_in_use == 0; }));
  CHECK(d->statistics().memory.blocks_cached == cached + 1); // kept, all of it
  slow.open = true;
  closing.join();
  CHECK(d->statistics().memory.blocks_cached == 0);
}

TEST_CASE("close: calls that race with it are refused or served") {
  fixture f;
  for (int round = 0; round < 300; ++round) {
    auto backend = make_cpu_backend(f.env());
    auto d = device::open(f.env(), backend, 0, patient()).value_or_throw();
    auto s = d->make_stream("a").value_or_throw();
    std::atomic<int> going{0};
    std::vector<std::thread> threads;
    auto until_refused = [&](auto call) {
      threads.emplace_back([&going, call] {
        for (bool first = true; call(); first = false)
          going += first ? 1 : 0;
      });
    };
    until_refused([&] { return bool(d->enqueue(s, nothing())); });
    until_refused([&] { return bool(d->submit(s, nothing())); });
    until_refused([&] { return bool(d->allocate(64, s)); });
    (void)comes_true(f.env(), [&] { return going == 3; });
    auto closed = d->close(5s);
    CHECK_MESSAGE(closed, (closed ? std::string{} : to_string(closed.error())));
    for (auto& t : threads)
      t.join();
  }
}

TEST_CASE("close: handles that drop meanwhile go back, each once") {
  for (int round = 0; round < 100; ++round) {
    fixture f{{.operation = 0ns}, patient()};
    auto d = f.open();
    auto s = d->make_stream("a").value_or_throw();
    std::vector<device_memory> memory;
    std::vector<stream_event> events;
    for (int i = 0; i < 200; ++i) {
      memory.push_back(d->allocate(64, s).value_or_throw());
      events.push_back(d->submit(s, nothing()).value_or_throw());
    }
    std::thread drop{[&] {
      memory.clear();
      events.clear();
    }};
    CHECK(d->close(5s));
    drop.join();
    d.reset();
    s = {};
    CHECK(f.backend->census() == fake_census{});
  }
}

TEST_CASE("close: an operation that owns an event and memory of its stream goes with it") {
  fixture f;
  for (int round = 0; round < 200; ++round) {
    auto d = device::open(f.env(), make_cpu_backend(f.env()), 0, patient()).value_or_throw();
    auto s = d->make_stream("a").value_or_throw(), t = d->make_stream("b").value_or_throw();
    for (int i = 0; i < 20; ++i) {
      auto e = d->submit(s, nothing()).value_or_throw();
      auto m = d->allocate(64, s).value_or_throw();
      REQUIRE(d->enqueue(
        t, {.name = "own", .run = [e, m](const launch_site&) { return device_answer{}; }}));
    }
    auto closed = d->close(5s);
    CHECK_MESSAGE(closed, (closed ? std::string{} : to_string(closed.error())));
  }
}

TEST_CASE("close: the second call repeats what the first one said") {
  fixture f;
  auto d = f.open();
  d->give_up(make_failure(errc::device_lost, "gpu:0: the test says so"));
  names(failure_of(d->close(1s)), errc::device_lost, {"the test says so"});
  names(failure_of(d->close(1s)), errc::device_lost, {"the test says so"});
}

TEST_CASE("close: a call that hangs in the driver fails the device, and does not hang closing") {
  for (const char* function : {"allocate", "release"}) {
    CAPTURE(function);
    fixture f{{.memory_bytes = 1 << 20}, patient()};
    auto d = f.open();
    auto s = d->make_stream("a").value_or_throw();
    { auto gone = d->allocate(1 << 19, s).value_or_throw(); }
    REQUIRE(d->wait(d->record_event(s).value_or_throw(), long_enough));
    f.backend->plant({.function = function, .hang = true});
    std::thread asks{[&] { (void)d->allocate(1 << 20, s); }}; // and has the cache given back
    REQUIRE(comes_true(f.env(), [&] { return f.backend->hanging() == 1; }));
    (void)d->statistics(); // waits for nobody
    const auto begin = f.env().clock.now();
    names(failure_of(d->close(100ms)), errc::device_timeout, {"gpu:0", "close", "does not end"});
    CHECK(f.env().clock.now() - begin < 5s);
    f.backend->release_hangs();
    asks.join();
  }
}

TEST_CASE("streams: contexts give theirs back, and the next user's work runs behind what is left") {
  auto how = patient();
  how.streams_max = 2;
  fixture f{{}, how};
  for (auto& d :
       {f.open(), device::open(f.env(), make_cpu_backend(f.env()), 0, how).value_or_throw()}) {
    CAPTURE(to_string(d->id()));
    for (int i = 0; i < 10; ++i) {
      auto ctx = device_context::make(d, "compute." + std::to_string(i)).value_or_throw();
      CHECK(ctx->stream("copies").name() == "copies");
      CHECK(d->statistics().streams == 2);
      names(failure_of(d->make_stream("one more")), errc::out_of_range, {"'one more'"});
    }
    CHECK(d->statistics().streams == 0);
    barrier slow;
    std::atomic<bool> ran{false};
    auto first = d->make_stream("first").value_or_throw();
    auto behind_slow = d->submit(first, slow.op(f.env())).value_or_throw();
    auto held = d->allocate(4096, first).value_or_throw();
    d->retire(first);
    auto second = d->make_stream("second").value_or_throw();
    REQUIRE(d->make_stream("third")); // two at most: one of them is the first
    auto a = d->submit(second, {.name = "late", .run = [&](const launch_site&) {
                                  ran = true;
                                  return device_answer{};
                                }});
    REQUIRE(a);
    if (second.native().handle == first.native().handle)
      CHECK(!ran);
    slow.open = true;
    CHECK(d->wait(*a, long_enough));
    CHECK(d->wait(behind_slow, long_enough)); // the old handle's event still tells
    CHECK(ran);
    held = {};
    a = make_failure(errc::none, "");
    behind_slow = {};
    auto closed = d->close(2s);
    CHECK_MESSAGE(closed, (closed ? std::string{} : to_string(closed.error())));
  }
  CHECK(f.backend->census() == fake_census{});
}

TEST_CASE("probe: a group's end is still told to the caller, not to a probe") {
  auto how = quick();
  how.check_every = 1ms;
  how.hang_after = 60s;
  fixture f{{.devices = 2}, how};
  auto a = f.open(0), b = f.open(1);
  auto key = a->comms().get_unique_id().value_or_throw();
  device_comm on_a, on_b;
  std::thread other{
    [&] { on_b = b->comms().open(group_epoch{1}, key, 2, 1, long_enough).value_or_throw(); }};
  on_a = a->comms().open(group_epoch{1}, key, 2, 0, long_enough).value_or_throw();
  other.join();
  auto s = a->make_stream("reduce").value_or_throw();
  float data[1] = {1};
  auto sum = a->comms().all_reduce(on_a, s, data, 1).value_or_throw(); // b does not come
  const auto probes = f.backend->calls("record");
  REQUIRE(comes_true(f.env(), [&] { return f.backend->calls("record") > probes; }));
  a->comms().revoke(group_epoch{1}, "the test says so");
  names(failure_of(a->wait(sum, long_enough)), errc::revoked, {"the test says so"});
  CHECK(!a->why_failed());
  CHECK(a->close(2s));
  b->comms().revoke(group_epoch{1}, "the test says so");
  CHECK(b->close(2s));
}

TEST_CASE("tensor: the source of a copy that is on its way may be let go of at once") {
  fixture f{{}, patient()};
  auto d = f.open();
  auto ctx = device_context::make(d).value_or_throw();
  {
    auto x = ctx->put(tensor::vector<float>({1, 1, 1}));
    ctx->wait();
    const auto& copies = ctx->stream("copies");
    f.backend->plant({.function = "execute:copy", .hang = true});
    auto coming = ctx->start_get(x, copies);
    void* const at = x.data();
    x = {};
    auto next = ctx->empty(dtype::f32, {3});
    CHECK(next.data() != at); // the copy still reads there
    f.backend->release_hangs();
    tensor out{dtype::f32, {3}};
    ctx->finish_get(coming, out);
    CHECK(out == tensor::vector<float>({1, 1, 1}));
  }
  ctx = nullptr;
  f.closes_clean(d);
}

TEST_CASE("tensor: memory of another library's is let go of behind the streams that use it") {
  fixture f{{}, patient()};
  auto d = f.open();
  auto s = d->make_stream("a").value_or_throw();
  std::vector<float> data(4);
  std::atomic<bool> gone{false};
  std::shared_ptr<void> owner{data.data(), [&](void*) { gone = true; }};
  auto x = device_tensor::wrap(d, dtype::f32, {4}, std::move(owner), data.data());
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto e = d->submit(s, nothing("spin")).value_or_throw();
  auto view = x.reshaped({2, 2});
  view.used_on(s);
  x = {};
  view = {};
  CHECK(!gone); // "spin" may still read there
  f.backend->release_hangs();
  REQUIRE(d->wait(e, long_enough));
  CHECK(comes_true(f.env(), [&] { return gone.load(); }));
  auto unused = device_tensor::wrap(
    d, dtype::f32, {4}, std::shared_ptr<void>{data.data(), [&](void*) { gone = false; }},
    data.data());
  unused = {};
  CHECK(!gone); // at once
  e = {};
  f.closes_clean(d);
}

TEST_CASE("pool: a block that no event can be made for is not lost") {
  fixture f{{}, patient()};
  auto d = f.open();
  auto a = d->make_stream("a").value_or_throw(), b = d->make_stream("b").value_or_throw();
  auto m = d->allocate(4096, a).value_or_throw();
  void* const at = m.data();
  f.backend->plant({.function = "make_event", .answer = {.status = device_status::out_of_memory}});
  m = {};
  CHECK(d->statistics().memory.bytes_in_use == 0);
  CHECK(d->statistics().memory.bytes_cached == 4096);
  auto other = d->allocate(4096, b).value_or_throw(); // makes the event, which has not passed yet
  REQUIRE(d->wait(d->record_event(a).value_or_throw(), long_enough));
  m = d->allocate(4096, b).value_or_throw();
  CHECK((m.data() == at || other.data() == at));
  m = {};
  other = {};
  f.closes_clean(d);
}

TEST_CASE("close: a device that has no event to wait for its streams with is left behind") {
  fixture f{{}, patient()};
  auto d = f.open();
  auto s = d->make_stream("a").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  REQUIRE(d->enqueue(s, nothing("spin")));
  f.backend->plant({.function = "make_event", .answer = {.status = device_status::out_of_memory}});
  f.closes_abandoned(d, errc::device_memory);
}

TEST_CASE("a made-up device: an operation that throws breaks the device, not the process") {
  fixture f;
  auto d = f.open();
  auto s = d->make_stream("compute").value_or_throw();
  REQUIRE(d->enqueue(s, {.name = "bad_luck", .run = [](const launch_site&) -> device_answer {
                           throw std::runtime_error{"no"};
                         }}));
  REQUIRE(comes_true(f.env(), [&] { return d->why_failed().has_value(); }));
  names(*d->why_failed(), errc::launch_failed, {"gpu:0", "bad_luck", "exception"});
  f.closes_abandoned(d, errc::launch_failed);
}

TEST_CASE("a made-up device: an operation may use the device") {
  fixture f{{}, patient()};
  auto d = f.open();
  auto s = d->make_stream("a").value_or_throw(), t = d->make_stream("b").value_or_throw();
  std::atomic<bool> ran{false};
  auto inner = d->submit(s, {.name = "outer",
                             .run =
                               [&](const launch_site&) {
                                 (void)d->make_stream("c");
                                 ran = bool(d->submit(t, nothing()));
                                 return device_answer{};
                               }})
                 .value_or_throw();
  CHECK(d->wait(inner, long_enough));
  CHECK(ran);
  inner = {};
  f.closes_clean(d);
}

TEST_CASE("notify: an event of another device is that device's affair") {
  fixture f{{.devices = 2}};
  auto a = f.open(0), b = f.open(1);
  auto s = b->make_stream("b").value_or_throw();
  f.backend->plant({.function = "execute:spin", .hang = true});
  auto e = b->submit(s, nothing("spin")).value_or_throw();
  std::atomic<int> told{0};
  REQUIRE(a->notify(e, [&](const result<void>& out) {
    told += !out && out.error().code == errc::device_lost ? 1 : 100;
  }));
  f.backend->lose(1);
  CHECK(comes_true(f.env(), [&] { return told == 1; }));
  CHECK(!a->why_failed());
  CHECK(a->close(2s));
  names(failure_of(b->close(2s)), errc::device_lost, {"gpu:1"});
}

} // namespace
