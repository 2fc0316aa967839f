// `multi_worker_mirrored_strategy`. Goal: rows SYNC-MWR, and those of values and variables where
// several workers differ from one. Method: workers as threads, each with a runtime and sockets of
// its own; tests/process/multi_worker_process.cpp has them as processes.

#include <array>

#include "../replicas/workers_support.hpp"

namespace {

using namespace replicas_test;

TEST_CASE(
  "SYNC-RUN-7 SYNC-RCX-1 SYNC-MWR-14 SYNC-LOC-4 run gives this worker's replicas, with the "
  "whole group's ids") {
  on_workers(
    2,
    [](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      CHECK(s.num_replicas_in_sync() == 4);
      CHECK(s.num_local_replicas() == 2);
      auto out = s.run([](replica_context& ctx) {
        CHECK(ctx.num_replicas_in_sync() == 4);
        return id_of(ctx);
      });
      const auto first = std::int64_t{worker} * 2;
      CHECK(out.local_results() == std::vector<std::int64_t>{first, first + 1});
      CHECK(s.local_results(out) == std::vector<std::int64_t>{first, first + 1});
    },
    2);
}

TEST_CASE("SYNC-VFF-6 values from a function get the whole group's ids") {
  on_workers(
    2,
    [](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      auto out = s.distribute_values_from_function([](const value_context& ctx) {
        return static_cast<int>(ctx.replica_id_in_sync_group * 10 + ctx.num_replicas_in_sync);
      });
      const int first = static_cast<int>(worker) * 20 + 4;
      CHECK(out.local_results() == std::vector<int>{first, first + 10});
    },
    2);
}

TEST_CASE("SYNC-RED-14 SYNC-MWR-8 every worker gets the reduction over all replicas") {
  on_workers(
    3,
    [](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      CHECK(s.num_workers() == 3);
      CHECK(s.worker_index() == worker);
      CHECK(ids(s).item<std::int64_t>() == 15);
      const auto mine = s.run([](replica_context& ctx) {
        return tensor::vector<float>({static_cast<float>(id_of(ctx)), 1.0f});
      });
      CHECK(s.reduce(reduce_op::mean, mine).at<float>(0) == 2.5f);
      CHECK(s.reduce(reduce_op::mean, mine, 0).item<float>() == 21.0f / 12.0f);
      CHECK(s.reduce(reduce_op::max, mine).at<float>(0) == 5.0f);
    },
    2);
}

TEST_CASE("SYNC-RTO-9 SYNC-G6 host tensors are reduced over the workers") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    CHECK(s.reduce(reduce_op::sum, tensor::scalar(1.0f)).item<float>() == 2.0f);
    const std::vector<tensor> two{tensor::scalar(1.0f), tensor::scalar(1.0f)};
    for (const auto& each : two)
      CHECK(s.reduce(reduce_op::sum, each).item<float>() == 2.0f);
    CHECK(s.reduce(reduce_op::sum, s.run([] { return tensor::scalar(1.0f); })).item<float>()
          == 2.0f);
    const auto own = static_cast<float>(worker);
    CHECK(s.reduce(reduce_op::mean, vec<float>({own, own + 2}), std::vector<std::int64_t>{0})
            .item<float>()
          == 1.5f);
    CHECK(s.reduce(reduce_op::max, tensor::scalar(own)).item<float>() == 1.0f);
    CHECK(
      s.reduce(reduce_op::mean, tensor::scalar<std::int32_t>(worker == 0 ? 1 : 4)).item<double>()
      == 2.5);
  });
}

TEST_CASE("SYNC-RTO-9 workers that reduce different host values are told both") {
  const auto ended = outcomes_of(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    (void)s.reduce(reduce_op::sum, worker == 0 ? vec<float>({1, 2}) : vec<float>({1, 2, 3}));
  });
  for (const auto& why : ended)
    names(why, errc::mismatch, {"reduce of host values sum f32[2]", "f32[3]", "member 1"});
}

TEST_CASE("SYNC-GAT-10 gather is over all workers, with unequal sizes along the axis") {
  on_workers(
    2,
    [](std::uint32_t, runtime& rt) {
      auto s = strategy_over(rt, 2);
      const auto mine = s.run([](replica_context& ctx) {
        tensor x{dtype::i64, {id_of(ctx) + 1, 2}};
        for (auto& each : x.mutable_as<std::int64_t>())
          each = id_of(ctx);
        return x;
      });
      const auto all = s.gather(mine, 0);
      CHECK(all.shape() == shape_t{10, 2});
      CHECK(all.as<std::int64_t>()[0] == 0);
      CHECK(all.as<std::int64_t>()[2] == 1);
      CHECK(all.as<std::int64_t>()[19] == 3);
    },
    2);
}

TEST_CASE("SYNC-VCR-3 SYNC-M6 the first worker's initial values are everybody's") {
  on_workers(
    2,
    [](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      auto v = s.scope([&] {
        return make_variable(
          {.name = "v", .initial = worker == 0 ? vec<float>({1, 1}) : vec<float>({0, 0})});
      });
      for (std::size_t i = 0; i < 2; ++i)
        CHECK(v.component(i).at<float>(1) == 1.0f);
      auto on_read = s.scope([&] {
        return make_variable({.name = "r",
                              .initial = tensor::scalar(static_cast<float>(worker)),
                              .synchronization = variable_synchronization::on_read,
                              .aggregation = variable_aggregation::sum});
      });
      CHECK(on_read.component(1).item<float>() == 0.0f);
    },
    2);
}

TEST_CASE("SYNC-ONR-12 SYNC-CKP-6 reads and saves of on_read variables are of all workers") {
  on_workers(
    2,
    [](std::uint32_t, runtime& rt) {
      auto s = strategy_over(rt, 2);
      auto make = [&](variable_aggregation how) {
        return s.scope([&] {
          return make_variable({.initial = tensor::scalar(0.0f),
                                .synchronization = variable_synchronization::on_read,
                                .aggregation = how});
        });
      };
      auto sum = make(variable_aggregation::sum);
      auto mean = make(variable_aggregation::mean);
      auto first = make(variable_aggregation::only_first_replica);
      s.run([&](replica_context& ctx) {
        const auto x = tensor::scalar(static_cast<float>(id_of(ctx) + 1));
        sum.assign(x);
        mean.assign(x);
        first.assign(x);
      });
      CHECK(sum.item<float>() == 10.0f);
      CHECK(mean.item<float>() == 2.5f);
      CHECK(first.item<float>() == 1.0f);
      CHECK(sum.saved_value().item<float>() == 10.0f);
      sum.restore_value(tensor::scalar(8.0f));
      CHECK(sum.component(0).item<float>() == 2.0f);
      CHECK(sum.item<float>() == 8.0f);
    },
    2);
}

TEST_CASE("SYNC-MWR-2 SYNC-MWR-12 SYNC-MWR-13 the chief saves, all take part") {
  on_workers(3, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    CHECK(s.is_chief() == (worker == 0));
    CHECK(s.should_checkpoint() == s.is_chief());
    CHECK(s.should_save_summary() == s.is_chief());
    CHECK(s.exchange("worker " + std::to_string(worker))
          == std::vector<std::string>{"worker 0", "worker 1", "worker 2"});
    s.barrier();
    const auto resolver = s.cluster_resolver();
    CHECK(resolver->cluster().value_or_throw().num_tasks("worker") == 3);
    CHECK(resolver->task_id().value_or_throw() == worker);
  });
}

TEST_CASE("SYNC-COL-N SYNC-M7 five workers, the mean of their ids is 2 twenty times") {
  on_workers(5, [](std::uint32_t, runtime& rt) {
    auto s = strategy_over(rt);
    for (int i = 0; i < 20; ++i) {
      const auto own = s.run([](replica_context& ctx) {
        return ctx.all_reduce(reduce_op::mean, static_cast<float>(id_of(ctx)));
      });
      CHECK(own[0] == 2.0f);
    }
    CHECK(s.reduce(reduce_op::mean,
                   s.run([](replica_context& ctx) { return static_cast<float>(id_of(ctx)); }))
            .item<float>()
          == 2.0f);
  });
}

TEST_CASE("SYNC-VCR-3 training: every copy of every worker has the same bits") {
  std::mutex mutex;
  std::vector<std::vector<float>> seen;
  on_workers(
    3,
    [&](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 2);
      auto v = s.scope([&] {
        return make_variable({.name = "w",
                              .initial = tensor::zeros(dtype::f32, {3}),
                              .aggregation = variable_aggregation::mean,
                              .optimizer = adam{0.01f}});
      });
      for (int step = 0; step < 10; ++step)
        s.run([&](replica_context& ctx) {
          const auto x = 0.1f * static_cast<float>(id_of(ctx) + step);
          ctx.apply({v}, {vec<float>({x, x / 3, -x})}, reduce_op::mean);
        });
      std::lock_guard lock{mutex};
      for (std::size_t i = 0; i < 2; ++i) {
        const auto copy = v.component(i);
        seen.emplace_back(copy.as<float>().begin(), copy.as<float>().end());
      }
      CHECK(worker < 3);
    },
    2);
  REQUIRE(seen.size() == 6);
  CHECK(seen[0][0] != 0.0f);
  for (const auto& copy : seen)
    CHECK(copy == seen[0]);
}

TEST_CASE("a token protects all groups of the workers, and is no hindrance") {
  on_workers(
    2,
    [](std::uint32_t, runtime& rt) {
      auto s = strategy_over(rt, 2);
      CHECK(ids(s).item<std::int64_t>() == 6);
      s.barrier();
    },
    2, "secret");
}

TEST_CASE("SYNC-GRP-C7 unequal numbers of devices are an error of all that names both") {
  const auto ended = outcomes_of(
    2, [](std::uint32_t worker, runtime& rt) { (void)strategy_over(rt, worker == 0 ? 2 : 1); }, 2);
  for (const auto& why : ended)
    names(why, errc::mismatch, {"worker:0 has 2 devices", "worker:1 has 1"});
}

TEST_CASE("SYNC part 2 row 4: workers that call different things are told both, and go on") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    const auto begin = std::chrono::steady_clock::now();
    auto why = failure_of([&] {
      s.run([&](replica_context& ctx) {
        (void)ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}));
        if (worker == 0)
          (void)ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}));
        else
          (void)ctx.all_gather(vec<float>({1, 2}));
      });
    });
    names(why, errc::mismatch,
          {"all_reduce sum f32[2]", "all_gather axis 0 f32[-1]", "member 0", "member 1"});
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    CHECK(ids(s).item<std::int64_t>() == 1);
  });
}

TEST_CASE("SYNC part 2 row 4: equal numbers of elements in other shapes differ all the same") {
  const auto ended = outcomes_of(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    s.run([&](replica_context& ctx) {
      (void)ctx.all_reduce(reduce_op::sum,
                           tensor::zeros(dtype::f32, worker == 0 ? shape_t{2, 3} : shape_t{3, 2}));
    });
  });
  for (const auto& why : ended)
    names(why, errc::mismatch, {"f32[2, 3]", "f32[3, 2]"});
}

TEST_CASE(
  "SYNC part 2 row 3: who is late ends the others' call, is named, and the strategy is "
  "usable afterwards") {
  for (std::uint32_t late : {0u, 2u}) {
    std::atomic<int> failed{0};
    on_workers(3, [&](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt, 1, 500ms);
      CHECK(ids(s).item<std::int64_t>() == 3);
      auto why = failure_of([&] {
        s.run([&](replica_context& ctx) {
          if (worker == late) // until the others have given up
            while (failed < 2)
              std::this_thread::yield();
          (void)ctx.all_reduce(reduce_op::sum, 1.0f);
        });
      });
      if (worker != late) {
        names(why, errc::deadline,
              {"all_reduce sum f32[]", ("id " + std::to_string(late)).c_str()});
        ++failed;
      }
      // The groups come together again, whoever has seen which failure.
      for (int i = 0; i < 20; ++i) {
        try {
          s.barrier();
          break;
        } catch (const error&) {
        }
      }
      CHECK(ids(s).item<std::int64_t>() == 3);
    });
  }
}

TEST_CASE("a worker that throws ends the others' calls, and all go on") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    for (int round = 0; round < 3; ++round) {
      auto why = failure_of([&] {
        s.run([&](replica_context& ctx) {
          if (worker == 1)
            throw error{make_failure(errc::user_code, "worker 1 has enough")};
          (void)ctx.all_reduce(reduce_op::sum, 1.0f);
        });
      });
      CHECK(why.text.find("worker 1 has enough") != std::string::npos);
      CHECK(ids(s).item<std::int64_t>() == 1);
    }
  });
}

TEST_CASE("several strategies of one program are independent") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto a = strategy_over(rt);
    auto b = strategy_over(rt);
    auto one =
      a.scope([&] { return make_variable({.name = "one", .initial = tensor::scalar(1)}); });
    CHECK(ids(a).item<std::int64_t>() == 1);
    CHECK(ids(b).item<std::int64_t>() == 1);
    CHECK(a.exchange("a" + std::to_string(worker))[1] == "a1");
    CHECK(b.exchange("b" + std::to_string(worker))[0] == "b0");
    names(failure_of([&] { b.scope([&] { (void)one.read(); }); }), errc::wrong_state,
          {"one", "two strategies"});
  });
}

TEST_CASE("a strategy is made again after failures, by workers that failed at different places") {
  std::atomic<bool> given_up{false};
  on_workers(2, [&](std::uint32_t worker, runtime& rt) {
    // Worker 1 gives up twice before worker 0 comes for the first time.
    while (worker == 0 && !given_up)
      std::this_thread::yield();
    if (worker == 1)
      for (int i = 0; i < 2; ++i)
        names(
          failure_of([&] {
            (void)multi_worker_mirrored_strategy{rt, {.devices = cpus(1), .start_timeout = 100ms}};
          }),
          errc::deadline, {"rendezvous of all workers", "member 0 (id 0 at 127.0.0.1"});
    given_up = true;
    std::optional<multi_worker_mirrored_strategy> s;
    for (int i = 0; i < 3; ++i) {
      s.reset();
      s.emplace(strategy_over(rt));
      CHECK(ids(*s).item<std::int64_t>() == 1);
    }
  });
}

TEST_CASE("a strategy that outlives its runtime says so") {
  std::mutex mutex;
  std::vector<multi_worker_mirrored_strategy> kept;
  on_workers(2, [&](std::uint32_t, runtime& rt) {
    auto s = strategy_over(rt);
    CHECK(ids(s).item<std::int64_t>() == 1);
    std::lock_guard lock{mutex};
    kept.push_back(s);
  });
  REQUIRE(kept.size() == 2);
  names(failure_of([&] { kept[0].run([] {}); }), errc::wrong_state, {"runtime has ended"});
  names(failure_of([&] { kept[1].barrier(); }), errc::wrong_state, {"runtime has ended"});
}

TEST_CASE("peer_lost named its operation twice and never the task: once, and the task") {
  std::atomic<bool> told{false};
  const auto ended = outcomes_of(2, [&](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    CHECK(ids(s).item<std::int64_t>() == 1);
    if (worker == 1)
      return; // its runtime ends
    auto why = failure_of([&] {
      s.run([&](replica_context& ctx) {
        (void)ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}));
      });
    });
    names(why, errc::peer_lost, {"replica 0", "all_reduce sum f32[2]", "worker:1"});
    const auto first = why.text.find("all_reduce");
    CHECK_MESSAGE(why.text.find("all_reduce", first + 1) == std::string::npos, why.text);
    told = true;
  });
  CHECK(told);
  for (const auto& why : ended)
    CHECK_MESSAGE(why.code == errc::none, to_string(why));
}

/// What each of two workers with lists of their own is told.
std::vector<failure> outcomes_with(const std::vector<runtime_options>& all) {
  std::vector<failure> out(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] {
      out[i] = failure_of([&] {
        runtime rt{all[i]};
        (void)strategy_over(rt);
      });
    });
  for (auto& t : threads)
    t.join();
  return out;
}

TEST_CASE("lists of workers that differ: only the caller was told; both are, at once, and where") {
  const auto at = free_addresses(3);
  auto a = worker_options({at[0], at[1]}, 0), b = worker_options({at[0], at[1], at[2]}, 1);
  const auto longer = outcomes_with({a, b});
  for (const auto& why : longer)
    names(why, errc::mismatch,
          {"the member lists differ", "worker:0", "worker:1", "2 members", "3"});
  b.peers = {at[0], at[1]};
  a.peers[1] = at[2]; // and worker:1 listens elsewhere
  const auto begun = std::chrono::steady_clock::now();
  std::vector<failure> moved(2);
  std::thread second{[&] {
    moved[1] = failure_of([&] {
      runtime rt{b};
      (void)strategy_over(rt);
    });
  }};
  moved[0] = failure_of([&] {
    runtime rt{a};
    multi_worker_mirrored_strategy{rt, {.devices = cpus(1), .start_timeout = 3s}};
  });
  second.join();
  names(moved[1], errc::mismatch, {"at index 1", at[1].c_str(), at[2].c_str()});
  CHECK(moved[0].code == errc::deadline); // whoever calls is none of its list
  CHECK(std::chrono::steady_clock::now() - begun < 15s);
}

TEST_CASE("lists in another order: nobody called anybody; both are told within seconds") {
  const auto at = free_addresses(2);
  const auto begun = std::chrono::steady_clock::now();
  const auto ended =
    outcomes_with({worker_options({at[0], at[1]}, 0), worker_options({at[1], at[0]}, 0)});
  for (const auto& why : ended)
    names(why, errc::mismatch,
          {"the member lists differ", "at index 0", at[0].c_str(), at[1].c_str()});
  CHECK(std::chrono::steady_clock::now() - begun < 12s);
}

} // namespace
