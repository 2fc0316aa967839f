#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <troupe/strategies/variables/distributed_variable.hpp>

/// Averages that follow a value over steps. Floating-point variables only; `invalid_argument` and
/// `shape_mismatch` name the variable and what does not fit.
namespace troupe {

/// v = decay * v + (1 - decay) * x, where x is `value`, or its mean over replicas when all of them
/// call it. In an update function: for that copy alone. `value`: the shape and dtype of `v`. Errors
/// as above, and `dtype_mismatch`.
void assign_moving_average(const distributed_variable& v, const tensor& value, double decay);

/// A moving average without the pull of the first value, by Adam's correction: the average of the
/// given values alone, whatever `v` was before. Keeps two variables beside `v`, placed as `v` is. A
/// handle.
class debiased_average {
public:
  /// Makes the average, in cross-replica context of the strategy of `v`. Throws `invalid_argument`
  /// unless 0 <= decay < 1.
  debiased_average(distributed_variable v, double decay);
  /// Takes one value into the average, in the contexts of `assign_moving_average`.
  void update(const tensor& value) const;
  const distributed_variable& variable() const { return average_; }
  /// The sum before its correction, and the number of updates, for checkpoints.
  const distributed_variable& biased() const { return biased_; }
  const distributed_variable& steps() const { return steps_; }

private:
  distributed_variable average_;
  double decay_;
  distributed_variable biased_{};
  distributed_variable steps_{};
};

/// Shadows of variables, each an exponential average of its variable's values. A shadow starts as
/// its variable is when it is first seen. A handle.
class exponential_moving_average {
public:
  /// Throws `invalid_argument` unless 0 <= decay <= 1.
  explicit exponential_moving_average(double decay);
  /// Updates the shadows: shadow = d * shadow + (1 - d) * variable, in cross-replica context or by
  /// all replicas. `num_updates` makes young averages quicker: d = min(decay, (1 + n) / (10 + n)).
  void apply(const distributed_variables& variables, std::optional<std::uint64_t> num_updates = {});
  /// The shadow of variable `of`. Throws `unknown_name` for a variable that was never applied.
  const distributed_variable& average(const distributed_variable& of) const;
  /// The name of a variable's shadow: "w/ExponentialMovingAverage".
  static std::string average_name(const distributed_variable& of);

private:
  void apply_here(const distributed_variables& variables, double decay);
  double decay_;
  struct shadows;
  std::shared_ptr<shadows> shadows_;
};

} // namespace troupe
