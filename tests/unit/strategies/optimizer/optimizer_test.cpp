#include <doctest/doctest.h>

#include <troupe/strategies/optimizer/optimizer.hpp>

#include <limits>
#include <string>

#include "../../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

std::string refusal(const initializer_spec& x, dtype type, const shape_t& shape) {
  auto fine = validate(x, type, shape);
  REQUIRE_FALSE(fine);
  CHECK(fine.error().code == errc::invalid_argument);
  return fine.error().text;
}

constexpr auto inf = std::numeric_limits<float>::infinity();

} // namespace

TEST_CASE("optimizer: every builder fills the fields that the servers read") {
  CHECK(optimizer{}.spec().kind == optimizer_kind::none);
  auto plain = optimizer{sgd{0.5f}}.spec();
  CHECK(plain.kind == optimizer_kind::sgd);
  CHECK(plain.learning_rate.initial == 0.5f);
  auto moving =
    optimizer{momentum{.learning_rate = 0.1f, .momentum = 0.8f, .nesterov = true}}.spec();
  CHECK(moving.kind == optimizer_kind::momentum);
  CHECK(moving.momentum == 0.8f);
  CHECK(moving.nesterov);
  auto scaled = optimizer{adagrad{0.1f, 0.2f, 1e-5f}}.spec();
  CHECK(scaled.kind == optimizer_kind::adagrad);
  CHECK(scaled.initial_accumulator == 0.2f);
  CHECK(scaled.epsilon == 1e-5f);
  auto both =
    optimizer{adam{linear_decay{.initial = 1e-3f, .end_step = 50}, 0.8f, 0.99f, 1e-6f}}.spec();
  CHECK(both.kind == optimizer_kind::adam);
  CHECK(both.learning_rate.kind == schedule_kind::linear_decay);
  CHECK(both.learning_rate.end_step == 50);
  CHECK(both.beta_1 == 0.8f);
  CHECK(both.beta_2 == 0.99f);
  CHECK(both.epsilon == 1e-6f);
  CHECK(!both.lazy);
  CHECK(optimizer{adam{.lazy = true}}.spec().lazy);
  optimizer implicit = adam{1e-3f};
  CHECK(implicit.spec().learning_rate.initial == 1e-3f);
}

TEST_CASE("optimizer: a value out of its range is refused by optimizer, field and value") {
  CHECK(says(thrown([] { optimizer{sgd{-1.0f}}; }), "initial is -1"));
  CHECK(says(thrown([] { optimizer{sgd{cosine_decay{.end_step = 0}}}; }), "end_step is 0"));
  CHECK(says(thrown([] { optimizer{momentum{.momentum = 1.0f}}; }), "momentum: momentum is 1"));
  CHECK(says(thrown([] { optimizer{momentum{.momentum = -0.1f}}; }), "momentum is -0.1"));
  CHECK(says(thrown([] { optimizer{adam{.beta_1 = 1.0f}}; }), "adam: beta_1 is 1"));
  CHECK(says(thrown([] { optimizer{adam{.beta_2 = -1.0f}}; }), "adam: beta_2 is -1"));
  CHECK(says(thrown([] { optimizer{adam{.epsilon = -1.0f}}; }), "adam: epsilon is -1"));
  CHECK(says(thrown([] { optimizer{adagrad{.initial_accumulator = -1.0f}}; }),
             "adagrad: initial_accumulator is -1"));
  CHECK(says(thrown([] { optimizer{adagrad{.epsilon = inf}}; }), "adagrad: epsilon is inf"));
  optimizer_spec strange;
  strange.kind = static_cast<optimizer_kind>(99);
  CHECK(says(thrown([&] { optimizer{strange}; }), "kind is 99"));
}

TEST_CASE("initializers: every builder fills the fields that the servers read") {
  CHECK(zeros().kind == initializer_kind::zeros);
  CHECK(ones().kind == initializer_kind::ones);
  CHECK(constant(3.5f).kind == initializer_kind::constant);
  CHECK(constant(3.5f).a == 3.5f);
  auto flat = random_uniform(-1, 2, 7);
  CHECK(flat.kind == initializer_kind::uniform);
  CHECK(flat.a == -1);
  CHECK(flat.b == 2);
  CHECK(flat.seed == 7);
  auto bell = random_normal(1, 0.5f, 8);
  CHECK(bell.kind == initializer_kind::normal);
  CHECK(bell.a == 1);
  CHECK(bell.b == 0.5f);
  CHECK(bell.seed == 8);
  CHECK(truncated_normal(0, 1, 9).kind == initializer_kind::truncated_normal);
  CHECK(glorot_uniform(3).kind == initializer_kind::glorot_uniform);
  CHECK(glorot_uniform(3).seed == 3);
  CHECK(he_normal(4).kind == initializer_kind::he_normal);
  CHECK(identity().kind == initializer_kind::identity);
}

TEST_CASE("initializers: wrong numbers are refused at construction by field and value") {
  CHECK(says(thrown([] { constant(inf); }), "a is inf"));
  CHECK(says(thrown([] { random_uniform(1, 1); }), "high is 1"));
  CHECK(says(thrown([] { random_uniform(0, inf); }), "b is inf"));
  CHECK(says(thrown([] { random_normal(0, -1); }), "stddev is -1"));
  CHECK(says(thrown([] { truncated_normal(0, -1); }), "stddev is -1"));
}

TEST_CASE("initializers: identity fits rank 2 only; integers start at whole, not random, values") {
  CHECK(validate(identity(), dtype::f32, {4, 4}));
  CHECK(validate(identity(), dtype::f32, {4, 6}));
  CHECK(says(refusal(identity(), dtype::f32, {4}), "shape is [4]"));
  CHECK(says(refusal(identity(), dtype::f32, {4, 4, 4}), "[4, 4, 4]"));
  CHECK(validate(zeros(), dtype::i64, {}));
  CHECK(validate(constant(-3), dtype::i32, {2}));
  CHECK(says(refusal(constant(0.5f), dtype::i32, {2}), "value is 0.5"));
  CHECK(says(refusal(random_normal(), dtype::i64, {2}), "dtype is i64"));
  CHECK(says(refusal(he_normal(), dtype::u8, {2}), "dtype is u8"));
  CHECK(validate(glorot_uniform(), dtype::f64, {2, 3}));
  initializer_spec strange;
  strange.kind = static_cast<initializer_kind>(99);
  CHECK(says(refusal(strange, dtype::f32, {2}), "kind is 99"));
}
