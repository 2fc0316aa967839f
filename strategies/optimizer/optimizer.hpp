#pragma once

#include <cstdint>

#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/strategies/optimizer/learning_rate.hpp>

/// How variables start and how servers update them, as the user writes it: `adam{1e-3f}`,
/// `random_normal(0, 0.05f, 7)`. Plain values. The formulas stand in kernels/optimizers.hpp.
namespace troupe {

/// p -= rate * g.
struct sgd {
  learning_rate_schedule learning_rate = 0.01f;
};

/// v = momentum * v - rate * g, p += v; `nesterov` looks one step ahead. A sparse gradient moves
/// the rows that it names and no others, as TensorFlow's kernels do: the velocity of the others
/// rests (Keras from 2.11 on lets it decay and move them).
struct momentum {
  learning_rate_schedule learning_rate = 0.01f;
  float momentum = 0.9f;
  bool nesterov = false;
};

/// Rates per element that shrink with the sum of squared gradients.
struct adagrad {
  learning_rate_schedule learning_rate = 0.001f;
  float initial_accumulator = 0.1f;
  float epsilon = 1e-7f;
};

/// Adam with both bias corrections.
///
/// A sparse gradient (rows of an embedding table) counts as a dense one with zeros in the rows that
/// it does not name, as in TensorFlow and Keras: m and v of every row decay, and what m has left
/// moves every row, at each update. That costs a pass over the whole table and both slots, however
/// few rows the gradient has. With `lazy` only the rows that are named move, and the cost is theirs
/// alone: for large tables. The results differ: a row that is seldom named rests in between, with
/// an m and v of the time when it was named last. Tables whose rows come and go by a hashed key can
/// be lazy only. Dense gradients do not ask.
struct adam {
  learning_rate_schedule learning_rate = 0.001f;
  float beta_1 = 0.9f;
  float beta_2 = 0.999f;
  float epsilon = 1e-7f;
  bool lazy = false;
};

/// An optimizer of a variable: one of the above, or none. A variable without one takes assignments
/// and scatters only. Constructors throw `invalid_argument` naming the field and the value.
class optimizer {
public:
  optimizer() = default;
  optimizer(const sgd& x);
  optimizer(const momentum& x);
  optimizer(const adagrad& x);
  optimizer(const adam& x);
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
