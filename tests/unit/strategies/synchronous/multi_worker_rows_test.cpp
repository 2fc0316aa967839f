// Rows of several workers that multi_worker_test.cpp is not about: merge calls, the end of the
// input, and how a group starts. Method: workers as threads, each with a runtime and sockets.

#include "../replicas/workers_support.hpp"

namespace {

using namespace replicas_test;

TEST_CASE("SYNC-MRG-6 a merge function runs once a worker, over its own replicas") {
  std::atomic<int> calls{0};
  on_workers(
    2,
    [&](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      auto out = s.run([&](replica_context& ctx) {
        return ctx.merge_call(
          [&](strategy&, const per_replica<std::int64_t>& mine) {
            ++calls;
            return mine.size() == 2 ? mine[0] + mine[1] : -1;
          },
          id_of(ctx));
      });
      CHECK(out.as_single() == (worker == 0 ? 0 + 1 : 2 + 3));
    },
    2);
  CHECK(calls == 2);
}

TEST_CASE("SYNC-ITR-3 all workers go on while one of them has data, and end together") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    auto input = distribute_dataset(s, dataset::range(9).batch(2)).iterate();
    std::vector<std::int64_t> seen;
    std::vector<std::uint32_t> live;
    while (auto batch = input.try_next()) {
      live.push_back(batch->live_replicas());
      const auto mine = batch->only()[0];
      for (const auto x : mine.as<std::int64_t>())
        seen.push_back(x);
    }
    CHECK(live == std::vector<std::uint32_t>{2, 2, 2, 2, 1});
    CHECK(seen
          == (worker == 0 ? std::vector<std::int64_t>{0, 2, 4, 6, 8}
                          : std::vector<std::int64_t>{1, 3, 5, 7}));
  });
}

TEST_CASE("SYNC-HLT-2 workers wait for each other at the start, not for ever if told so") {
  std::atomic<bool> ended{false};
  on_workers(2, [&](std::uint32_t worker, runtime& rt) {
    if (worker == 0) {
      names(failure_of([&] {
              multi_worker_mirrored_strategy{rt, {.devices = cpus(1), .start_timeout = 300ms}};
            }),
            errc::deadline, {"all workers", "member 1"});
      ended = true;
    }
    while (!ended)
      std::this_thread::yield();
    auto s = strategy_over(rt);
    CHECK(ids(s).item<std::int64_t>() == 1);
  });
}

TEST_CASE("SYNC-MWR-10 a strategy of several workers may be made after other work") {
  on_workers(
    2,
    [](std::uint32_t worker, runtime& rt) {
      mirrored_strategy own{rt, cpus(2)};
      auto v = own.scope([] { return make_variable({.name = "v", .initial = tensor::scalar(1)}); });
      CHECK(own.run(id_of).local_results() == std::vector<std::int64_t>{0, 1});
      auto s = strategy_over(rt, 2);
      CHECK(ids(s).item<std::int64_t>() == 6);
      CHECK(s.run(id_of)[0] == std::int64_t{worker} * 2);
      CHECK(v.item<int>() == 1);
    },
    2);
}

} // namespace
