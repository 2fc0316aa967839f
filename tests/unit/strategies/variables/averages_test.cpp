// Moving averages, metrics and losses over replicas. Goal: rows SYNC-MVA, V26, V27, V33, UTL.
// Method: strategies over CPU devices of this process.

#include "../replicas/support.hpp"

namespace {

using namespace replicas_test;

distributed_variable variable_of(const strategy& s, tensor initial) {
  return s.scope([&] { return make_variable({.name = "v", .initial = initial}); });
}

/// [1, 2] on even replicas, [2, 1] on odd ones.
tensor value_of(replica_context& ctx) {
  return id_of(ctx) % 2 == 0 ? vec<float>({1, 2}) : vec<float>({2, 1});
}

std::vector<strategy> pairs_of_replicas() {
  return {mirrored_over(2), central_storage_strategy{shared_runtime(), cpus(2)}};
}

TEST_CASE("SYNC-MVA-1 SYNC-V26 the average of the mean over replicas") {
  for (const auto& s : pairs_of_replicas()) {
    auto v = variable_of(s, vec<float>({10, 11}));
    auto seen = s.run([&](replica_context& ctx) {
      assign_moving_average(v, value_of(ctx), 0.25);
      return v.read();
    });
    for (std::size_t i = 0; i < v.components(); ++i)
      CHECK(v.component(i) == vec<float>({3.625f, 3.875f}));
    CHECK(seen.as_single() == vec<float>({3.625f, 3.875f}));
  }
}

TEST_CASE("SYNC-MVA-2 without the pull of the first value one step gives the mean itself") {
  for (const auto& s : pairs_of_replicas()) {
    auto v = variable_of(s, vec<float>({0, 0}));
    const debiased_average average{v, 0.25};
    s.run([&](replica_context& ctx) { average.update(value_of(ctx)); });
    for (std::size_t i = 0; i < v.components(); ++i)
      CHECK(v.component(i) == vec<float>({1.5f, 1.5f}));
    CHECK(average.steps().item<std::int64_t>() == 1);
    average.update(vec<float>({3.5f, 1.5f}));
    // (.25 * 1.125 + .75 * x) / (1 - .25^2)
    CHECK(v.read().at<float>(0) == doctest::Approx((0.28125 + 2.625) / 0.9375));
    CHECK(v.read().at<float>(1) == doctest::Approx(1.5));
    CHECK(average.biased().name() == "v/biased");
  }
}

TEST_CASE("SYNC-MVA-3 in cross-replica context, twice") {
  auto s = mirrored_over(2);
  auto v = variable_of(s, vec<float>({10, 11}));
  for (auto wanted : {vec<float>({3.25f, 4.25f}), vec<float>({1.5625f, 2.5625f})}) {
    s.scope([&] { assign_moving_average(v, vec<float>({1, 2}), 0.25); });
    CHECK(v.component(0) == wanted);
    CHECK(v.component(1) == wanted);
  }
}

TEST_CASE("SYNC-MVA-4 SYNC-V27 shadows, in replica and cross-replica context") {
  auto s = mirrored_over(2);
  auto check = [&](auto apply) {
    auto w = variable_of(s, tensor::scalar(1.0f));
    exponential_moving_average average{0.8};
    apply(average, w);
    CHECK(average.average(w).item<float>() == 1);
    w.assign(0.5);
    apply(average, w);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(average.average(w).component(i).item<float>() == 0.9f);
    CHECK(average.average(w).name() == "v/ExponentialMovingAverage");
    CHECK(w.item<float>() == 0.5f);
    names(failure_of([&] { (void)average.average(variable_of(s, tensor::scalar(1.0f))); }),
          errc::unknown_name, {"'v'"});
  };
  check([](exponential_moving_average& a, const distributed_variable& w) { a.apply({w}); });
  check([&](exponential_moving_average& a, const distributed_variable& w) {
    s.run([&] { a.apply({w}); });
  });
}

TEST_CASE("SYNC-MVA-4 young averages move quicker") {
  auto s = mirrored_over(2);
  auto w = variable_of(s, tensor::scalar(1.0f));
  exponential_moving_average average{0.9};
  average.apply({w}, 0);
  w.assign(0.0);
  average.apply({w}, 0); // min(.9, 1 / 10)
  CHECK(average.average(w).item<float>() == doctest::Approx(0.1));
  average.apply({w}, 1'000'000);
  CHECK(average.average(w).item<float>() == doctest::Approx(0.09));
}

TEST_CASE("SYNC-MVA-5 in an update function the copy alone changes") {
  auto s = mirrored_over(2);
  auto plain = variable_of(s, vec<float>({0, 0}));
  s.extended().update(
    plain, [](auto& x, const tensor& y) { assign_moving_average(x, y, 0.25); }, vec<float>({2, 4}));
  CHECK(plain.component(0) == vec<float>({1.5f, 3}));
  CHECK(plain.component(1) == vec<float>({1.5f, 3}));
  auto v = variable_of(s, vec<float>({0, 0}));
  const debiased_average average{v, 0.25};
  s.extended().update(
    v, [&](auto&, const tensor& y) { average.update(y); },
    parts({vec<float>({2, 4}), vec<float>({4, 8})}));
  CHECK(v.component(0) == vec<float>({2, 4}));
  CHECK(v.component(1) == vec<float>({4, 8}));
}

TEST_CASE("SYNC-MVA-1 averages name what does not fit") {
  auto s = mirrored_over(2);
  auto v = variable_of(s, vec<float>({0, 0})), k = variable_of(s, vec<std::int64_t>({0}));
  names(failure_of([&] { assign_moving_average(v, vec<float>({1}), 0.5); }), errc::shape_mismatch,
        {"'v'", "[1]", "[2]"});
  names(failure_of([&] {
          assign_moving_average(v, vec<double>({1, 2}), 0.5);
        }),
        errc::dtype_mismatch, {"'v'", "f64", "f32"});
  names(failure_of([&] { assign_moving_average(k, vec<std::int64_t>({1}), 0.5); }),
        errc::invalid_argument, {"'v'", "i64"});
  names(failure_of([&] {
          assign_moving_average(v, vec<float>({1, 2}), 1.5);
        }),
        errc::invalid_argument, {"decay is 1.5"});
  names(failure_of([&] { (void)debiased_average{v, 1}; }), errc::invalid_argument, {"decay is 1"});
  names(failure_of([&] { (void)exponential_moving_average{-1}; }), errc::invalid_argument,
        {"decay is -1"});
}

TEST_CASE("averages keep the names of their variables inside name scopes") {
  auto s = mirrored_over(2);
  name_scope main{"main"};
  auto v = variable_of(s, vec<float>({0}));
  CHECK(debiased_average{v, 0.5}.steps().name() == "main/v/steps");
}

// --- metrics

TEST_CASE("SYNC-V33 the mean over replicas and batches") {
  auto s = mirrored_over(2);
  auto m = s.scope([] { return mean_metric{}; });
  CHECK(m.result() == 0);
  for (int k = 1; k <= 4; ++k) {
    s.run([&](replica_context& ctx) {
      const auto first = static_cast<float>((k - 1) * 4 + 2 * id_of(ctx));
      m.update(vec<float>({first, first + 1}));
    });
    CHECK(m.result() == doctest::Approx(2 * k - 0.5));
  }
  auto own = s.run([&] { return m.result(); });
  CHECK(own.local_results() == std::vector<double>{6.5, 8.5});
  m.reset();
  CHECK(m.result() == 0);
  s.run([&](replica_context& ctx) {
    m.update(static_cast<double>(id_of(ctx)), 1 + 2.0 * double(id_of(ctx)));
  });
  CHECK(m.result() == doctest::Approx(0.75));
  m.reset();
  s.run([&] { m.update(vec<float>({1, 5}), vec<float>({3, 1})); });
  CHECK(m.result() == 2);
  names(failure_of([&] { s.run([&] {
                           m.update(vec<float>({1, 5}), vec<float>({3, 1, 1}));
                         }); }),
        errc::shape_mismatch, {"weights", "[3]", "[2]"});
}

TEST_CASE("SYNC-V33 accuracy over replicas and batches") {
  auto s = mirrored_over(2);
  auto a = s.scope([] { return accuracy_metric{}; });
  // labels 0..15; predictions: right for 0, 1, 2 and 15
  const std::vector<double> wanted{3.0 / 4, 3.0 / 8, 3.0 / 12, 4.0 / 16};
  for (std::int32_t k = 0; k < 4; ++k) {
    s.run([&](replica_context& ctx) {
      const auto first = 4 * k + 2 * static_cast<std::int32_t>(id_of(ctx));
      auto guess = [](std::int32_t x) { return x <= 2 || x == 15 ? x : 99; };
      a.update(vec<std::int32_t>({first, first + 1}),
               vec<std::int32_t>({guess(first), guess(first + 1)}));
    });
    CHECK(a.result() == doctest::Approx(wanted[static_cast<std::size_t>(k)]));
  }
  a.reset();
  s.run([&] {
    a.update(vec<std::int32_t>({2, 0}), tensor::of<float>({2, 3}, {0, 1, 2, 5, 5, 1}));
  });
  CHECK(a.result() == 1);
  names(failure_of([&] {
          s.run([&] { a.update(vec<std::int32_t>({2, 0}), vec<std::int32_t>({2})); });
        }),
        errc::shape_mismatch, {"predictions", "[1]", "[2]"});
}

// --- losses

TEST_CASE("SYNC-UTL-1 SYNC-UTL-3 losses over the global batch add up to the mean") {
  auto s = mirrored_over(2);
  const auto pieces = parts({vec<float>({5, 6}), vec<float>({7})});
  auto losses = s.run([](const tensor& x) { return average_loss(x, 3); }, pieces);
  CHECK(losses[0].item<float>() == doctest::Approx(11.0 / 3));
  CHECK(losses[1].item<float>() == doctest::Approx(7.0 / 3));
  CHECK(s.reduce(reduce_op::sum, losses).item<float>() == doctest::Approx(6));
  auto means = s.run([](const tensor& x) { return average_loss(x, x.rows()); }, pieces);
  CHECK(s.reduce(reduce_op::mean, means).item<float>() == doctest::Approx(6.25)); // not 6
  auto own = s.run([](const tensor& x) { return average_loss(x); },
                   parts({vec<double>({1, 2}), vec<double>({3, 4})}));
  CHECK(s.reduce(reduce_op::sum, own).item<double>() == 2.5); // n is 2, rows are 2
  CHECK(average_loss(vec<float>({2, 4}), 2, vec<float>({1, 0.5f})).item<float>() == 2);
  CHECK(average_loss(tensor{dtype::f32, {0}}, 3).item<float>() == 0);
  names(failure_of([] { (void)average_loss(vec<float>({1}), 0); }), errc::invalid_argument,
        {"global_batch is 0"});
  names(failure_of([] { (void)average_loss(tensor::scalar(1.0f), 1); }), errc::shape_mismatch,
        {"per_example", "scalar"});
}

TEST_CASE("SYNC-UTL-2 a term that every replica adds counts once in the sum") {
  auto s = mirrored_over(4);
  auto terms = s.run([] { return scale_regularization_loss(vec<float>({3, 5})); });
  CHECK(terms[3].item<float>() == 2);
  CHECK(s.reduce(reduce_op::sum, terms).item<float>() == 8);
  CHECK(scale_regularization_loss(tensor::scalar(3.0)).item<double>() == 3);
}

} // namespace
