#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <troupe/strategies/variables/distributed_variable.hpp>

/// Counters over replicas, and losses that add up over them. Source: tf.keras.metrics, tf.nn's
/// compute_average_loss. Errors name the field and the value.
namespace troupe {

/// The mean of all values that all replicas have given. Two f64 counters with aggregation sum that
/// are brought together when they are read: replicas never wait for each other. A handle, made in a
/// strategy's scope. `update` takes tensors of any dtype; `invalid_argument` for one without a
/// value.
class mean_metric {
public:
  /// Makes the counters "NAME/total" and "NAME/count". Throws as `make_variable`.
  explicit mean_metric(const std::string& name = "mean");

  /// Counts every element of `values`, with weight 1. In a replica, or by the program without a
  /// strategy.
  void update(const tensor& values) const;
  /// Counts every element with its weight: `weights` has the shape of `values`, or one element for
  /// all. `shape_mismatch` for other weights.
  void update(const tensor& values, const tensor& weights) const;
  /// Counts one value with its weight.
  void update(double value, double weight = 1) const { add(value * weight, weight); }
  /// The weighted mean of all values given: in cross-replica context over all replicas (over
  /// several workers all of them call it), in a replica over its own. 0 before any value.
  double result() const;
  /// Forgets all values. In cross-replica context.
  void reset() const;
  /// The counters, f64 scalars, for checkpoints.
  const distributed_variable& total() const { return total_; }
  const distributed_variable& count() const { return count_; }

private:
  friend class accuracy_metric;
  void add(double total, double weight) const;
  distributed_variable total_;
  distributed_variable count_;
};

/// The share of predictions that are right.
class accuracy_metric {
public:
  explicit accuracy_metric(const std::string& name = "accuracy") : mean_{name} {}
  /// Counts predictions. Those of the labels' shape are right where they are equal; with one more
  /// axis, at its end, they are scores, and the first of the highest is the prediction. Any dtypes.
  /// `shape_mismatch` for other shapes, `invalid_argument` for a tensor without a value.
  void update(const tensor& labels, const tensor& predictions) const;
  /// The share of right predictions so far; contexts as `mean_metric::result`.
  double result() const { return mean_.result(); }
  /// Forgets all predictions. In cross-replica context.
  void reset() const { mean_.reset(); }
  const mean_metric& mean() const { return mean_; }

private:
  mean_metric mean_;
};

/// The sum of `per_example`, divided by `global_batch`, the rows of all replicas together; a
/// scalar. Summed over replicas it is the mean, also with pieces of different sizes. Without
/// `global_batch`: this replica's rows times the number of replicas, right for equal pieces only.
/// `weights`: the shape of `per_example`, or one element. f64 stays, other dtypes give f32. Throws
/// `shape_mismatch` for a scalar `per_example` or other weights, `invalid_argument` for a
/// `global_batch` below 1.
tensor average_loss(const tensor& per_example, std::optional<std::int64_t> global_batch = {},
                    const tensor& weights = {});

/// The sum of `loss`, divided by the number of replicas; a scalar. Every replica adds it, and the
/// sum over replicas has it once.
tensor scale_regularization_loss(const tensor& loss);

} // namespace troupe
