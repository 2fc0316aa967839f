#include <troupe/strategies/optimizer/optimizer.hpp>

#include <cmath>
#include <string>

namespace troupe {

namespace {

failure bad(const std::string& what, const std::string& field, const std::string& value,
            const std::string& rule) {
  return make_failure(errc::invalid_argument, what + ": " + field + " is " + value + ", " + rule);
}

/// Whether the value of `rule` in `x`, an optimizer called `what`, is in its range.
result<void> check_parameter(const char* what, const optimizer_parameter& rule,
                             const optimizer_spec& x) {
  if (rule.range == parameter_range::flag)
    return {};
  const float value = x.*rule.number;
  if (rule.range == parameter_range::share)
    return value >= 0 && value < 1
             ? result<void>{}
             : bad(what, rule.name, std::to_string(value), "must be in [0, 1)");
  return std::isfinite(value) && value >= 0
           ? result<void>{}
           : bad(what, rule.name, std::to_string(value), "must be finite and not negative");
}

optimizer_spec checked(optimizer_spec spec) {
  validate(spec).value_or_throw();
  return spec;
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

result<void> validate(const optimizer_spec& x) {
  const auto* row = find_optimizer(x.kind);
  if (!row)
    return bad("optimizer", "kind", std::to_string(static_cast<int>(x.kind)),
               "is not an optimizer");
  if (x.kind == optimizer_kind::none)
    return {};
  if (auto fine = validate(x.learning_rate); !fine)
    return fine;
  for (const auto& rule : row->parameters)
    if (auto fine = check_parameter(row->name, rule, x); !fine)
      return fine;
  return {};
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
