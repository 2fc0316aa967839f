#pragma once

#include <cstdint>

#include <troupe/core/optimizers.hpp>
#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/strategies/optimizer/learning_rate.hpp>

/// How variables start and how servers update them, as the user writes it: `adam{1e-3f}`,
/// `random_normal(0, 0.05f, 7)`. Plain values. `sgd`, `momentum`, `adagrad` and `adam` are in
/// core/optimizers.hpp, the formulas in kernels/optimizers.hpp.
namespace troupe {

/// An optimizer of a variable: one of those in core/optimizers.hpp, or none. A variable without one
/// takes assignments and scatters only. Constructors throw `invalid_argument` naming the field and
/// the value.
class optimizer {
public:
  optimizer() = default;
  template <optimizer_declaration T>
  optimizer(const T& x) : optimizer{x.spec()} {} // NOLINT: `adam{}` is an optimizer
  explicit optimizer(optimizer_spec spec);
  const optimizer_spec& spec() const noexcept { return spec_; }

private:
  optimizer_spec spec_{};
};

/// Whether the parameters are in their domains. `invalid_argument` names the field and the value.
result<void> validate(const optimizer_spec& optimizer);

// --- initializers
// -----------------------------------------------------------------------------------------------
// Same seed, name and row: same values, however the variable is cut. Constructors of wrong values
// throw `invalid_argument` naming the field and the value.

/// All elements 0; `ones` 1; `constant` `value`.
initializer_spec zeros();
initializer_spec ones();
initializer_spec constant(float value);
/// f32 or f64 values uniform in [low, high).
initializer_spec random_uniform(float low = -0.05f, float high = 0.05f, std::uint64_t seed = 0);
/// Normal values.
initializer_spec random_normal(float mean = 0.0f, float stddev = 0.05f, std::uint64_t seed = 0);
/// Normal values, redrawn beyond two deviations.
initializer_spec truncated_normal(float mean = 0.0f, float stddev = 0.05f, std::uint64_t seed = 0);
/// Uniform values within sqrt(6 / (fan in + fan out)).
initializer_spec glorot_uniform(std::uint64_t seed = 0);
/// Truncated normal values, of deviation sqrt(2 / fan in) once truncated.
initializer_spec he_normal(std::uint64_t seed = 0);
/// 1 where row == column, else 0; for rank 2.
initializer_spec identity();

/// Whether `spec` can start a variable of that type and shape: integers take zeros, ones, a whole
/// constant or identity; identity needs rank 2. `invalid_argument` names the field and the value.
result<void> validate(const initializer_spec& spec, dtype type, const shape_t& shape);

} // namespace troupe
