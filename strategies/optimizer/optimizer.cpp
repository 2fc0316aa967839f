#include <troupe/strategies/optimizer/optimizer.hpp>

#include <cmath>
#include <string>

namespace troupe {

namespace {

failure bad(const std::string& what, const std::string& field, const std::string& value,
            const std::string& rule) {
  return make_failure(errc::invalid_argument, what + ": " + field + " is " + value + ", " + rule);
}

result<void> check_share(const char* what, const char* field, float value) {
  if (value >= 0 && value < 1)
    return {};
  return bad(what, field, std::to_string(value), "must be in [0, 1)");
}

result<void> check_amount(const char* what, const char* field, float value) {
  if (std::isfinite(value) && value >= 0)
    return {};
  return bad(what, field, std::to_string(value), "must be finite and not negative");
}

result<void> check_adam(const optimizer_spec& x) {
  if (auto fine = check_share("adam", "beta_1", x.beta_1); !fine)
    return fine;
  if (auto fine = check_share("adam", "beta_2", x.beta_2); !fine)
    return fine;
  return check_amount("adam", "epsilon", x.epsilon);
}

result<void> check_adagrad(const optimizer_spec& x) {
  if (auto fine = check_amount("adagrad", "initial_accumulator", x.initial_accumulator); !fine)
    return fine;
  return check_amount("adagrad", "epsilon", x.epsilon);
}

optimizer_spec checked(optimizer_spec spec) {
  validate(spec).value_or_throw();
  return spec;
}

optimizer_spec with_rate(optimizer_kind kind, const learning_rate_schedule& rate) {
  optimizer_spec out;
  out.kind = kind;
  out.learning_rate = rate.spec();
  return out;
}

initializer_spec drawn(initializer_kind kind, float a, float b, std::uint64_t seed) {
  initializer_spec out{kind, a, b, seed};
  // The rules that don't need the variable's type and shape.
  validate(out, dtype::f32, {1, 1}).value_or_throw();
  return out;
}

bool is_whole(float x) { return std::trunc(x) == x; }

result<void> check_numbers(const initializer_spec& x) {
  const std::string what = "initializer";
  if (!std::isfinite(x.a) || !std::isfinite(x.b))
    return bad(what, std::isfinite(x.a) ? "b" : "a", std::to_string(std::isfinite(x.a) ? x.b : x.a),
               "must be finite");
  if (x.kind == initializer_kind::uniform && !(x.a < x.b))
    return bad(what, "high", std::to_string(x.b), "must be above low " + std::to_string(x.a));
  const bool normal =
    x.kind == initializer_kind::normal || x.kind == initializer_kind::truncated_normal;
  if (normal && x.b < 0)
    return bad(what, "stddev", std::to_string(x.b), "must not be negative");
  return {};
}

} // namespace

// --- optimizers -------------------------------------------------------------------------------

optimizer::optimizer(optimizer_spec spec) : spec_{checked(std::move(spec))} {}

optimizer::optimizer(const sgd& x) : optimizer{with_rate(optimizer_kind::sgd, x.learning_rate)} {}

optimizer::optimizer(const momentum& x) {
  auto spec = with_rate(optimizer_kind::momentum, x.learning_rate);
  spec.momentum = x.momentum;
  spec.nesterov = x.nesterov;
  spec_ = checked(std::move(spec));
}

optimizer::optimizer(const adagrad& x) {
  auto spec = with_rate(optimizer_kind::adagrad, x.learning_rate);
  spec.initial_accumulator = x.initial_accumulator;
  spec.epsilon = x.epsilon;
  spec_ = checked(std::move(spec));
}

optimizer::optimizer(const adam& x) {
  auto spec = with_rate(optimizer_kind::adam, x.learning_rate);
  spec.beta_1 = x.beta_1;
  spec.beta_2 = x.beta_2;
  spec.epsilon = x.epsilon;
  spec.lazy = x.lazy;
  spec_ = checked(std::move(spec));
}

result<void> validate(const optimizer_spec& x) {
  if (x.kind != optimizer_kind::none)
    if (auto fine = validate(x.learning_rate); !fine)
      return fine;
  switch (x.kind) {
    case optimizer_kind::none:
    case optimizer_kind::sgd: return {};
    case optimizer_kind::momentum: return check_share("momentum", "momentum", x.momentum);
    case optimizer_kind::adagrad: return check_adagrad(x);
    case optimizer_kind::adam: return check_adam(x);
  }
  return bad("optimizer", "kind", std::to_string(static_cast<int>(x.kind)), "is not an optimizer");
}

// --- initializers -----------------------------------------------------------------------------

initializer_spec zeros() { return {}; }

initializer_spec ones() { return drawn(initializer_kind::ones, 0, 1, 0); }

initializer_spec constant(float value) { return drawn(initializer_kind::constant, value, 1, 0); }

initializer_spec random_uniform(float low, float high, std::uint64_t seed) {
  return drawn(initializer_kind::uniform, low, high, seed);
}

initializer_spec random_normal(float mean, float stddev, std::uint64_t seed) {
  return drawn(initializer_kind::normal, mean, stddev, seed);
}

initializer_spec truncated_normal(float mean, float stddev, std::uint64_t seed) {
  return drawn(initializer_kind::truncated_normal, mean, stddev, seed);
}

initializer_spec glorot_uniform(std::uint64_t seed) {
  return drawn(initializer_kind::glorot_uniform, 0, 1, seed);
}

initializer_spec he_normal(std::uint64_t seed) {
  return drawn(initializer_kind::he_normal, 0, 1, seed);
}

initializer_spec identity() { return drawn(initializer_kind::identity, 0, 1, 0); }

result<void> validate(const initializer_spec& x, dtype type, const shape_t& shape) {
  if (x.kind > initializer_kind::identity)
    return bad("initializer", "kind", std::to_string(static_cast<int>(x.kind)),
               "is not an initializer");
  if (auto fine = check_numbers(x); !fine)
    return fine;
  if (x.kind == initializer_kind::identity && shape.size() != 2)
    return bad("identity", "shape", to_string(shape), "must have rank 2");
  const bool integral = type <= dtype::i64;
  const bool random = x.kind >= initializer_kind::uniform && x.kind <= initializer_kind::he_normal;
  if (integral && random)
    return bad("initializer", "dtype", to_string(type),
               "random initializers require a floating-point type");
  if (integral && x.kind == initializer_kind::constant && !is_whole(x.a))
    return bad("constant", "value", std::to_string(x.a), "must be whole for " + to_string(type));
  return {};
}

} // namespace troupe
