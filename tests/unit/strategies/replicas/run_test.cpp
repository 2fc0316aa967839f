// `run`, regrouping, merge calls and what replicas throw. Goal: rows SYNC-RUN, REG, LOC, MRG, ARD,
// AGA and the decisions about mismatches and silence. Method: a mirrored strategy over CPU devices
// of this process, its threads those of the system.

#include "support.hpp"

namespace {

using namespace replicas_test;

TEST_CASE(
  "SYNC-RCX-2 SYNC-R3 SYNC-RUN-1 SYNC-RCX-4 f is called once a replica, each with its id and "
  "device") {
  for (std::uint32_t n : {1u, 2u, 4u}) {
    auto s = mirrored_over(n);
    CHECK(s.num_replicas_in_sync() == n);
    std::atomic<int> calls{0};
    auto out = s.run([&](replica_context& ctx) {
      ++calls;
      CHECK(ctx.num_replicas_in_sync() == n);
      CHECK(ctx.strategy() == s);
      return std::pair{id_of(ctx), ctx.devices()[0]};
    });
    CHECK(calls == static_cast<int>(n));
    REQUIRE(out.size() == n);
    for (std::uint32_t i = 0; i < n; ++i)
      CHECK(out[i] == std::pair<std::int64_t, std::string>{i, "cpu:" + std::to_string(i)});
  }
}

TEST_CASE(
  "SYNC-PRV-1 SYNC-RUN-2 distributed values anywhere in the arguments become the replica's "
  "component") {
  auto s = mirrored_over(2);
  const per_replica<int> a{{1, 2}};
  const std::map<std::string, std::vector<per_replica<int>>> nest{
    {"k", {a, per_replica<int>{{10, 20}}}}};
  auto out = s.run(
    [](int x, const std::map<std::string, std::vector<int>>& m,
       const std::tuple<int, std::string>& t, int plain) {
      return x + m.at("k")[0] * 100 + m.at("k")[1] * 1000 + std::get<0>(t) + plain
             + static_cast<int>(std::get<1>(t).size());
    },
    a, nest, std::tuple{a, std::string{"abc"}}, 5);
  CHECK(out.local_results()
        == std::vector<int>{1 + 100 + 10000 + 1 + 5 + 3, 2 + 200 + 20000 + 2 + 5 + 3});
}

TEST_CASE(
  "SYNC-RUN-4 SYNC-REG-1 SYNC-RUN-13 the result keeps f's structure, leaves are regrouped") {
  auto s = mirrored_over(2);
  auto out = s.run(
    [](const tensor& x) {
      const auto v = x.item<float>();
      return std::map<std::string, float>{{"a", v - 1}, {"b", v + 1}};
    },
    parts({tensor::scalar(0.0f), tensor::scalar(1.0f)}));
  auto nest = regroup(out);
  CHECK(nest.at("a").local_results() == std::vector<float>{-1, 0});
  CHECK(nest.at("b").local_results() == std::vector<float>{1, 2});
  auto pairs = regroup(s.run([](replica_context& ctx) {
    return std::tuple{id_of(ctx), std::vector<std::int64_t>{id_of(ctx), 7}};
  }));
  CHECK(std::get<0>(pairs).local_results() == std::vector<std::int64_t>{0, 1});
  CHECK(std::get<1>(pairs)[1].as_single() == 7);
}

TEST_CASE("SYNC-RUN-9 SYNC-RUN-10 SYNC-RUN-12 plain numbers go to all") {
  auto two = mirrored_over(2);
  CHECK(two.run([](double x) { return x * 2; }, 3.0).local_results() == std::vector<double>{6, 6});
  auto four = mirrored_over(4);
  CHECK(four.run([](double x) { return x * x; }, 2.0).as_single() == 4.0);
  auto one = mirrored_over(1);
  auto a = one.run([](int x) { return 2 * x; }, 4);
  auto b = one.run([](int x) { return 2 * x; }, a);
  CHECK(one.run([](int x, int y) { return x + y + 18; }, a, b)[0] == 42);
}

TEST_CASE("SYNC-RUN-15 nothing, or an empty list, from every replica") {
  auto s = mirrored_over(2);
  int calls = 0;
  std::mutex mutex;
  s.run([&] {
    std::lock_guard lock{mutex};
    ++calls;
  });
  CHECK(calls == 2);
  CHECK(regroup(s.run([] { return std::vector<int>{}; })).empty());
  CHECK(regroup(s.run([] { return std::map<std::string, int>{}; })).empty());
}

struct odd_error : std::runtime_error {
  using runtime_error::runtime_error;
};

TEST_CASE(
  "SYNC-GRP-C8 SYNC-R4 SYNC-RUN-16 what a replica throws comes through with its type, and stops "
  "the others") {
  auto s = mirrored_over(3);
  std::atomic<int> cancelled{0};
  for (int thrower = 0; thrower < 3; ++thrower) {
    cancelled = 0;
    CHECK_THROWS_WITH_AS(s.run([&](replica_context& ctx) {
      try {
        ctx.barrier(); // who is still in it when another throws is stopped here
        if (id_of(ctx) == thrower)
          throw odd_error{"replica " + std::to_string(thrower)};
        (void)ctx.all_reduce(reduce_op::sum, 1.0f);
      } catch (const error& e) {
        cancelled += e.code() == errc::cancelled ? 1 : 100;
        throw;
      }
    }),
                         doctest::Contains(("replica " + std::to_string(thrower)).c_str()),
                         odd_error);
    CHECK(cancelled == 2);
    // and the strategy goes on
    CHECK(
      s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
      == 3.0f);
  }
}

TEST_CASE("SYNC-R4 SYNC-RUN-17 it comes through from merge functions and from nested calls too") {
  auto s = mirrored_over(2);
  auto merge_throws = [&](auto inside) {
    CHECK_THROWS_AS(
      s.run([&](replica_context& ctx) { ctx.merge_call([&](strategy& in) { inside(in); }); }),
      odd_error);
    CHECK(s.run([](replica_context& ctx) { return id_of(ctx); }).size() == 2);
  };
  merge_throws([](strategy&) { throw odd_error{"a"}; });
  merge_throws([](strategy& in) {
    in.run([](replica_context& ctx) {
      if (id_of(ctx) == 1)
        throw odd_error{"b"};
    });
  });
  merge_throws([](strategy& in) {
    in.run([](replica_context& ctx) { ctx.merge_call([](strategy&) { throw odd_error{"c"}; }); });
  });
}

TEST_CASE("SYNC-R5 SYNC-RUN-18 SYNC-REG-2 structures that differ are refused") {
  auto s = mirrored_over(2);
  auto out = s.run(
    [](replica_context& ctx) { return std::vector<int>(static_cast<std::size_t>(id_of(ctx))); });
  names(failure_of([&] { (void)regroup(out); }), errc::mismatch,
        {"a list", "replica 1", "1 elements"});
  auto maps = s.run([](replica_context& ctx) {
    return std::map<std::string, int>{{id_of(ctx) == 0 ? "a" : "b", 1}};
  });
  names(failure_of([&] { (void)regroup(maps); }), errc::mismatch, {"a map", "replica 1"});
}

TEST_CASE("SYNC-RUN-19 replicas run at the same time, and merge calls keep their order") {
  auto s = mirrored_over(2);
  std::atomic<int> there{0};
  std::vector<int> order;
  s.run([&](replica_context& ctx) {
    ++there;
    while (there < 2) // nobody waits for the other's end
      std::this_thread::yield();
    for (int i = 0; i < 50; ++i)
      ctx.merge_call([&, i](strategy&) { order.push_back(i); });
  });
  REQUIRE(order.size() == 50);
  for (int i = 0; i < 50; ++i)
    CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("SYNC-RUN-20 replicas that reach another number of merge calls are told so") {
  auto s = mirrored_over(2);
  names(failure_of([&] {
          s.run([](replica_context& ctx) {
            for (std::int64_t i = 0; i <= id_of(ctx); ++i)
              ctx.merge_call([](strategy&) {});
          });
        }),
        errc::mismatch, {"call 2", "replica 1", "merge_call", "replica 0 has ended after 1 calls"});
  CHECK(s.run([](replica_context& ctx) { return id_of(ctx); })[1] == 1);
}

TEST_CASE(
  "SYNC-MIR-9 SYNC-REG-3 SYNC-RUN-23 equal results stay distributed; as_single unwraps them") {
  auto s = mirrored_over(2);
  auto out = s.run([](int x) { return 2 * x; }, per_replica<int>{{2, 2}});
  CHECK(out.size() == 2);
  CHECK(out.as_single() == 4);
  names(
    failure_of([&] { (void)s.run([](replica_context& ctx) { return id_of(ctx); }).as_single(); }),
    errc::mismatch, {"component 1"});
}

TEST_CASE("SYNC-REG-6 SYNC-REG-7 SYNC-REG-9 regroup and select are inverse") {
  using pair = std::tuple<std::string, std::string>;
  const std::vector<std::vector<pair>> both{{{"1", "2"}}, {{"3", "4"}}};
  auto grouped = regroup(both);
  CHECK(std::get<0>(grouped[0]).local_results() == std::vector<std::string>{"1", "3"});
  CHECK(std::get<1>(grouped[0]).local_results() == std::vector<std::string>{"2", "4"});
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(select_replica(i, grouped) == both[i]);
  auto alone = regroup(std::vector<int>{5});
  CHECK(alone.as_single() == 5);
  names(failure_of([&] { (void)select_replica(1, alone); }), errc::out_of_range,
        {"component 1 of 1"});
}

TEST_CASE("SYNC-LOC-1 SYNC-LOC-2 SYNC-LOC-3 SYNC-LOC-5 local results") {
  auto s = mirrored_over(2);
  auto ids = s.run([](replica_context& ctx) { return id_of(ctx); });
  CHECK(s.local_results(ids) == std::vector<std::int64_t>{0, 1});
  auto nest = regroup(s.run([](replica_context& ctx) {
    return std::map<std::string, std::int64_t>{{"a", id_of(ctx) + 1}, {"b", id_of(ctx) + 2}};
  }));
  CHECK(s.local_results(nest)
        == std::vector<std::map<std::string, std::int64_t>>{{{"a", 1}, {"b", 2}},
                                                            {{"a", 2}, {"b", 3}}});
  CHECK(s.local_results(7) == std::vector<int>{7});
}

// --- merge calls

TEST_CASE(
  "SYNC-CTX-6 SYNC-R12 SYNC-MRG-1 SYNC-MRG-2 SYNC-MRG-3 merge calls regroup, run once and give "
  "each its part") {
  auto s = mirrored_over(2);
  std::atomic<int> calls{0};
  auto out = s.run([&](replica_context& ctx) {
    const int eleven = ctx.merge_call([&](strategy& in) {
      ++calls;
      CHECK(in_cross_replica_context());
      CHECK(get_replica_context() == nullptr);
      CHECK(get_strategy() == in);
      return 11;
    });
    CHECK(get_replica_context() == &ctx);
    return eleven + 1;
  });
  CHECK(out.local_results() == std::vector<int>{12, 12});
  CHECK(calls == 1);
  auto same = s.run([](replica_context& ctx) {
    return ctx.merge_call([](strategy&, const per_replica<std::int64_t>& x) { return x; },
                          id_of(ctx));
  });
  CHECK(same.local_results() == std::vector<std::int64_t>{0, 1});
  auto sum = s.run([](replica_context& ctx) {
    return ctx.merge_call(
      [](strategy& in, const per_replica<tensor>& x) { return in.reduce(reduce_op::sum, x); },
      tensor::scalar<std::int64_t>(id_of(ctx) + 1));
  });
  CHECK(sum[0].item<std::int64_t>() == 3);
  CHECK(sum[1].item<std::int64_t>() == 3);
}

TEST_CASE("SYNC-MRG-4 in loops and branches, and in a run that a merge function makes") {
  auto s = mirrored_over(2);
  auto out = s.run([](replica_context& ctx) {
    std::int64_t total = 0;
    for (int i = 0; i < 5; ++i)
      if (i % 2 == 0)
        total += ctx.merge_call(
          [](strategy& in, const per_replica<std::int64_t>& x) {
            auto inner = in.run(
              [](replica_context& inside, std::int64_t mine) {
                return inside.merge_call(
                  [](strategy&, const per_replica<std::int64_t>& all) { return all[0] + all[1]; },
                  mine * 10);
              },
              x);
            return inner[0];
          },
          id_of(ctx) + 1);
    return total;
  });
  CHECK(out.local_results() == std::vector<std::int64_t>{90, 90});
}

// --- collectives

TEST_CASE("SYNC-G13 SYNC-ARD-1 SYNC-ARD-3 nests of tensors, sums and means") {
  auto s = mirrored_over(2);
  auto in = [](replica_context& ctx) {
    return std::tuple{tensor::scalar(id_of(ctx) == 0 ? 1.0f : 3.0f),
                      id_of(ctx) == 0 ? vec<float>({39, 2}) : vec<float>({3, 41})};
  };
  auto sums = s.run([&](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, in(ctx)); });
  auto means =
    s.run([&](replica_context& ctx) { return ctx.all_reduce(reduce_op::mean, in(ctx)); });
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(std::get<0>(sums[i]).item<float>() == 4);
    CHECK(std::get<1>(sums[i]) == vec<float>({42, 43}));
    CHECK(std::get<0>(means[i]).item<float>() == 2);
    CHECK(std::get<1>(means[i]) == vec<float>({21, 21.5f}));
  }
}

TEST_CASE("SYNC-ARD-4 SYNC-ARD-6 ids are summed, and one replica is itself") {
  auto s = mirrored_over(2);
  CHECK(s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, id_of(ctx)); })
          .as_single()
        == 1);
  auto one = mirrored_over(1);
  CHECK(one.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::mean, 4.0f); })[0]
        == 4.0f);
  CHECK(one.run([](replica_context& ctx) {
    return ctx.all_gather(vec<int>({1, 2}));
  })[0] == vec<int>({1, 2}));
}

TEST_CASE("SYNC-RED-3 extremes and products, and a mean of integers is a double") {
  auto s = mirrored_over(3);
  auto of = [&](reduce_op op) {
    return s.run([op](replica_context& ctx) {
      constexpr std::int32_t xs[] = {3, 7, 5};
      return ctx.all_reduce(op, tensor::scalar(xs[id_of(ctx)]));
    })[2];
  };
  CHECK(of(reduce_op::max).item<std::int32_t>() == 7);
  CHECK(of(reduce_op::min).item<std::int32_t>() == 3);
  CHECK(of(reduce_op::prod).item<std::int32_t>() == 105);
  CHECK(of(reduce_op::mean).item<double>() == 5.0);
}

TEST_CASE(
  "SYNC-ARD-7 SYNC-COL-E SYNC-G15 SYNC-ARD-8 SYNC-ARD-9 sparse values keep their rows, in replica "
  "order") {
  auto s = mirrored_over(2);
  auto one = [](std::int64_t row, float x) {
    return sparse_gradient{.indices = vec<std::int64_t>({row}),
                           .values = tensor::of<float>({1, 1}, {x})};
  };
  auto out = s.run([&](replica_context& ctx) {
    return ctx.all_reduce(
      reduce_op::sum, std::tuple{tensor::scalar(1.0f), one(0, 1), tensor::scalar(2.0f), one(1, 2)});
  });
  CHECK(std::get<0>(out[1]).item<float>() == 2);
  CHECK(std::get<1>(out[1]).indices == vec<std::int64_t>({0, 0}));
  CHECK(std::get<1>(out[1]).values == tensor::of<float>({2, 1}, {1, 1}));
  CHECK(std::get<2>(out[0]).item<float>() == 4);
  CHECK(std::get<3>(out[0]).indices == vec<std::int64_t>({1, 1}));
  auto means =
    s.run([&](replica_context& ctx) { return ctx.all_reduce(reduce_op::mean, one(0, 1)); });
  CHECK(means[0].values == tensor::of<float>({2, 1}, {0.5f, 0.5f}));
}

TEST_CASE(
  "SYNC-COL-H SYNC-AGA-1 SYNC-AGA-4 SYNC-AGA-2 all_gather along an axis, extents may differ") {
  auto s = mirrored_over(2);
  auto rows =
    s.run([](replica_context& ctx) { return ctx.all_gather(vec<std::int64_t>({id_of(ctx)})); });
  CHECK(rows[0] == vec<std::int64_t>({0, 1}));
  CHECK(rows[1] == vec<std::int64_t>({0, 1}));
  auto wide = s.run([](replica_context& ctx) {
    return ctx.all_gather(tensor::of<float>({2, 1}, {1.0f + static_cast<float>(id_of(ctx)), 9}), 1);
  });
  CHECK(wide[0] == tensor::of<float>({2, 2}, {1, 2, 9, 9}));
  auto uneven = s.run([](replica_context& ctx) {
    return ctx.all_gather(tensor::zeros(dtype::f32, {id_of(ctx) + 1, 3}));
  });
  CHECK(uneven[1].shape() == shape_t{3, 3});
  names(failure_of([&] {
          s.run([](replica_context& ctx) {
            (void)ctx.all_gather(
              tensor::zeros(dtype::f32, id_of(ctx) == 0 ? shape_t{1, 1} : shape_t{1, 2}));
          });
        }),
        errc::shape_mismatch, {"f32[-1, 1]", "f32[-1, 2]"});
  names(failure_of(
          [&] { s.run([](replica_context& ctx) { (void)ctx.all_gather(tensor::scalar(1)); }); }),
        errc::invalid_argument, {"scalar"});
}

TEST_CASE("SYNC-ARD-12 a mismatch is told to all at once, with both calls quoted") {
  auto s = mirrored_over(2);
  std::mutex mutex;
  std::vector<failure> told;
  const auto begin = shared_runtime().env().clock.now();
  auto thrown = failure_of([&] {
    s.run([&](replica_context& ctx) {
      try {
        (void)ctx.all_reduce(reduce_op::sum, 1.0f);
        (void)ctx.all_reduce(reduce_op::sum, 1.0f);
        if (id_of(ctx) == 0)
          (void)ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}));
        else
          (void)ctx.all_gather(vec<float>({1, 2}));
      } catch (const error& e) {
        std::lock_guard lock{mutex};
        told.push_back(e.details());
        throw;
      }
    });
  });
  CHECK(shared_runtime().env().clock.now() - begin < 5s);
  REQUIRE(told.size() == 2);
  for (const auto& why : {told[0], told[1], thrown})
    names(
      why, errc::mismatch,
      {"call 3", "replica 0", "all_reduce sum f32[2]", "replica 1", "all_gather axis 0 f32[-1]"});
  CHECK(s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
        == 2.0f);
}

TEST_CASE(
  "SYNC-COL-L SYNC-COL-K a replica that does not come is named, and the strategy is usable "
  "afterwards") {
  auto s = mirrored_over(3, {.collective_timeout = 200ms});
  std::atomic<bool> go{false};
  auto why = failure_of([&] {
    s.run([&](replica_context& ctx) {
      (void)ctx.all_reduce(reduce_op::sum, 1.0f);
      if (id_of(ctx) == 2) {
        while (!go)
          std::this_thread::yield();
        return;
      }
      try {
        (void)ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}));
      } catch (...) {
        go = true;
        throw;
      }
    });
  });
  names(why, errc::deadline, {"all_reduce sum f32[2]", "2"});
  CHECK(s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
        == 3.0f);
}

TEST_CASE("SYNC part 2, row 11: the status says what is waited for, and for whom") {
  auto s = mirrored_over(2);
  std::atomic<bool> go{false}, seen{false};
  std::thread asks{[&] {
    while (!seen) {
      auto text = s.status();
      seen = text == "op 2 all_reduce sum f32[2] waits for {1}";
      std::this_thread::yield();
    }
    go = true;
  }};
  s.run([&](replica_context& ctx) {
    (void)ctx.all_reduce(reduce_op::sum, 1.0f);
    while (id_of(ctx) == 1 && !go)
      std::this_thread::yield();
    (void)ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}));
  });
  asks.join();
  CHECK(seen);
  CHECK(s.status().empty());
}

TEST_CASE(
  "a replica that hangs after another failed is left behind, and another thread takes its place") {
  auto s = mirrored_over(2, {.grace_ms = 50});
  static std::atomic<bool> begun{false}, go{false}, gone{false};
  CHECK_THROWS_AS(s.run([](replica_context& ctx) {
    while (ctx.replica_id_in_sync_group() == 0)
      if (begun)
        throw odd_error{"first"};
    begun = true;
    while (!go)
      std::this_thread::yield();
    gone = true;
  }),
                  odd_error);
  CHECK(!gone);
  CHECK(s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
        == 2.0f);
  go = true;
  while (!gone)
    std::this_thread::yield();
}

TEST_CASE("SYNC-X8 SYNC-COL-G runs of two threads follow one another") {
  auto s = mirrored_over(2);
  auto many = [&](float x) {
    for (int i = 0; i < 200; ++i)
      CHECK(
        s.run([x](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, x); }).as_single()
        == 2 * x);
  };
  std::thread other{[&] { many(2.0f); }};
  many(1.0f);
  other.join();
}

TEST_CASE("SYNC part 2, row 10: strategies of one process are independent") {
  auto a = mirrored_over(2), b = mirrored_over(3);
  auto many = [](mirrored_strategy& s, float n) {
    for (int i = 0; i < 200; ++i)
      CHECK(
        s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
        == n);
  };
  std::thread other{[&] { many(b, 3); }};
  many(a, 2);
  other.join();
}

TEST_CASE("SYNC-VFF-1 SYNC-VFF-2 SYNC-VFF-3 SYNC-VFF-4 values from a function") {
  auto s = mirrored_over(2);
  auto ones = s.distribute_values_from_function([](const value_context&) { return 1.0; });
  CHECK(ones.local_results() == std::vector<double>{1, 1});
  auto picked = s.distribute_values_from_function([](const value_context& at) {
    constexpr int xs[] = {3, 2, 1};
    return std::tuple{xs[at.replica_id_in_sync_group], at.num_replicas_in_sync};
  });
  CHECK(std::get<0>(picked).local_results() == std::vector<int>{3, 2});
  CHECK(std::get<1>(picked).as_single() == 2u);
  auto ids = s.distribute_values_from_function(
    [](const value_context& at) { return at.replica_id_in_sync_group; });
  CHECK(s.run([](std::uint32_t x) { return x * x; }, ids).local_results()
        == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE(
  "a replica that hangs in a nested run takes neither the process nor the strategy with it") {
  auto s = mirrored_over(2, {.grace_ms = 50});
  static std::atomic<bool> there{false}, go{false}, gone{false};
  CHECK_THROWS_AS(s.run([](replica_context& ctx) {
    ctx.merge_call([](strategy& in) {
      in.run([](replica_context& inner) {
        if (inner.replica_id_in_sync_group() == 1) {
          while (!there) // a run that has failed begins no function any more
            std::this_thread::yield();
          throw odd_error{"nested"};
        }
        there = true;
        while (!go)
          std::this_thread::yield();
        gone = true;
      });
    });
  }),
                  odd_error);
  CHECK(s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
        == 2.0f);
  go = true;
  while (!gone)
    std::this_thread::yield();
}

TEST_CASE("SYNC-MRG-1 a merge call that a replica does not come to ends with its name") {
  auto s = mirrored_over(2, {.collective_timeout = 100ms});
  std::atomic<bool> go{false};
  auto why = failure_of([&] {
    s.run([&](replica_context& ctx) {
      if (id_of(ctx) == 1) {
        while (!go)
          std::this_thread::yield();
        return;
      }
      try {
        ctx.merge_call([](strategy&) {});
      } catch (...) {
        go = true;
        throw;
      }
    });
  });
  names(why, errc::deadline, {"op 1 merge_call", "waits for {1}"});
}

TEST_CASE("merge calls with other results are told apart") {
  auto s = mirrored_over(2);
  auto why = failure_of([&] {
    s.run([](replica_context& ctx) {
      if (id_of(ctx) == 0)
        (void)ctx.merge_call([](strategy&) { return 1; });
      else
        (void)ctx.merge_call([](strategy&) { return std::string{"one"}; });
    });
  });
  names(why, errc::mismatch, {"call 1", "merge_call"});
}

TEST_CASE("results may be booleans, and functions may return references") {
  auto s = mirrored_over(2);
  auto odd = s.run([](replica_context& ctx) { return id_of(ctx) == 1; });
  CHECK(!odd[0]);
  CHECK(odd[1]);
  CHECK(one_device_strategy{shared_runtime(), "cpu:0"}.run([] { return true; }));
  auto same = s.run([](const std::string& x) -> const std::string& { return x; },
                    per_replica<std::string>{{"a long enough text, not in place", "b"}});
  CHECK(same[0] == "a long enough text, not in place");
}

TEST_CASE("means of small integers do not wrap") {
  auto s = mirrored_over(2);
  auto in = parts({vec<std::uint8_t>({200, 100}), vec<std::uint8_t>({100, 100})});
  CHECK(s.reduce(reduce_op::mean, in) == vec<double>({150, 100}));
  CHECK(s.reduce(reduce_op::mean, in, 0).item<double>() == 125);
  CHECK(
    s.run([](replica_context& ctx, const tensor& x) { return ctx.all_reduce(reduce_op::mean, x); },
          in)[1]
    == vec<double>({150, 100}));
}

} // namespace
