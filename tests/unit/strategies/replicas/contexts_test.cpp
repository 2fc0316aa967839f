// Contexts, the default strategy, reduce and gather in cross-replica context. Goal: rows SYNC-CTX,
// DEF, RED, GAT, ONE. Method: strategies over CPU devices of this process.

#include "support.hpp"

#include <troupe/core/execution_context.hpp>

namespace {

using namespace replicas_test;

void check_default_state() {
  CHECK(get_strategy() == strategy{});
  CHECK(!has_strategy());
  CHECK(!in_cross_replica_context());
  REQUIRE(get_replica_context() != nullptr);
  CHECK(get_replica_context()->replica_id_in_sync_group() == 0);
  CHECK(!get_cross_replica_context());
}

TEST_CASE("SYNC-S1 SYNC-CTX-2 SYNC-CTX-3 SYNC-CTX-4 SYNC-CTX-7 scopes") {
  check_default_state();
  auto s = mirrored_over(2);
  s.scope([&] {
    CHECK(get_strategy() == s);
    CHECK(has_strategy());
    CHECK(in_cross_replica_context());
    CHECK(get_replica_context() == nullptr);
    CHECK(*get_cross_replica_context() == s);
  });
  check_default_state();
}

TEST_CASE("SYNC-CTX-5 SYNC-CTX-16 inside run") {
  auto s = mirrored_over(2);
  s.run([&](replica_context& ctx) {
    CHECK(get_replica_context() == &ctx);
    CHECK(!get_cross_replica_context());
    CHECK(!in_cross_replica_context());
    CHECK(has_strategy());
    CHECK(get_strategy() == s);
  });
  check_default_state();
}

TEST_CASE("SYNC-CTX-8 scopes of one strategy nest, and one object is used again") {
  auto s = mirrored_over(2);
  s.scope([&] {
    s.scope([&] { CHECK(get_strategy() == s); });
    CHECK(get_strategy() == s);
  });
  for (int i = 0; i < 2; ++i) {
    strategy_scope open{s};
    CHECK(get_strategy() == s);
    open.exit();
    check_default_state();
    open.exit(); // again: nothing
  }
}

TEST_CASE("SYNC-S10 SYNC-CTX-9 SYNC-CTX-22 two strategies are not mixed") {
  auto a = mirrored_over(2), b = mirrored_over(3);
  a.scope([&] {
    names(failure_of([&] { b.scope([] {}); }), errc::wrong_state,
          {"mixed", "mirrored_strategy(cpu:0, cpu:1)", "mirrored_strategy(cpu:0, cpu:1, cpu:2)"});
    names(failure_of([&] {
            (void)b.reduce(reduce_op::sum, per_replica<float>{{1, 1, 1}});
          }),
          errc::wrong_state, {"reduce", "mixed"});
    CHECK(get_strategy() == a);
  });
  check_default_state();
}

TEST_CASE("SYNC-CTX-10 a scope that is left while another is open inside stays open") {
  auto s = mirrored_over(2);
  strategy_scope outer{s};
  {
    strategy_scope inner{s};
    names(failure_of([&] { outer.exit(); }), errc::wrong_state,
          {"mirrored_strategy", "another scope"});
    CHECK(get_strategy() == s);
  }
  outer.exit();
  check_default_state();
}

TEST_CASE("SYNC-S8 SYNC-CTX-19 SYNC-CTX-20 a strategy for the rest of the thread") {
  auto a = mirrored_over(2), b = mirrored_over(3);
  experimental_set_strategy(a);
  CHECK(get_strategy() == a);
  CHECK(has_strategy());
  CHECK(in_cross_replica_context());
  experimental_set_strategy(b);
  CHECK(get_strategy() == b);
  bool other_thread = true;
  std::thread{[&] { other_thread = has_strategy(); }}.join();
  CHECK(!other_thread); // SYNC-CTX-28
  experimental_set_strategy({});
  check_default_state();
  a.scope([&] {
    for (auto to :
         {std::optional<strategy>{a}, std::optional<strategy>{b}, std::optional<strategy>{}})
      names(failure_of([&] { experimental_set_strategy(to); }), errc::wrong_state,
            {"inside", "scope"});
  });
}

TEST_CASE(
  "SYNC-RED-4 SYNC-CTX-21 SYNC-CTX-23 cross-replica calls inside a replica point elsewhere") {
  auto s = mirrored_over(2);
  CHECK(s.reduce(reduce_op::sum, per_replica<float>{{1, 2}}).item<float>() == 3);
  s.scope([&] { CHECK(s.reduce(reduce_op::sum, per_replica<float>{{1, 2}}).item<float>() == 3); });
  names(failure_of([&] {
          s.run([&] { (void)s.reduce(reduce_op::sum, per_replica<float>{{1, 2}}); });
        }),
        errc::wrong_state, {"reduce", "merge_call"});
  names(failure_of([&] {
          s.run([&] { (void)s.gather(parts({vec<float>({1}), vec<float>({2})}), 0); });
        }),
        errc::wrong_state, {"gather", "all_gather"});
  names(failure_of([&] { s.run([&] { s.run([] {}); }); }), errc::wrong_state,
        {"run", "merge_call"});
}

TEST_CASE("SYNC-CTX-25 replica calls outside a replica, and with another's context") {
  auto s = mirrored_over(2);
  std::atomic<replica_context*> zero{nullptr};
  std::atomic<bool> done{false};
  s.run([&](replica_context& ctx) {
    if (id_of(ctx) == 0) {
      zero = &ctx;
      while (!done)
        std::this_thread::yield();
      return;
    }
    while (!zero)
      std::this_thread::yield();
    names(failure_of([&] { zero.load()->barrier(); }), errc::wrong_state, {"another replica"});
    done = true;
  });
  s.run([&](replica_context& ctx) {
    if (id_of(ctx) == 0)
      zero = &ctx;
    ctx.barrier();
    if (id_of(ctx) == 0)
      ctx.merge_call([&](strategy&) {
        names(failure_of([&] { zero.load()->barrier(); }), errc::wrong_state,
              {"must be called inside"});
      });
    else
      ctx.merge_call([](strategy&) {});
  });
}

// --- the default strategy

TEST_CASE("SYNC-DEF-2 SYNC-DEF-3 SYNC-DEF-8 the default strategy spreads nothing") {
  strategy s;
  CHECK(s.num_replicas_in_sync() == 1);
  auto out = s.run(
    [](replica_context& ctx, int x) {
      CHECK(ctx.replica_id_in_sync_group() == 0);
      CHECK(!has_strategy());
      return x + 1;
    },
    4);
  CHECK(out.as_single() == 5);
  const auto x = vec<float>({1, 2});
  CHECK(s.reduce(reduce_op::sum, x) == x);
  CHECK(s.reduce(reduce_op::mean, x) == x);
  CHECK(s.gather(x, 0) == x);
  CHECK(s.local_results(3) == std::vector<int>{3});
}

TEST_CASE("SYNC-DEF-10 merge_call with nothing active") {
  auto out = get_replica_context()->merge_call(
    [](strategy& in, const per_replica<std::string>& x) {
      CHECK(!has_strategy());
      CHECK(in_cross_replica_context());
      CHECK(in.num_replicas_in_sync() == 1);
      return "foo_" + x.as_single();
    },
    std::string{"bar"});
  CHECK(out == "foo_bar");
  check_default_state();
}

TEST_CASE("SYNC-DEF-11 SYNC-DEF-12 the default strategy's scope") {
  auto s = mirrored_over(2);
  strategy none;
  none.scope([&] {
    CHECK(!has_strategy());
    CHECK(!in_cross_replica_context());
    CHECK(get_replica_context() != nullptr);
    names(failure_of([&] { s.scope([] {}); }), errc::wrong_state, {"mixed"});
  });
  s.scope([&] { names(failure_of([&] { none.scope([] {}); }), errc::wrong_state, {"nested"}); });
  check_default_state();
}

// --- reduce and gather

TEST_CASE(
  "SYNC-RED-1 SYNC-RED-11 SYNC-G2 SYNC-RED-5 SYNC-RED-7 SYNC-RED-8 the worked numbers of reduce") {
  auto s = mirrored_over(2);
  auto full = parts({vec<float>({0, 1, 2, 3}), vec<float>({4, 5, 6, 7})});
  CHECK(s.reduce(reduce_op::sum, full) == vec<float>({4, 6, 8, 10}));
  CHECK(s.reduce(reduce_op::sum, full, 0).item<float>() == 28);
  CHECK(s.reduce(reduce_op::mean, full, 0).item<float>() == 3.5f);
  CHECK(s.reduce(reduce_op::mean, full) == vec<float>({2, 3, 4, 5}));
  auto partial = parts({vec<float>({0, 1, 2, 3}), vec<float>({4, 5})});
  CHECK(s.reduce(reduce_op::sum, partial, 0).item<float>() == 15);
  CHECK(s.reduce(reduce_op::mean, partial, 0).item<float>() == 2.5f);
  auto ints = parts({vec<std::int64_t>({1, 2}), vec<std::int64_t>({1, 2})});
  CHECK(s.reduce(reduce_op::mean, ints, 0).item<double>() == 1.5);
  CHECK(s.reduce(reduce_op::sum, ints, 0).item<std::int64_t>() == 6);
  auto uneven = parts({tensor::of<float>({2, 2}, {1, 1, 1, 1}), tensor::of<float>({1, 2}, {1, 1})});
  CHECK(s.reduce(reduce_op::mean, uneven, 0) == vec<float>({1, 1}));
  auto six = parts({vec<std::int32_t>({8, 9, 10}), vec<std::int32_t>({11, 12, 13})});
  CHECK(s.reduce(reduce_op::mean, six, 0).item<double>() == 10.5);
  auto none = parts({vec<float>({1}), tensor{dtype::f32, {0}}});
  CHECK(s.reduce(reduce_op::sum, none, 0).item<float>() == 1);
  CHECK(s.reduce(reduce_op::mean, none, 0).item<float>() == 1);
  auto nothing = parts({tensor{dtype::f32, {0}}, tensor{dtype::f32, {0}}});
  const auto nan = s.reduce(reduce_op::mean, nothing, 0).item<float>();
  CHECK(nan != nan);
}

TEST_CASE(
  "SYNC-S13 SYNC-RED-9 SYNC-RED-10 axes: tuples, negative ones, and those that are not there") {
  auto s = mirrored_over(2);
  auto x =
    parts({tensor::of<float>({2, 2}, {1, 2, 3, 4}), tensor::of<float>({2, 2}, {5, 6, 7, 8})});
  CHECK(s.reduce(reduce_op::mean, x, std::vector<std::int64_t>{0, 1}).item<float>() == 4.5f);
  CHECK(s.reduce(reduce_op::sum, x, -1) == vec<float>({14, 22}));
  CHECK(s.reduce(reduce_op::max, x, 0) == vec<float>({7, 8}));
  for (std::int64_t bad : {2, -3})
    names(failure_of([&] { (void)s.reduce(reduce_op::sum, x, bad); }), errc::out_of_range,
          {"axis is ", "2 dimensions"});
  auto one = mirrored_over(1);
  auto y = parts({tensor::of<float>({2, 2}, {1, 2, 3, 4})});
  CHECK(one.reduce(reduce_op::mean, y) == y[0]);
  CHECK(one.reduce(reduce_op::mean, y, 0) == vec<float>({2, 3}));
  CHECK(one.reduce(reduce_op::mean, y, std::vector<std::int64_t>{0, 1}).item<float>() == 2.5f);
  CHECK(one.reduce(reduce_op::sum, y) == y[0]);
  CHECK(one.reduce(reduce_op::sum, y, 0) == vec<float>({4, 6}));
  CHECK(one.reduce(reduce_op::sum, y, std::vector<std::int64_t>{0, 1}).item<float>() == 10);
}

TEST_CASE("SYNC-RED-6 components of another shape or type are refused, naming them") {
  auto s = mirrored_over(2);
  names(failure_of([&] {
          (void)s.reduce(reduce_op::sum, parts({vec<float>({0, 1, 2, 3}), vec<float>({4, 5})}));
        }),
        errc::shape_mismatch, {"component 1", "[2]", "[4]"});
  names(failure_of([&] {
          (void)s.reduce(reduce_op::sum, parts({vec<float>({0}), vec<double>({4})}));
        }),
        errc::dtype_mismatch, {"component 1", "f64", "f32"});
  names(failure_of([&] { (void)s.reduce(reduce_op::sum, parts({vec<float>({0})})); }),
        errc::invalid_argument, {"1 components", "2 replicas"});
}

TEST_CASE("SYNC-RED-2 operators by name, in any letter case") {
  auto s = mirrored_over(2);
  auto x = parts({tensor::scalar(1.0f), tensor::scalar(3.0f)});
  for (auto text : {"sum", "SUM", "Sum"})
    CHECK(s.reduce(text, x).item<float>() == 4);
  for (auto text : {"mean", "MEAN"})
    CHECK(s.reduce(text, x).item<float>() == 2);
  names(failure_of([&] { (void)s.reduce("median", x); }), errc::invalid_argument, {"'median'"});
}

TEST_CASE("SYNC-RED-15 SYNC-RED-16 SYNC-RTO-6 SYNC-RTO-8 mirrored and plain values") {
  auto s = mirrored_over(2);
  auto same = mirrored<tensor>({tensor::scalar(2.0f), tensor::scalar(2.0f)});
  CHECK(s.reduce(reduce_op::mean, same).item<float>() == 2);
  names(failure_of([&] { (void)s.reduce(reduce_op::sum, same); }), errc::invalid_argument,
        {"mirrored"});
  CHECK(s.reduce(reduce_op::mean, tensor::scalar(5.0f)).item<float>() == 5);
  names(failure_of([&] { (void)s.reduce(reduce_op::sum, tensor::scalar(5.0f)); }),
        errc::invalid_argument, {"non-distributed", "sum", "2 replicas"});
  CHECK(mirrored_over(1).reduce(reduce_op::sum, tensor::scalar(5.0f)).item<float>() == 5);
}

TEST_CASE("SYNC part 2, row 12: a user's reduction of a struct") {
  auto s = mirrored_over(3);
  struct mean_part {
    float sum, count;
  };
  const user_reduction join{"mean_part",
                            [](std::byte* into, const std::byte* with, std::size_t bytes) {
                              auto* a = reinterpret_cast<float*>(into);
                              auto* b = reinterpret_cast<const float*>(with);
                              for (std::size_t i = 0; i < bytes; ++i)
                                a[i] += b[i];
                            }};
  auto out = s.run([&](replica_context& ctx) {
    const auto k = static_cast<float>(id_of(ctx) + 1);
    return ctx.all_reduce(reduction{join}, vec<float>({10 * k, k}));
  });
  CHECK(out[2].as<float>()[0] / out[2].as<float>()[1] == 10.0f);
  CHECK(
    s.reduce(reduction{join}, parts({vec<float>({1, 1}), vec<float>({2, 1}), vec<float>({6, 1})}))
    == vec<float>({9, 3}));
}

TEST_CASE("SYNC-GAT-1 SYNC-GAT-3 SYNC-GAT-4 SYNC-GAT-5 SYNC-GAT-7 the worked numbers of gather") {
  auto two = mirrored_over(2);
  auto column = tensor::of<int>({2, 1}, {1, 2});
  CHECK(two.gather(parts({column, column}), 0) == tensor::of<int>({4, 1}, {1, 2, 1, 2}));
  auto four = mirrored_over(4);
  auto block = tensor::of<int>({1, 2, 3}, {0, 1, 2, 3, 4, 5});
  auto blocks = parts({block, block, block, block});
  CHECK(four.gather(blocks, 0).shape() == shape_t{4, 2, 3});
  auto middle = four.gather(blocks, 1);
  CHECK(middle.shape() == shape_t{1, 8, 3});
  for (int i = 0; i < 24; ++i)
    CHECK(middle.as<int>()[static_cast<std::size_t>(i)] == i % 6);
  auto last = four.gather(blocks, 2);
  CHECK(last.shape() == shape_t{1, 2, 12});
  for (int i = 0; i < 12; ++i) {
    CHECK(last.as<int>()[static_cast<std::size_t>(i)] == i % 3);
    CHECK(last.as<int>()[static_cast<std::size_t>(12 + i)] == 3 + i % 3);
  }
  auto a = tensor::zeros(dtype::f32, {1, 2, 3}), b = tensor::zeros(dtype::f32, {1, 3, 3});
  CHECK(two.gather(parts({a, b}), 1).shape() == shape_t{1, 5, 3});
  for (std::int64_t axis : {0, 2})
    names(failure_of([&] {
            (void)two.gather(parts({a, b}), axis);
          }),
          errc::shape_mismatch, {"dimension 1", "component 1"});
  names(failure_of([&] {
          (void)two.gather(parts({vec<float>({1}), tensor::zeros(dtype::f32, {1, 2})}), 0);
        }),
        errc::shape_mismatch, {"rank 2", "component 0 1"});
  names(failure_of([&] {
          (void)two.gather(parts({tensor::scalar(1.0f), tensor::scalar(1.0f)}), 0);
        }),
        errc::invalid_argument, {"scalar"});
  for (std::int64_t axis : {-1, 3})
    names(failure_of([&] {
            (void)two.gather(parts({a, a}), axis);
          }),
          errc::out_of_range, {"axis is"});
}

// --- which strategies there are

TEST_CASE("SYNC-RUN-5 SYNC-ONE-1 SYNC-ONE-4 SYNC-ONE-6 SYNC-ONE-7 one device") {
  one_device_strategy s{shared_runtime(), "cpu:1"};
  CHECK(s.num_replicas_in_sync() == 1);
  float total = 0;
  for (int x = 0; x < 10; ++x)
    total += s.run(
      [](replica_context& ctx, float y) {
        CHECK(ctx.devices() == std::vector<std::string>{"cpu:1"});
        return ctx.all_reduce(reduce_op::sum, 2 * y);
      },
      static_cast<float>(x));
  CHECK(total == 90);
  const auto v = vec<float>({1, 2});
  CHECK(s.reduce(reduce_op::sum, v) == v);
  CHECK(s.local_results(v).size() == 1);
  CHECK(s.run([](replica_context& ctx) {
    return ctx.merge_call([](strategy&, const per_replica<int>& x) { return x.as_single() + 1; },
                          4);
  }) == 5);
  CHECK_THROWS_AS(s.run([](replica_context& ctx) {
    ctx.merge_call([](strategy&) { throw std::domain_error{"no"}; });
  }),
                  std::domain_error);
}

TEST_CASE("SYNC-MIR-1 SYNC-MIR-2 devices: CPU by default, none twice, none that are not there") {
  CHECK(mirrored_strategy{shared_runtime()}.to_string() == "mirrored_strategy(cpu:0)");
  names(failure_of([] {
          mirrored_strategy{shared_runtime(), std::vector<std::string>{"cpu:0", "cpu:0"}};
        }),
        errc::invalid_argument, {"'cpu:0' twice"});
  names(failure_of([] {
          mirrored_strategy{shared_runtime(), std::vector<std::string>{}};
        }),
        errc::invalid_argument, {"empty"});
  names(failure_of([] {
          mirrored_strategy{shared_runtime(), std::vector<std::string>{"cpu:9"}};
        }),
        errc::device_unavailable, {"cpu:9", "cpu:0"});
  names(failure_of([] {
          mirrored_strategy{shared_runtime(), std::vector<std::string>{"fast"}};
        }),
        errc::invalid_argument, {"'fast'"});
}

TEST_CASE("a strategy outlives its runtime as an error, not as a crash") {
  std::optional<mirrored_strategy> s;
  {
    runtime rt{four_cpus()};
    s.emplace(rt, cpus(2));
    CHECK(s->run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); })[0]
          == 2.0f);
  }
  names(failure_of([&] { s->run([] {}); }), errc::wrong_state,
        {"mirrored_strategy", "runtime has ended"});
}

TEST_CASE("a replica's step uses its own device") {
  auto s = mirrored_over(2);
  auto out = s.run([](replica_context& ctx) {
    auto& d = ctx.device();
    auto x = d.put(tensor::scalar(static_cast<float>(id_of(ctx))));
    d.check(d.ops().add(x, x, x));
    return std::pair{to_string(d.id()), d.get(x).item<float>()};
  });
  CHECK(out[0] == std::pair<std::string, float>{"cpu:0", 0});
  CHECK(out[1] == std::pair<std::string, float>{"cpu:1", 2});
}

} // namespace
