// Gradients through collective calls. Goal: rows SYNC-AGA-3, ARD-5, ARD-6 and G14. Method: the
// rows' numbers; differences of the calls themselves, which are linear, so that every comparison is
// exact.

#include "support.hpp"

namespace {

using namespace replicas_test;

TEST_CASE("SYNC-ARD-5 SYNC-G14 back through all_reduce goes the same reduction") {
  auto s = mirrored_over(2);
  auto back = [&](reduce_op op) {
    return s.run([op](replica_context& ctx) {
      const auto c = tensor::scalar(id_of(ctx) == 0 ? 1.0f : 3.0f);
      return all_reduce_gradient(ctx, op, c);
    });
  };
  for (const auto& each : back(reduce_op::sum))
    CHECK(each == tensor::scalar(4.0f));
  for (const auto& each : back(reduce_op::mean))
    CHECK(each == tensor::scalar(2.0f));
}

TEST_CASE("SYNC-ARD-6 with one replica gradients pass through") {
  for (const strategy& s : {strategy{}, strategy{mirrored_over(1)},
                            strategy{one_device_strategy{shared_runtime(), "cpu:0"}}}) {
    auto both = s.run([](replica_context& ctx) {
      return std::tuple{all_reduce_gradient(ctx, reduce_op::sum, tensor::scalar(4.0f)),
                        all_reduce_gradient(ctx, reduce_op::mean, tensor::scalar(5.0f)),
                        all_gather_gradient(ctx, vec<float>({1, 2}), 2)};
    });
    CHECK(std::get<0>(both[0]) == tensor::scalar(4.0f));
    CHECK(std::get<1>(both[0]) == tensor::scalar(5.0f));
    CHECK(std::get<2>(both[0]) == vec<float>({1, 2}));
  }
}

TEST_CASE("SYNC-AGA-3 back through all_gather each replica takes its part of the sum") {
  for (const std::uint32_t n : {1u, 2u, 3u, 4u}) {
    auto s = mirrored_over(n);
    auto out = s.run([](replica_context& ctx) {
      const auto x = tensor::of<float>({2, 1}, {3, 5});
      auto upstream = ctx.all_gather(x, 1);
      for (auto& each : upstream.mutable_as<float>())
        each = static_cast<float>(id_of(ctx) + 1); // of the product with r + 1
      return all_gather_gradient(ctx, upstream, 1, 1);
    });
    const auto sum = static_cast<float>(n * (n + 1)) / 2;
    for (const auto& each : out)
      CHECK(each == tensor::of<float>({2, 1}, {sum, sum}));
  }
}

/// Numbers that tell the elements and the replicas apart.
tensor numbered(const shape_t& shape, std::int64_t seed) {
  tensor out{dtype::f64, shape};
  double next = static_cast<double>(seed) * 100;
  for (auto& each : out.mutable_as<double>())
    each = next++;
  return out;
}

double dot(const tensor& a, const tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double out = 0;
  for (std::size_t i = 0; i < a.as<double>().size(); ++i)
    out += a.as<double>()[i] * b.as<double>()[i];
  return out;
}

TEST_CASE("SYNC-AGA-3 the gradient is the adjoint, along every axis, of parts of any length") {
  // Over all replicas: sum <upstream, all_gather(x)> = sum <all_gather_gradient(upstream), x>.
  auto s = mirrored_over(3);
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    CAPTURE(axis);
    auto both = s.run([axis](replica_context& ctx) {
      shape_t shape{2, 3, 2};
      shape[static_cast<std::size_t>(axis)] = 2 * id_of(ctx); // 0, 2 and 4
      const auto x = numbered(shape, id_of(ctx) + 1);
      const auto whole = ctx.all_gather(x, axis);
      const auto upstream = numbered(whole.shape(), id_of(ctx) + 7);
      const auto back = all_gather_gradient(ctx, upstream, 2 * id_of(ctx), axis);
      CHECK(back.shape() == shape);
      return std::tuple{ctx.all_reduce(reduce_op::sum, dot(upstream, whole)),
                        ctx.all_reduce(reduce_op::sum, dot(back, x))};
    });
    CHECK(std::get<0>(both[0]) == std::get<1>(both[0]));
    CHECK(std::get<0>(both[0]) != 0);
  }
}

TEST_CASE(
  "SYNC-ARD-5 a replica without data adds nothing to gradients, and a mean is the others'") {
  auto s = mirrored_over(2);
  auto batch = distribute_dataset(s, dataset::range(1).batch(2)).iterate().next();
  auto out = s.run(
    [](replica_context& ctx, const element&) {
      const auto whole = ctx.all_gather(vec<float>({1, 2}));
      return std::tuple{all_reduce_gradient(ctx, reduce_op::mean, vec<float>({6})),
                        all_gather_gradient(ctx, whole, 2)};
    },
    batch);
  CHECK(std::get<0>(out[0]) == vec<float>({6}));
  CHECK(std::get<1>(out[0]) == vec<float>({1, 2}));
}

TEST_CASE("gradients that do not fit are refused, naming what") {
  auto s = mirrored_over(2);
  auto failing = [&](auto f) {
    return failure_of([&] { s.run([f](replica_context& ctx) { (void)f(ctx); }); });
  };
  names(
    failing([](auto& ctx) { return all_reduce_gradient(ctx, reduce_op::max, vec<float>({1})); }),
    errc::invalid_argument, {"all_reduce_gradient", "max"});
  names(failing([](auto& ctx) {
          return all_reduce_gradient(ctx, reduce_op::sum, vec<std::int64_t>({1}));
        }),
        errc::dtype_mismatch, {"all_reduce_gradient", "i64"});
  names(failing([](auto& ctx) {
          return all_gather_gradient(ctx, vec<float>({1, 2, 3}), 1);
        }),
        errc::shape_mismatch, {"all_gather_gradient", "has 3", "parts 2"});
  names(failing([](auto& ctx) {
          return all_gather_gradient(ctx, vec<float>({1, 2}), 1, 1);
        }),
        errc::out_of_range, {"axis is 1", "0 to 0"});
  names(failing([](auto& ctx) {
          return all_gather_gradient(ctx, vec<float>({1, 2}), -1);
        }),
        errc::invalid_argument, {"own_extent is -1"});
  names(failing([](auto& ctx) { return all_gather_gradient(ctx, tensor::scalar(1.0f), 1); }),
        errc::invalid_argument, {"scalar"});
}

} // namespace
