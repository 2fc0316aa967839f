// Replicas that had no data in a step. Goal: what they return counts for nothing, whatever its
// type, within one process and over several; several workers agree on who has data. Method: batches
// with fewer rows than replicas.

#include "workers_support.hpp"

namespace {

using namespace replicas_test;

/// One row for two replicas.
distributed_batch one_row(const strategy& s) {
  return distribute_dataset(s, dataset::range(25, 26).batch(2)).iterate().next();
}

float only_of(const element& x) {
  float sum = 0;
  for (auto each : x.only().as<std::int64_t>())
    sum += static_cast<float>(each);
  return sum;
}

TEST_CASE(
  "SYNC-ITR-2 SYNC-RED-13 a number of a replica without data is no 0: it counts for nothing") {
  auto s = mirrored_over(2);
  auto out = s.run([](replica_context&, const element& x) { return only_of(x); }, one_row(s));
  CHECK_FALSE(out.is_absent(0));
  CHECK(out.is_absent(1));
  for (auto op :
       {reduce_op::sum, reduce_op::mean, reduce_op::min, reduce_op::max, reduce_op::prod}) {
    CAPTURE(to_string(op));
    CHECK(s.reduce(op, out).item<float>() == 25);
    CHECK(s.extended().reduce_to(op, out, "cpu:0").value().item<float>() == 25);
  }
  auto both = s.run(
    [](replica_context&, const element& x) {
      return std::tuple{only_of(x), std::int64_t{3}};
    },
    one_row(s));
  const auto [sum, count] = s.reduce(reduce_op::mean, regroup(both));
  CHECK(sum.item<float>() == 25);
  CHECK(count.item<double>() == 3);
  auto all = s.run([](replica_context& ctx) { return static_cast<float>(id_of(ctx)); });
  CHECK(all.absent().empty());
  CHECK(s.reduce(reduce_op::mean, all).item<float>() == 0.5f);
}

TEST_CASE("SYNC-ITR-2 over several workers, too, also where a worker has no data at all") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    const auto batch = one_row(s);
    CHECK(batch.is_empty(0) == (worker == 1));
    CHECK(batch.live_replicas() == 1);
    auto out = s.run([](replica_context&, const element& x) { return only_of(x) + 100; }, batch);
    for (auto op :
         {reduce_op::sum, reduce_op::mean, reduce_op::min, reduce_op::max, reduce_op::prod}) {
      CAPTURE(to_string(op));
      CHECK(s.reduce(op, out).item<float>() == 125);
    }
  });
}

TEST_CASE(
  "SYNC-ITR-9 endless batches with fewer rows than replicas: who has none is known to all") {
  on_workers(
    2,
    [](std::uint32_t, runtime& rt) {
      auto s = strategy_over(rt, 2);
      auto at = distribute_dataset(s, dataset::range(16).repeat().batch(3),
                                   {.policy = autoshard_policy::data})
                  .iterate();
      auto v = s.scope([] {
        return make_variable({.name = "v",
                              .initial = tensor::scalar(0.0f),
                              .aggregation = variable_aggregation::sum,
                              .optimizer = sgd(1.0f)});
      });
      for (int step = 1; step <= 3; ++step) {
        const auto batch = at.next();
        CHECK(batch.live_replicas() == 3);
        std::atomic<int> wrong{0};
        s.run(
          [&](replica_context& ctx, const element& x) {
            const auto rows = static_cast<float>(x.only().size());
            wrong += ctx.all_reduce(reduce_op::mean, rows) == 1 ? 0 : 1;
            ctx.apply({v}, {tensor::scalar(rows)});
          },
          batch);
        CHECK(wrong == 0);
        for (std::size_t i = 0; i < v.components(); ++i)
          CHECK(v.component(i).item<float>() == -3.0f * static_cast<float>(step));
      }
    },
    2);
}

/// The next step once the workers meet again, which may take a slow machine more than one deadline.
distributed_batch next_when_agreed(distributed_iterator& at) {
  for (int i = 0; i < 20; ++i)
    try {
      return at.next();
    } catch (const error& e) {
      if (e.code() != errc::deadline && e.code() != errc::revoked && e.code() != errc::peer_lost)
        throw;
    }
  return at.next();
}

TEST_CASE("SYNC-ITR-7 a step that the workers could not agree on is given by the next call") {
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::vector<std::int64_t> seen;
  on_workers(2, [&](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt, 1, 1s);
    auto at = distribute_dataset(s, dataset::range(12).batch(4)).iterate();
    auto take = [&](const distributed_batch& batch) {
      std::lock_guard lock{mutex};
      for (auto each : batch.piece(0).only().as<std::int64_t>())
        seen.push_back(each);
    };
    take(next_when_agreed(at));
    if (worker == 0) {
      const auto why = failure_of([&] { (void)at.next(); });
      names(why, errc::deadline, {"all_reduce sum i64[2]", "member 1"});
      names(failure_of([&] { (void)at.save_position(); }), errc::wrong_state,
            {"save_position", "not agreed"});
      failed = true;
    } else {
      while (!failed)
        std::this_thread::yield();
    }
    for (int i = 0; i < 2; ++i)
      take(next_when_agreed(at));
    CHECK_THROWS_AS((void)next_when_agreed(at), error); // the end
    CHECK_FALSE(at.try_next());
    CHECK_FALSE(at.save_position().empty());
  });
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("SYNC-TPU-7 SYNC-GAT-8 rows of a slice's replica without data are not made up") {
  tpu_strategy s{shared_runtime(), {.devices = cpus(2)}};
  names(failure_of([&] {
          s.run([](replica_context& ctx, const element& x) { (void)ctx.all_gather(x.only()); },
                one_row(s));
        }),
        errc::invalid_argument, {"all_gather of [1]", "empty_pieces::call"});
  CHECK(s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
        == 2);
}

} // namespace
