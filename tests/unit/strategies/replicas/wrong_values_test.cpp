// Reductions that gave wrong values: over nothing, and means whose sum does not fit the elements'
// type. Goal: the operator's own answer for every operator and type, on every path: the program's
// values, replicas' calls, several workers, devices, metrics. Method: all of them against numbers
// written down here.

#include <array>
#include <cmath>
#include <limits>

#include <troupe/kernels/casts.hpp>

#include "workers_support.hpp"

namespace {

using namespace replicas_test;

constexpr std::int64_t huge = std::int64_t{1} << 62;

constexpr std::array all_types{dtype::u8,  dtype::i8,   dtype::i32, dtype::i64,
                               dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

/// Small whole numbers in any type.
tensor numbers(dtype type, const shape_t& shape, const std::vector<double>& values) {
  tensor out{type, shape};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    switch (type) {
      case dtype::u8: out.mutable_as<std::uint8_t>()[i] = static_cast<std::uint8_t>(x); break;
      case dtype::i8: out.mutable_as<std::int8_t>()[i] = static_cast<std::int8_t>(x); break;
      case dtype::i32: out.mutable_as<std::int32_t>()[i] = static_cast<std::int32_t>(x); break;
      case dtype::i64: out.mutable_as<std::int64_t>()[i] = static_cast<std::int64_t>(x); break;
      case dtype::f32: out.mutable_as<float>()[i] = static_cast<float>(x); break;
      case dtype::f64: out.mutable_as<double>()[i] = x; break;
      default: {
        auto* bits = reinterpret_cast<std::uint16_t*>(out.mutable_bytes().data());
        bits[i] = type == dtype::f16 ? kernels::f16_from_f32(static_cast<float>(x))
                                     : kernels::bf16_from_f32(static_cast<float>(x));
      }
    }
  }
  return out;
}

double at(const tensor& x, std::size_t i) {
  switch (x.type()) {
    case dtype::u8: return x.as<std::uint8_t>()[i];
    case dtype::i8: return x.as<std::int8_t>()[i];
    case dtype::i32: return x.as<std::int32_t>()[i];
    case dtype::i64: return static_cast<double>(x.as<std::int64_t>()[i]);
    case dtype::f32: return x.as<float>()[i];
    case dtype::f64: return x.as<double>()[i];
    default: {
      const auto bits = reinterpret_cast<const std::uint16_t*>(x.bytes().data())[i];
      return x.type() == dtype::f16 ? kernels::f32_from_f16(bits) : kernels::f32_from_bf16(bits);
    }
  }
}

/// The largest value of a type, exact in it and in a double; for i64 2^62.
double near_the_end(dtype type) {
  switch (type) {
    case dtype::u8: return 255;
    case dtype::i8: return 127;
    case dtype::i32: return 2147483647.0;
    case dtype::i64: return static_cast<double>(huge);
    case dtype::f16: return 65504;
    case dtype::bf16: return 0x1.8p127;
    default: return 0x1p100;
  }
}

dtype mean_type(dtype type) { return type <= dtype::i64 ? dtype::f64 : type; }

/// What a reduction over nothing gives.
double of_nothing(dtype type, reduce_op op) {
  const double inf = std::numeric_limits<double>::infinity();
  if (op == reduce_op::sum)
    return 0;
  if (op == reduce_op::prod)
    return 1;
  const bool max = op == reduce_op::max;
  switch (type) {
    case dtype::u8: return max ? 0 : 255;
    case dtype::i8: return max ? -128 : 127;
    case dtype::i32: return max ? -2147483648.0 : 2147483647.0;
    case dtype::i64: return max ? -0x1p63 : 0x1p63;
    default: return max ? -inf : inf;
  }
}

double expected(reduce_op op, double a, double b) {
  switch (op) {
    case reduce_op::sum: return a + b;
    case reduce_op::prod: return a * b;
    case reduce_op::min: return std::min(a, b);
    case reduce_op::max: return std::max(a, b);
    default: return (a + b) / 2;
  }
}

constexpr std::array operators{reduce_op::sum, reduce_op::mean, reduce_op::min, reduce_op::max,
                               reduce_op::prod};

/// Columns of two rows, beside components without rows.
template <class Reduce>
void check_rows_and_none(Reduce reduce) {
  for (auto type : all_types)
    for (auto op : operators) {
      CAPTURE(to_string(type));
      CAPTURE(to_string(op));
      const auto full = numbers(type, {2, 2}, {2, 3, 4, 5});
      const auto got = reduce(op, full, numbers(type, {0, 2}, {}));
      REQUIRE(got.shape() == shape_t{2});
      CHECK(at(got, 0) == expected(op, 2, 4));
      CHECK(at(got, 1) == expected(op, 3, 5));
      const auto nothing = reduce(op, numbers(type, {0, 2}, {}), numbers(type, {0, 2}, {}));
      if (op == reduce_op::mean)
        CHECK(std::isnan(at(nothing, 1)));
      else
        CHECK(at(nothing, 1) == of_nothing(type, op));
    }
}

} // namespace

TEST_CASE("reduce with an axis gave 0 where one component has no rows: it counts for nothing") {
  auto s = mirrored_over(2);
  check_rows_and_none([&](reduce_op op, const tensor& a, const tensor& b) {
    const auto one = s.reduce(op, parts({a, b}), 0);
    CHECK(s.reduce(op, parts({b, a}), 0).shape() == one.shape());
    return one;
  });
  // A negative largest value, which 0 would beat, and an axis in the middle.
  const auto below =
    s.reduce(reduce_op::max,
             parts({tensor::of<float>({1, 2, 1}, {-3, -2}), tensor{dtype::f32, {1, 0, 1}}}), 1);
  CHECK(below == tensor::of<float>({1, 1}, {-2}));
}

TEST_CASE("reduce over nothing: the program's own values, with one replica and with several") {
  for (std::uint32_t n : {1u, 2u}) {
    auto s = mirrored_over(n);
    const auto none = tensor{dtype::f32, {0, 1}};
    const std::vector<std::int64_t> rows{0};
    CHECK(s.reduce(reduce_op::max, none, rows) == vec<float>({-INFINITY}));
    CHECK(s.reduce(reduce_op::min, none, rows) == vec<float>({INFINITY}));
    CHECK(std::isnan(s.reduce(reduce_op::mean, none, rows).at<float>(0)));
  }
}

TEST_CASE("reduce over nothing: workers whose components have no rows, and host values of none") {
  on_workers(2, [](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    check_rows_and_none([&](reduce_op op, const tensor& a, const tensor& b) {
      return s.reduce(op, parts({worker == 0 ? a : b}), 0);
    });
    check_rows_and_none([&](reduce_op op, const tensor& a, const tensor& b) {
      return s.reduce(op, worker == 0 ? a : b, std::vector<std::int64_t>{0});
    });
  });
}

namespace {

/// A step in which the last replica has no data.
distributed_batch all_but_one(const strategy& s) {
  const std::int64_t n = s.num_replicas_in_sync();
  auto out = distribute_dataset(s, dataset::range(n - 1).batch(n)).iterate().next();
  CHECK(out.live_replicas() == n - 1);
  return out;
}

/// Twos of all replicas that have data, reduced by the program and in the replicas.
void check_without_one(const strategy& s, dtype type, reduce_op op) {
  CAPTURE(to_string(type));
  CAPTURE(to_string(op));
  const double live = s.num_replicas_in_sync() - 1;
  const double wanted = op == reduce_op::sum    ? 2 * live
                        : op == reduce_op::prod ? std::pow(2.0, live)
                                                : 2;
  auto out = s.run([type](replica_context&, const element&) { return numbers(type, {}, {2}); },
                   all_but_one(s));
  CHECK(at(s.reduce(op, out), 0) == wanted);
  std::atomic<int> wrong{0};
  s.run(
    [&](replica_context& ctx, const element&) {
      wrong += at(ctx.all_reduce(op, numbers(type, {}, {2})), 0) == wanted ? 0 : 1;
    },
    all_but_one(s));
  CHECK(wrong == 0);
}

/// Digits in the order of the replicas that have data.
void check_user_without_one(const strategy& s) {
  const user_reduction join{"join", [](std::byte* into, const std::byte* with, std::size_t n) {
                              auto* a = reinterpret_cast<float*>(into);
                              auto* b = reinterpret_cast<const float*>(with);
                              for (std::size_t i = 0; i < n; ++i)
                                a[i] = 10 * a[i] + b[i];
                            }};
  const auto digits = [](replica_context& ctx) {
    return vec<float>({1.0f + static_cast<float>(id_of(ctx)), 5});
  };
  const bool two = s.num_replicas_in_sync() == 2;
  // Of two workers with two replicas each the pieces go to 0, 2, 1, 3: it is 3 that has none.
  const auto wanted = two ? vec<float>({1, 5}) : vec<float>({123, 555});
  auto out =
    s.run([&](replica_context& ctx, const element&) { return digits(ctx); }, all_but_one(s));
  CHECK(s.reduce(join, out) == wanted);
  std::atomic<int> wrong{0};
  s.run([&](replica_context& ctx,
            const element&) { wrong += ctx.all_reduce(join, digits(ctx)) == wanted ? 0 : 1; },
        all_but_one(s));
  CHECK(wrong == 0);
}

void check_silent(const strategy& s) {
  for (auto type : all_types)
    for (auto op : operators)
      check_without_one(s, type, op);
  check_user_without_one(s);
}

} // namespace

TEST_CASE("reduce over nothing: a replica without data counts for nothing in any type") {
  check_silent(mirrored_over(2));
  on_workers(
    2, [&](std::uint32_t, runtime& rt) { check_silent(strategy_over(rt, 2)); }, 2);
}

TEST_CASE("reduce over nothing: metrics take values of every type, and none") {
  auto s = mirrored_over(2);
  for (auto type : all_types) {
    CAPTURE(to_string(type));
    auto m = s.scope([] { return mean_metric{}; });
    s.run([&](replica_context& ctx) {
      m.update(id_of(ctx) == 0 ? numbers(type, {2}, {3, 5}) : numbers(type, {0}, {}));
    });
    CHECK(m.result() == 4);
  }
  auto a = s.scope([] { return accuracy_metric{}; });
  s.run([&](replica_context& ctx) {
    if (id_of(ctx) == 0)
      a.update(vec<std::int32_t>({2}), tensor::of<float>({1, 3}, {0, 1, 2}));
    else
      a.update(tensor{dtype::i32, {0}}, tensor{dtype::f32, {0, 3}});
  });
  CHECK(a.result() == 1);
}

// --- means

TEST_CASE("the i64 mean of 2^62 and 2^62 was negative: no type's mean leaves its elements' range") {
  auto s = mirrored_over(2);
  for (auto type : all_types) {
    CAPTURE(to_string(type));
    const double x = near_the_end(type);
    const auto each = numbers(type, {2}, {x, x});
    CHECK(at(s.reduce(reduce_op::mean, parts({each, each})), 1) == x);
    CHECK(at(s.reduce(reduce_op::mean, parts({each, each}), 0), 0) == x);
    CHECK(at(s.reduce(reduce_op::mean, each, std::vector<std::int64_t>{0}), 0) == x);
    auto inside =
      s.run([&](replica_context& ctx) { return ctx.all_reduce(reduce_op::mean, each); });
    CHECK(inside.as_single().type() == mean_type(type));
    CHECK(at(inside[0], 0) == x);
    if (type == dtype::f16 || type == dtype::bf16)
      continue; // negative ones: below
    const auto low = numbers(type, {}, {type == dtype::u8 ? 0 : -x});
    CHECK(at(s.reduce(reduce_op::mean, parts({low, low})), 0) == at(low, 0));
  }
  const auto ends = parts({tensor::scalar(std::numeric_limits<std::int64_t>::max()),
                           tensor::scalar(std::numeric_limits<std::int64_t>::min())});
  CHECK(s.reduce(reduce_op::mean, ends).item<double>() == -0.5);
}

TEST_CASE("the i64 mean of 2^62 and 2^62 over several workers, in each way to ask for it") {
  on_workers(
    2,
    [](std::uint32_t, runtime& rt) {
      auto s = strategy_over(rt, 2);
      for (auto type : all_types) {
        CAPTURE(to_string(type));
        const double x = near_the_end(type);
        const auto each = numbers(type, {2}, {x, x});
        const auto all = parts({each, each});
        CHECK(at(s.reduce(reduce_op::mean, all), 1) == x);
        CHECK(at(s.reduce(reduce_op::mean, all, 0), 0) == x);
        CHECK(at(s.reduce(reduce_op::mean, each), 1) == x);
        CHECK(at(s.reduce(reduce_op::mean, each, std::vector<std::int64_t>{0}), 0) == x);
        auto inside =
          s.run([&](replica_context& ctx) { return ctx.all_reduce(reduce_op::mean, each); });
        CHECK(at(inside.as_single(), 0) == x);
      }
    },
    2);
}

TEST_CASE("the i64 mean of 2^62 and 2^62 of device tensors, and where a replica has no data") {
  auto s = mirrored_over(3);
  auto on_devices = s.run([](replica_context& ctx) {
    auto& d = ctx.device();
    return d.get(ctx.all_reduce(reduce_op::mean, d.put(vec<std::int64_t>({huge, -huge}))));
  });
  CHECK(on_devices.as_single() == vec<double>({0x1p62, -0x1p62}));
  const auto two_rows = distribute_dataset(s, dataset::range(2).batch(3)).iterate().next();
  REQUIRE(two_rows.live_replicas() == 2);
  for (auto type : all_types) {
    CAPTURE(to_string(type));
    const double x = near_the_end(type);
    std::atomic<int> wrong{0};
    s.run(
      [&](replica_context& ctx, const element&) {
        const auto got = ctx.all_reduce(reduce_op::mean, numbers(type, {2}, {x, 1}));
        wrong += got.type() == mean_type(type) && at(got, 0) == x && at(got, 1) == 1 ? 0 : 1;
      },
      two_rows);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a mean of 16-bit floats is rounded once: its sum is not") {
  auto s = mirrored_over(2);
  for (auto type : {dtype::f16, dtype::bf16}) {
    CAPTURE(to_string(type));
    // So many ones have a sum that the type has no number for.
    const std::int64_t n = type == dtype::f16 ? 2049 : 257;
    const auto ones = numbers(type, {n}, std::vector<double>(static_cast<std::size_t>(n), 1.0));
    CHECK(at(s.reduce(reduce_op::mean, parts({ones, ones}), 0), 0) == 1);
    CHECK(at(s.reduce(reduce_op::mean, ones, std::vector<std::int64_t>{0}), 0) == 1);
  }
}

// --- axes

TEST_CASE("reduce with the same axis twice is refused, however it is written") {
  auto s = mirrored_over(2);
  const auto x =
    parts({tensor::of<float>({2, 2}, {1, 2, 3, 4}), tensor::zeros(dtype::f32, {2, 2})});
  for (const auto& axes : {std::vector<std::int64_t>{0, 0}, {0, -2}, {1, 0, -1}})
    for (auto op : operators)
      names(failure_of([&] { (void)s.reduce(op, x, axes); }), errc::invalid_argument,
            {"reduce", "axis ", "twice"});
  names(failure_of([&] {
          (void)s.reduce(reduce_op::sum, x[0], std::vector<std::int64_t>{1, -1});
        }),
        errc::invalid_argument, {"axis 1 is given twice", "as -1"});
  on_workers(2, [](std::uint32_t, runtime& rt) {
    auto several = strategy_over(rt);
    const auto one = parts({tensor::zeros(dtype::f32, {2, 2})});
    const std::vector<std::int64_t> twice{0, -2};
    names(failure_of([&] { (void)several.reduce(reduce_op::mean, one, twice); }),
          errc::invalid_argument, {"axis 0 is given twice"});
    names(failure_of([&] { (void)several.reduce(reduce_op::mean, one[0], twice); }),
          errc::invalid_argument, {"axis 0 is given twice"});
    CHECK(ids(several).item<std::int64_t>() == 1);
  });
}

TEST_CASE("reduce with an axis: components of another type are refused in a mean as in a sum") {
  auto s = mirrored_over(2);
  for (auto op : operators)
    names(failure_of([&] {
            (void)s.reduce(op, parts({vec<std::int32_t>({1}), vec<std::int64_t>({1})}), 0);
          }),
          errc::dtype_mismatch, {"component 1 is i64", "component 0 is i32"});
}
