// Variables of synchronous strategies. Goal: creation, the tables of assignments and reads, rows,
// checkpoint values: rows SYNC-VCR, ONW, ONR, SCT, CKP, CEN, CTX-17. Method: strategies over CPU
// devices of this process, each number of the specification.

#include "variable_support.hpp"

#include <cmath>

namespace {

using namespace replicas_test;
using agg = variable_aggregation;
using sync = variable_synchronization;

tensor id_value(replica_context& ctx, float scale = 1, float plus = 0) {
  return tensor::scalar(scale * static_cast<float>(id_of(ctx)) + plus);
}

// --- creation

TEST_CASE("SYNC-VCR-1 SYNC-N1 one logical variable, one component a device, with names") {
  auto s = mirrored_over(3);
  auto v = s.scope([] { return make_variable({.name = "v", .shape = {2}, .initial = ones()}); });
  CHECK(v.components() == 3);
  CHECK(v.component_name(0) == "v");
  CHECK(v.component_name(1) == "v/replica_1");
  CHECK(v.component_name(2) == "v/replica_2");
  names(failure_of([&] { (void)v.component_name(3); }), errc::out_of_range, {"'v'", "3 of 3"});
  CHECK(v.shape() == shape_t{2});
  CHECK(v.type() == dtype::f32);
  CHECK(v.read() == vec<float>({1, 1}));
  CHECK(v.distribute_strategy() == s); // SYNC-VCR-9
}

TEST_CASE(
  "SYNC-VCR-2 SYNC-V6 random initial values are equal on all copies, also made inside run") {
  auto s = mirrored_over(2);
  int calls = 0;
  auto v = s.scope([&] {
    return make_variable({.name = "f", .initial = [&] {
                            ++calls;
                            return tensor::scalar(static_cast<float>(calls));
                          }});
  });
  CHECK(calls == 1);
  CHECK(copies(v) == std::vector<float>{1, 1});
  for (auto when : {sync::on_write, sync::on_read}) {
    auto out = s.run([&](replica_context&) {
      return make_variable({.name = "r",
                            .shape = {64},
                            .initial = random_normal(0, 1, 7),
                            .synchronization = when,
                            .aggregation = agg::mean});
    });
    auto r = regroup(out);
    CHECK(r.component(0) == r.component(1));
    CHECK(!(r.component(0) == tensor::zeros(dtype::f32, {64})));
  }
}

TEST_CASE("SYNC-VCR-4 SYNC-VCR-5 SYNC-VCR-6 SYNC-VCR-7 SYNC-V19 what may not be asked for") {
  auto s = mirrored_over(2);
  auto made = [&](distributed_variable_options o) {
    return s.scope([&] { return make_variable(o); });
  };
  CHECK(made({.name = "a", .shape = {}}).synchronization() == sync::on_write);
  names(failure_of([&] { made({.name = "a", .synchronization = sync::none}); }),
        errc::invalid_argument, {"'a'", "synchronization none"});
  names(failure_of([&] { made({.name = "a", .synchronization = static_cast<sync>(9)}); }),
        errc::invalid_argument, {"'a'", "synchronization is 9"});
  names(failure_of([&] { made({.name = "a", .aggregation = static_cast<agg>(9)}); }),
        errc::invalid_argument, {"'a'", "aggregation is 9"});
  names(failure_of([&] {
          made({.name = "a", .initial = tensor::scalar<std::int32_t>(1), .aggregation = agg::mean});
        }),
        errc::invalid_argument, {"'a'", "mean", "i32"});
  names(failure_of([&] {
          made({.name = "a", .shape = {3}, .initial = vec<float>({1, 2})});
        }),
        errc::shape_mismatch, {"'a'", "[2]", "[3]"});
}

TEST_CASE("SYNC-VCR-8 SYNC-V20 trainable unless on_read, and an explicit word wins") {
  auto s = mirrored_over(2);
  auto made = [&](sync when, std::optional<bool> trainable) {
    return s.scope([&] {
      return make_variable({.name = "t", .synchronization = when, .trainable = trainable})
        .trainable();
    });
  };
  CHECK(made(sync::automatic, {}));
  CHECK(made(sync::on_write, {}));
  CHECK(!made(sync::on_read, {}));
  CHECK(made(sync::on_read, true));
  CHECK(!made(sync::on_write, false));
}

TEST_CASE("SYNC-VCR-11 a variable made outside any scope is shared by all replicas") {
  auto v = make_variable({.name = "outside", .initial = tensor::scalar(2.0f)});
  CHECK(v.components() == 1);
  auto s = mirrored_over(2);
  auto out = s.run([&](float x) { return x + v.item<float>(); }, per_replica<float>{{10, 20}});
  CHECK(out.local_results() == std::vector<float>{12, 22});
}

TEST_CASE("SYNC-RUN-21 SYNC-RUN-22 SYNC-R14 SYNC-R15 variables made inside run") {
  auto s = mirrored_over(3);
  auto v = regroup(s.run([](replica_context&) { return make_variable({.name = "foo"}); }));
  CHECK(v.name() == "foo");
  CHECK(v.components() == 3);
  auto both = regroup(s.run([](replica_context&) {
    auto a = make_variable({.name = "same"}), b = make_variable({.name = "same"});
    return std::pair{a, b};
  }));
  CHECK(!(both.first == both.second));
  names(failure_of([&] {
          s.run([](replica_context& ctx) {
            (void)make_variable({.name = id_of(ctx) == 1 ? "bar" : "foo"});
          });
        }),
        errc::mismatch, {"'bar'", "cpu:1", "'foo'"});
}

TEST_CASE("SYNC-CTX-17 SYNC-CTX-18 SYNC-V5 outside the scope, and under another strategy") {
  auto s = mirrored_over(2), other = mirrored_over(3);
  auto v = scalar(s, 1, agg::none);
  v.assign(3);
  CHECK(copies(v) == std::vector<float>{3, 3});
  CHECK(v.item<float>() == 3);
  names(failure_of([&] { other.scope([&] { (void)v.read(); }); }), errc::wrong_state,
        {"'v'", "mirrored_strategy(cpu:0, cpu:1)", "mirrored_strategy(cpu:0, cpu:1, cpu:2)"});
  names(failure_of([&] { other.run([&] { v.assign(1); }); }), errc::wrong_state, {"'v'", "mixed"});
}

// --- on_write

TEST_CASE("SYNC-V9 SYNC-ONW-4 mean of per-replica values") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1, agg::mean);
  s.run([&](replica_context& ctx) { v.assign(id_value(ctx)); });
  CHECK(copies(v) == std::vector<float>{0.5f, 0.5f});
  v.assign(1);
  s.run([&](replica_context& ctx) { v.assign_add(id_value(ctx)); });
  CHECK(copies(v) == std::vector<float>{1.5f, 1.5f});
  v.assign(5);
  s.run([&](replica_context& ctx) { v.assign_sub(id_value(ctx)); });
  CHECK(copies(v) == std::vector<float>{4.5f, 4.5f});
}

TEST_CASE("SYNC-ONW-5 SYNC-ONW-6 SYNC-V8 numbers that are the same on every replica") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1, agg::mean);
  s.run([&] { v.assign(5); });
  CHECK(copies(v) == std::vector<float>{5, 5});
  v.assign(1);
  s.run([&] { v.assign_add(5); });
  CHECK(copies(v) == std::vector<float>{6, 6});
  v.assign(5);
  s.run([&] { v.assign_sub(1); });
  CHECK(copies(v) == std::vector<float>{4, 4});
  auto none = scalar(s, 1, agg::none);
  s.run([&] { none.assign(5); });
  CHECK(copies(none) == std::vector<float>{5, 5});
  auto sum = scalar(s, 1, agg::sum);
  names(failure_of([&] { s.run([&] { sum.assign(5); }); }), errc::invalid_argument,
        {"'v'", "not distributed", "sum"});
  CHECK(copies(sum) == std::vector<float>{1, 1});
}

TEST_CASE("SYNC-ONW-7 SYNC-V10 cross-replica assignments go to every copy, unscaled") {
  auto s = mirrored_over(2);
  for (auto how : {agg::none, agg::sum, agg::mean, agg::only_first_replica}) {
    auto v = scalar(s, 1, how);
    v.assign(tensor::scalar(6.0f));
    CHECK(copies(v) == std::vector<float>{6, 6});
    v.assign(1);
    s.scope([&] { v.assign_add(6); });
    CHECK(copies(v) == std::vector<float>{7, 7});
    v.assign_add(2);
    CHECK(copies(v) == std::vector<float>{9, 9});
    v.assign(5);
    v.assign_sub(2);
    CHECK(copies(v) == std::vector<float>{3, 3});
  }
}

TEST_CASE("SYNC-ONW-8 SYNC-ONW-9 SYNC-V16 the first replica's value") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 15, agg::only_first_replica);
  s.run([&](replica_context& ctx) { v.assign(id_value(ctx)); });
  CHECK(copies(v) == std::vector<float>{0, 0});
  v.assign(3);
  s.run([&](replica_context& ctx) { v.assign_add(id_value(ctx, 7, 7)); });
  CHECK(copies(v) == std::vector<float>{10, 10});
  s.run([&](replica_context& ctx) { v.assign_add(id_value(ctx, 13, 13)); });
  CHECK(copies(v) == std::vector<float>{23, 23});
}

TEST_CASE("SYNC-ONW-10 SYNC-V3 a distributed value fed into run") {
  auto s = mirrored_over(2);
  const auto twos = parts({tensor::scalar(2.0f), tensor::scalar(2.0f)});
  for (auto [how, expected] :
       {std::pair{agg::sum, 4.0f}, {agg::mean, 2.0f}, {agg::only_first_replica, 2.0f}}) {
    auto v = scalar(s, 0, how);
    s.run([&](const tensor& x) { v.assign(x); }, twos);
    CHECK(copies(v) == std::vector<float>{expected, expected});
  }
}

TEST_CASE("SYNC-ONW-11 another variable's value") {
  auto s = mirrored_over(2);
  auto w = scalar(s, 2, agg::none);
  for (auto how : {agg::none, agg::mean, agg::only_first_replica}) {
    auto v = scalar(s, 0, how);
    s.run([&] { v.assign(w); });
    CHECK(copies(v) == std::vector<float>{2, 2});
    v.assign(0);
    v.assign(w);
    CHECK(copies(v) == std::vector<float>{2, 2});
  }
  auto own = scalar(s, 2, agg::sum, sync::on_read), none = scalar(s, 0, agg::none);
  names(failure_of([&] { s.run([&] { none.assign(own); }); }), errc::invalid_argument,
        {"'v'", "allow_divergence"});
  CHECK(copies(none) == std::vector<float>{0, 0});
}

TEST_CASE("SYNC-V4 SYNC-ONW-12 SYNC-V25 SYNC-ONW-3 SYNC-ONW-14 counters, and reads after a write") {
  auto s = mirrored_over(3);
  auto step = s.scope([] {
    return make_variable({.name = "global_step",
                          .initial = tensor::scalar<std::int64_t>(0),
                          .aggregation = agg::only_first_replica});
  });
  s.run([&] { step.assign_add(1); });
  CHECK(step.item<std::int64_t>() == 1);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(step.component(i).item<std::int64_t>() == 1);
  auto v = scalar(s, 1, agg::mean);
  auto seen = s.run([&] {
    v.assign_add(1);
    return v.item<float>();
  });
  CHECK(seen.local_results() == std::vector<float>{2, 2, 2});
}

TEST_CASE("SYNC-ONW-15 sum, +1 from each replica for s steps") {
  auto s = mirrored_over(4);
  auto v = scalar(s, 0, agg::sum);
  for (int i = 0; i < 25; ++i)
    s.run([&](replica_context&) { v.assign_add(tensor::scalar(1.0f)); });
  CHECK(copies(v) == std::vector<float>(4, 100));
}

TEST_CASE("SYNC-ONW-1 aggregation none with values of the replicas' own: refused unless allowed") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1, agg::none);
  names(failure_of([&] { s.run([&](replica_context& ctx) { v.assign(id_value(ctx)); }); }),
        errc::invalid_argument, {"'v'", "allow_divergence"});
  auto d = scalar(s, 1, agg::none, sync::on_write, true);
  s.run([&](replica_context& ctx) { d.assign_add(id_value(ctx)); });
  CHECK(copies(d) == std::vector<float>{1, 2});
  CHECK(d.item<float>() == 1);
}

TEST_CASE("per-replica values in cross-replica context go component by component when they fit") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1, agg::mean);
  v.assign(parts({tensor::scalar(3.0f), tensor::scalar(4.0f)}));
  CHECK(copies(v) == std::vector<float>{3, 4});
  names(failure_of([&] { v.assign(parts({tensor::scalar(3.0f)})); }), errc::invalid_argument,
        {"1 components", "2"});
  names(failure_of([&] {
          v.assign(parts({tensor::scalar(3.0f), vec<float>({1, 2})}));
        }),
        errc::shape_mismatch, {"component 1", "[2]"});
  CHECK(copies(v) == std::vector<float>{3, 4});
}

TEST_CASE("a value of another shape or type is refused before anybody waits") {
  auto s = mirrored_over(2);
  auto v = scalar(s, 1, agg::sum);
  names(failure_of([&] { s.run([&] {
                           v.assign(vec<float>({1, 2}));
                         }); }), errc::shape_mismatch,
        {"'v'", "[2]", "[]"});
  names(failure_of([&] { v.assign(tensor::scalar(1.0)); }), errc::dtype_mismatch, {"'v'", "f64"});
  auto k = s.scope(
    [] { return make_variable({.name = "k", .initial = tensor::scalar<std::int32_t>(0)}); });
  for (double bad : {0.5, 1e300, 4e9, std::nan("")})
    names(failure_of([&] { k.assign(bad); }), errc::dtype_mismatch, {"'k'", "i32"});
  names(failure_of([&] { k.assign(std::int64_t{1} << 40); }), errc::dtype_mismatch,
        {"'k'", "1099511627776"});
  k.assign(-2147483648LL);
  CHECK(k.item<std::int32_t>() == -2147483647 - 1);
  CHECK(copies(v) == std::vector<float>{1, 1});
}

// --- on_read

TEST_CASE("SYNC-ONR-1 SYNC-ONR-2 SYNC-V12 what a cross-replica read makes of the copies") {
  for (std::uint32_t n : {2u, 4u}) {
    auto s = mirrored_over(n);
    const auto f = static_cast<float>(n);
    for (auto [how, expected] : {std::pair{agg::sum, f * (f - 1) / 2},
                                 {agg::mean, (f - 1) / 2},
                                 {agg::only_first_replica, 0.0f}}) {
      auto v = scalar(s, 0, how, sync::on_read);
      s.run([&](replica_context& ctx) {
        v.assign(id_value(ctx));
        CHECK(v.item<float>() == static_cast<float>(id_of(ctx)));
      });
      CHECK(v.item<float>() == expected);
      CHECK(s.scope([&] { return v.item<float>(); }) == expected);
    }
    CHECK(scalar(s, 1, agg::sum, sync::on_read).item<float>() == f);
  }
  auto s = mirrored_over(2);
  auto v = scalar(s, 0, agg::none, sync::on_read);
  names(failure_of([&] { (void)v.read(); }), errc::invalid_argument, {"'v'", "aggregation none"});
}

TEST_CASE("SYNC-ONR-3 SYNC-ONR-4 SYNC-V13 cross-replica assignments to on_read variables") {
  auto s = mirrored_over(2);
  auto sum = scalar(s, 0, agg::sum, sync::on_read);
  sum.assign(6);
  CHECK(copies(sum) == std::vector<float>{3, 3});
  CHECK(sum.item<float>() == 6);
  sum.assign(tensor::scalar(2.0f));
  CHECK(copies(sum) == std::vector<float>{1, 1});
  names(failure_of([&] { sum.assign_add(1); }), errc::invalid_argument,
        {"'v'", "assign_add", "sum"});
  names(failure_of([&] { sum.assign_sub(1); }), errc::invalid_argument, {"'v'", "assign_sub"});
  auto mean = scalar(s, 0, agg::mean, sync::on_read);
  mean.assign(6);
  CHECK(copies(mean) == std::vector<float>{6, 6});
  mean.assign_add(1);
  CHECK(mean.item<float>() == 7);
}

TEST_CASE("SYNC-ONR-13 the sum of integers is exact: component 0 has the rest") {
  auto s = mirrored_over(3);
  auto v = s.scope([] {
    return make_variable({.name = "k",
                          .initial = tensor::scalar<std::int64_t>(0),
                          .synchronization = sync::on_read,
                          .aggregation = agg::sum});
  });
  for (std::int64_t x : {7, -7, 2, 9, 0}) {
    v.assign(x);
    CHECK(v.item<std::int64_t>() == x);
    CHECK(v.component(1) == v.component(2));
  }
}

TEST_CASE(
  "SYNC-ONR-5 SYNC-ONR-6 SYNC-ONR-7 SYNC-ONR-8 SYNC-ONR-10 SYNC-V17 replicas write their own") {
  auto s = mirrored_over(2);
  auto sum = scalar(s, 1, agg::sum, sync::on_read), mean = scalar(s, 4, agg::mean, sync::on_read);
  s.run([&](replica_context& ctx) {
    sum.assign_add(id_value(ctx, 1, 2));
    mean.assign(id_value(ctx, 6));
  });
  CHECK(copies(sum) == std::vector<float>{3, 4});
  CHECK(copies(mean) == std::vector<float>{0, 6});
  CHECK(sum.item<float>() == 7);
  CHECK(mean.item<float>() == 3);
  auto first = scalar(s, 2, agg::only_first_replica, sync::on_read);
  s.run([&](replica_context& ctx) { first.assign_add(id_value(ctx, 5, 5)); });
  CHECK(copies(first) == std::vector<float>{7, 12});
  CHECK(first.item<float>() == 7);
  s.run([&](replica_context& ctx) { first.assign_add(id_value(ctx, 11, 11)); });
  CHECK(copies(first) == std::vector<float>{18, 34});
  CHECK(first.item<float>() == 18);
  s.run([&] { first.assign(1); });
  CHECK(copies(first) == std::vector<float>{1, 1});
  auto a = scalar(s, 0, agg::sum, sync::on_read), b = scalar(s, 0, agg::sum, sync::on_read);
  s.run([&] {
    a.assign_add(1);
    b.assign_add(2);
  });
  CHECK(a.item<float>() + b.item<float>() == 6);
}

TEST_CASE(
  "SYNC-ARD-10 SYNC-ARD-11 SYNC-G16 SYNC-G17 a variable in a collective is its local copy") {
  auto s = mirrored_over(3);
  auto w = scalar(s, 2, agg::none);
  auto out = s.run([&](replica_context& ctx) {
    return ctx.all_reduce(reduce_op::sum, w.read()).item<float>() + static_cast<float>(id_of(ctx));
  });
  CHECK(out.local_results() == std::vector<float>{6, 7, 8});
  auto r = scalar(s, 0, agg::only_first_replica, sync::on_read);
  auto sums = s.run([&](replica_context& ctx) {
    r.assign(id_value(ctx, 3));
    return ctx.all_reduce(reduce_op::sum, r.read()).item<float>();
  });
  CHECK(sums.as_single() == 9);
}

// --- rows

struct slices {
  tensor indices, values;
};

distributed_variable vector_of(const strategy& s, tensor initial, agg how) {
  return s.scope(
    [&] { return make_variable({.name = "w", .initial = initial, .aggregation = how}); });
}

TEST_CASE(
  "SYNC-SCT-1 SYNC-V11 SYNC-SCT-2 SYNC-SCT-3 SYNC-SCT-4 SYNC-SCT-5 rows of all replicas are "
  "brought together") {
  auto s = mirrored_over(2);
  auto both = [&](replica_context& ctx) {
    const auto r = id_of(ctx);
    return slices{vec<std::int64_t>({r, r + 1}),
                  vec<float>({static_cast<float>(r), static_cast<float>(r + 1)})};
  };
  auto a = vector_of(s, vec<float>({0, 0, 0}), agg::sum);
  s.run([&](replica_context& ctx) { a.scatter_add(both(ctx).indices, both(ctx).values); });
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(a.component(i) == vec<float>({0, 2, 2}));
  auto b = vector_of(s, vec<float>({0, 0, 0}), agg::mean);
  s.run([&](replica_context& ctx) { b.scatter_sub(both(ctx).indices, both(ctx).values); });
  CHECK(b.component(1) == vec<float>({0, -1, -1}));
  auto c = vector_of(s, vec<std::int32_t>({1, 6, 1}), agg::sum);
  s.run([&](replica_context& ctx) {
    c.scatter_div(vec<std::int64_t>({id_of(ctx)}),
                  vec<std::int32_t>({static_cast<std::int32_t>(id_of(ctx)) + 2}));
  });
  CHECK(c.component(0) == vec<std::int32_t>({0, 2, 1}));
  auto d = vector_of(s, vec<float>({2, 1, 1}), agg::mean);
  s.run([&](replica_context& ctx) {
    d.scatter_mul(vec<std::int64_t>({id_of(ctx)}),
                  vec<float>({static_cast<float>(id_of(ctx)) + 2}));
  });
  CHECK(d.component(1) == vec<float>({2, 1.5f, 1}));
}

TEST_CASE("SYNC-V11 SYNC-SCT-6 SYNC-SCT-7 extremes and updates") {
  auto s = mirrored_over(2);
  const auto at = [](std::int64_t i) { return vec<std::int64_t>({i}); };
  for (auto how : {agg::sum, agg::mean}) {
    auto v = vector_of(s, vec<float>({0, 2, 0}), how);
    names(failure_of([&] { s.run([&] { v.scatter_min(at(1), vec<float>({1})); }); }),
          errc::invalid_argument, {"scatter_min", std::string{to_string(how)}.c_str()});
    names(failure_of([&] { s.run([&] { v.scatter_update(at(1), vec<float>({1})); }); }),
          errc::invalid_argument, {"scatter_update"});
  }
  auto min = vector_of(s, vec<float>({0, 2, 0}), agg::only_first_replica);
  s.run([&] { min.scatter_min(at(1), vec<float>({1})); });
  CHECK(min.component(1) == vec<float>({0, 1, 0}));
  auto max = vector_of(s, vec<float>({0, 0, 0}), agg::only_first_replica);
  s.run([&] { max.scatter_max(at(0), vec<float>({1})); });
  CHECK(max.component(1) == vec<float>({1, 0, 0}));
  auto update = vector_of(s, vec<float>({0, 0, 0}), agg::only_first_replica);
  s.run([&](replica_context& ctx) {
    update.scatter_update(at(1 + id_of(ctx)), vec<float>({3 + static_cast<float>(id_of(ctx))}));
  });
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(update.component(i) == vec<float>({0, 3, 0}));
}

TEST_CASE("SYNC-V11 SYNC-SCT-8 SYNC-SCT-9 without aggregation, and in cross-replica context") {
  auto s = mirrored_over(2);
  const auto zero = vec<std::int64_t>({0});
  const auto two = vec<float>({2});
  auto v = vector_of(s, vec<float>({4}), agg::none);
  auto seen = s.run([&] {
    std::vector<float> out;
    auto note = [&] { out.push_back(v.item<float>()); };
    v.scatter_sub(zero, two), note();
    v.scatter_add(zero, two), note();
    v.scatter_max(zero, two), note();
    v.scatter_min(zero, two), note();
    v.scatter_mul(zero, two), note();
    v.scatter_div(zero, two), note();
    v.scatter_update(zero, two), note();
    return out;
  });
  CHECK(seen[0] == std::vector<float>{2, 4, 4, 2, 4, 2, 2});
  CHECK(seen[1] == seen[0]);
  auto w = vector_of(s, vec<float>({1, 1, 1}), agg::sum);
  w.scatter_add(zero, two);
  CHECK(w.component(1) == vec<float>({3, 1, 1}));
  auto m = vector_of(s, vec<float>({1, 1, 1}), agg::none);
  m.scatter_min(zero, two);
  CHECK(m.component(0) == vec<float>({1, 1, 1}));
  auto r = scalar(s, 0, agg::sum, sync::on_read);
  names(failure_of([&] { s.run([&] { r.scatter_add(zero, two); }); }), errc::invalid_argument,
        {"on_read"});
}

// --- checkpoints

TEST_CASE(
  "SYNC-V22 SYNC-CKP-1 SYNC-CKP-2 SYNC-CKP-3 SYNC-CKP-4 SYNC-CKP-5 what is saved and put back") {
  auto s = mirrored_over(2);
  auto w = scalar(s, 2, agg::mean);
  CHECK(w.saved_value().item<float>() == 2);
  w.restore_value(tensor::scalar(3.0f));
  CHECK(copies(w) == std::vector<float>{3, 3});
  auto plain = make_variable({.name = "plain", .initial = tensor::scalar(0.0f)});
  auto set = [&](const distributed_variable& v) {
    s.run([&](replica_context& ctx) { v.assign(id_value(ctx, -1, 4)); });
  };
  auto sum = scalar(s, 0, agg::sum, sync::on_read), mean = scalar(s, 0, agg::mean, sync::on_read);
  set(sum);
  set(mean);
  CHECK(copies(sum) == std::vector<float>{4, 3});
  const auto saved_sum = sum.saved_value(), saved_mean = mean.saved_value();
  CHECK(saved_sum.item<float>() == 7);
  CHECK(saved_mean.item<float>() == 3.5f);
  sum.restore_value(saved_sum);
  mean.restore_value(saved_mean);
  CHECK(copies(sum) == std::vector<float>{3.5f, 3.5f});
  CHECK(copies(mean) == std::vector<float>{3.5f, 3.5f});
  plain.restore_value(saved_sum);
  CHECK(plain.item<float>() == 7);
  sum.restore_value(tensor::scalar(2.0f));
  mean.restore_value(tensor::scalar(2.0f));
  CHECK(copies(sum) == std::vector<float>{1, 1});
  CHECK(copies(mean) == std::vector<float>{2, 2});
  auto four = mirrored_over(4);
  auto wide = scalar(four, 0, agg::sum, sync::on_read);
  wide.restore_value(saved_sum);
  CHECK(wide.item<float>() == 7);
}

// --- one copy for all

TEST_CASE("SYNC-CEN-5 SYNC-CEN-1 SYNC-CEN-2 SYNC-CEN-3 SYNC-CEN-4 SYNC-ONW-2 central storage") {
  auto s = central(2);
  CHECK(s.num_replicas_in_sync() == 2);
  auto v = scalar(s, 1, agg::sum);
  CHECK(v.components() == 1);
  auto seen = s.run([&](replica_context& ctx) {
    v.assign_add(id_value(ctx, 1, 1));
    return v.item<float>();
  });
  CHECK(seen.local_results() == std::vector<float>{4, 4}); // once, not twice
  v.assign_add(2);
  CHECK(v.item<float>() == 6);
  auto mean = scalar(s, 1, agg::mean);
  s.run([&](replica_context& ctx) { mean.assign(id_value(ctx)); });
  CHECK(mean.item<float>() == 0.5f);
  auto none = scalar(s, 1, agg::none);
  names(failure_of([&] { s.run([&] { none.assign(5); }); }), errc::invalid_argument,
        {"'v'", "aggregation"});
  CHECK(s.reduce(reduce_op::sum, per_replica<float>{{1, 2}}).item<float>() == 3);
  auto placed = s.extended().reduce_to(reduce_op::mean, per_replica<float>{{1, 2}}, none);
  CHECK(placed.devices() == std::vector<std::string>{"cpu:0"}); // the parameter device
  CHECK(placed.value().item<float>() == 1.5f);
}

TEST_CASE("SYNC-CEN-8 minimise (w - 1)^2 with every strategy") {
  auto train = [](const strategy& s) {
    auto w = s.scope([] {
      return make_variable({.name = "w", .initial = tensor::scalar(2.0f), .optimizer = sgd{0.2f}});
    });
    std::vector<float> errors;
    for (int i = 0; i < 10; ++i) {
      s.run([&](replica_context& ctx) {
        const float gradient = 2 * (w.item<float>() - 1);
        ctx.apply({w}, {tensor::scalar(gradient)});
      });
      errors.push_back(std::abs(w.item<float>() - 1));
    }
    return errors;
  };
  auto one = train(one_device_strategy{shared_runtime(), "cpu:0"});
  CHECK(one[0] == doctest::Approx(0.6));
  CHECK(one[1] == doctest::Approx(0.36));
  for (const auto& two : {train(mirrored_over(2)), train(central(2))}) {
    CHECK(two[0] == doctest::Approx(0.2));
    CHECK(two[1] == doctest::Approx(0.04));
    CHECK(two[9] < two[0]);
  }
}

TEST_CASE("optimizer slots: one replica and four take the same path with adam") {
  auto train = [](const strategy& s, reduce_op op) {
    auto w = s.scope([] {
      return make_variable({.name = "w", .initial = vec<float>({1, -1}), .optimizer = adam{0.1f}});
    });
    for (int i = 0; i < 20; ++i)
      s.run([&](replica_context& ctx) { ctx.apply({w}, {w.read()}, op); });
    return w.read();
  };
  auto one = train(mirrored_over(1), reduce_op::mean),
       four = train(mirrored_over(4), reduce_op::mean);
  CHECK(one == four);
  CHECK(!(one == vec<float>({1, -1})));
}

} // namespace
