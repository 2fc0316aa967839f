// Input on the replicas' devices. Goal: rows SYNC-INP-7, ONE-3, I27 and OPT-I: pieces lie on a
// replica's GPU before it asks, as many steps ahead as its buffer has, and nothing is copied where
// nothing was asked for. Method: a runtime whose devices are made-up GPUs, whose copies are
// counted; CPU devices of this process.

#include "../replicas/device_support.hpp"
#include "../replicas/workers_support.hpp"

namespace {

using namespace replicas_test;

/// Two made-up GPUs, whose copies are counted.
struct input_host : gpu_machine {
  runtime_options options() const { return {.workers = 1, .servers = 1, .devices = {"gpu:0"}}; }
  std::uint64_t copies() const { return backend().calls("copy"); }
  /// So many copies were started; waits for it.
  bool copied(std::uint64_t n) const {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (copies() < n && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    spin_for(1ms); // and no more
    return copies() == n;
  }
};

dataset rows(std::int64_t n) { return dataset::range(n).batch(2); }

distribute_options with(input_options how) {
  distribute_options out;
  out.input = how;
  return out;
}

/// What a replica's device has of its piece.
tensor from_device(replica_context& ctx, const element& x) {
  auto there = ctx.on_device(x.only());
  CHECK(there.where() == ctx.device().id());
  return ctx.device().get(there);
}

per_replica<tensor> from_devices(const strategy& s, const distributed_batch& batch) {
  return s.run(from_device, batch);
}

const device_id gpu0{device_kind::gpu, 0}, gpu1{device_kind::gpu, 1};

TEST_CASE("SYNC-INP-7 SYNC-I27 SYNC-OPT-I pieces are on the replicas' GPUs before they ask") {
  input_host host;
  {
    runtime rt{host.options(), host.here()};
    mirrored_strategy s{rt, std::vector<std::string>{"gpu:0", "gpu:1"}};
    for (const std::uint32_t steps : {1u, 3u}) {
      auto input =
        distribute_dataset(s, rows(40), with({.per_replica_buffer_size = steps})).iterate();
      for (std::uint64_t given = 1; given <= 3; ++given) {
        const auto before = host.copies();
        auto batch = input.next();
        // a copy a replica of this step, if it is the first, and of those made ahead
        CHECK(host.copied(before + (given == 1 ? 2 * (1 + steps) : 2)));
        CHECK(batch.device(0) == gpu0);
        CHECK(batch.device(1) == gpu1);
        const auto asked = host.copies();
        auto got = from_devices(s, batch);
        CHECK(host.copies() == asked + 2); // only those back
        const auto row = static_cast<std::int64_t>(2 * given);
        CHECK(got[0] == vec<std::int64_t>({row - 2}));
        CHECK(got[1] == vec<std::int64_t>({row - 1}));
      }
    }
  }
  CHECK(host.traced.events("input.not_placed") == 0);
  CHECK(host.backend().census() == fake_census{});
}

TEST_CASE("SYNC-INP-7 SYNC-I27 without prefetch to the device pieces stay in host memory") {
  input_host host;
  runtime rt{host.options(), host.here()};
  mirrored_strategy s{rt, std::vector<std::string>{"gpu:0", "gpu:1"}};
  for (const auto& how :
       {input_options{.prefetch_to_device = false}, input_options{.per_replica_buffer_size = 0}}) {
    auto input = distribute_dataset(s, rows(40), with(how)).iterate();
    const auto before = host.copies();
    auto batch = input.next();
    CHECK(host.copied(before));
    CHECK(!batch.device(0));
    CHECK(from_devices(s, batch)[1] == vec<std::int64_t>({1}));
    CHECK(host.copies() == before + 4); // there when asked, and back
  }
}

TEST_CASE("SYNC-I27 SYNC-OPT-1 a dataset placed on the device is there at once, nothing ahead") {
  input_host host;
  runtime rt{host.options(), host.here()};
  mirrored_strategy s{rt, std::vector<std::string>{"gpu:0", "gpu:1"}};
  auto input =
    distribute_datasets_from_function(
      s, [](const input_context&) { return rows(40); },
      with({.replication = input_replication::per_replica, .place_dataset_on_device = true}))
      .iterate();
  for (int i = 0; i < 2; ++i) {
    const auto before = host.copies();
    auto batch = input.next();
    CHECK(batch.device(1) == gpu1);
    CHECK(host.copied(before + 2));
    CHECK(from_devices(s, batch)[1].at<std::int64_t>(0) == 2 * i);
  }
}

TEST_CASE("SYNC-ONE-3 one device gets its input ahead") {
  input_host host;
  runtime rt{host.options(), host.here()};
  one_device_strategy s{rt, "gpu:1"};
  auto input = distribute_dataset(s, rows(40)).iterate();
  auto batch = input.next();
  CHECK(batch.device(0) == gpu1);
  CHECK(host.copied(2));
  CHECK(s.run(from_device, batch) == vec<std::int64_t>({0, 1}));
  CHECK(host.copies() == 3);
}

TEST_CASE("input: a replica without data has nothing on its device") {
  input_host host;
  runtime rt{host.options(), host.here()};
  mirrored_strategy s{rt, std::vector<std::string>{"gpu:0", "gpu:1"}};
  auto batch = distribute_dataset(s, dataset::range(1).batch(2)).iterate().next();
  CHECK(batch.device(0) == gpu0);
  CHECK(!batch.device(1));
  CHECK(from_devices(s, batch)[0] == vec<std::int64_t>({0}));
}

TEST_CASE("input: a device that takes no piece ahead takes it, or says why, when a replica asks") {
  input_host host;
  runtime rt{host.options(), host.here()};
  one_device_strategy s{rt, "gpu:0"};
  host.backend().plant({.function = "allocate",
                        .answer = {.status = device_status::out_of_memory, .text = "full"},
                        .breaks = false});
  auto input = distribute_dataset(s, rows(40)).iterate();
  auto batch = input.next();
  CHECK(host.traced.events("input.not_placed") <= 1);
  CHECK(s.run(from_device, batch) == vec<std::int64_t>({0, 1}));
  CHECK(s.run(from_device, input.next()) == vec<std::int64_t>({2, 3}));
  host.backend().lose(0);
  names(failure_of([&] {
          for (int i = 0; i < 10; ++i)
            (void)s.run(from_device, input.next());
        }),
        errc::device_lost, {"gpu:0"});
}

TEST_CASE("SYNC-INP-7 a CPU's memory is the host's: a piece is there without a copy") {
  auto s = mirrored_over(2);
  auto batch = distribute_dataset(s, rows(4)).iterate().next();
  CHECK(!batch.device(0));
  auto same = s.run(
    [](replica_context& ctx, const element& x) {
      auto there = ctx.on_device(x.only());
      return there.data() == x.only().bytes().data() && ctx.device().get(there) == x.only();
    },
    batch);
  CHECK(same[0]);
  CHECK(same[1]);
  auto nothing = s.run([](replica_context& ctx) {
    return ctx.device().get(ctx.on_device(tensor{dtype::f32, {0, 3}})).shape();
  });
  CHECK(nothing[0] == shape_t{0, 3});
  names(failure_of([&] {
          strategy{}.run([](replica_context& ctx) { (void)ctx.on_device(vec<float>({1})); });
        }),
        errc::device_unavailable, {"default strategy"});
}

} // namespace
