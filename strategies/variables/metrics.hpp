#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <troupe/strategies/variables/distributed_variable.hpp>

/// Counters over replicas, and losses that add up over them. Source: tf.keras.metrics, tf.nn's
/// compute_average_loss; rows SYNC-UTL-1 to 3, V33. Errors name the field and the value.
namespace troupe {

/// The mean of all values that all replicas have given. Two f64 counters with aggregation sum that
/// are brought together when they are read: replicas never wait for each other. A handle, made in a
/// strategy's scope.
class mean_metric {
public:
  explicit mean_metric(const std::string& name = "mean");

  /// In a replica, or by the program without a strategy: every element counts.
  void update(const tensor& values) const;
  /// Weights of the same shape, or one for all.
  void update(const tensor& values, const tensor& weights) const;
  void update(double value, double weight = 1) const { add(value * weight, weight); }
  /// In cross-replica context over all replicas; in a replica over its own. 0 before any value.
  double result() const;
  /// In cross-replica context.
  void reset() const;
  /// For checkpoints.
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
  /// Predictions of the labels' shape are right where they are equal; with one more axis, at its
  /// end, they are scores, and the first of the highest is the prediction.
  void update(const tensor& labels, const tensor& predictions) const;
  double result() const { return mean_.result(); }
  void reset() const { mean_.reset(); }
  const mean_metric& mean() const { return mean_; }

private:
  mean_metric mean_;
};

/// The sum of `per_example` over `global_batch`, the rows of all replicas together: summed over
/// replicas it is the mean, also with pieces of different sizes (row SYNC-UTL-1). Without
/// `global_batch`: this replica's rows times the number of replicas, right for equal pieces only.
/// f64 stays, other floats and integers give f32.
tensor average_loss(const tensor& per_example, std::optional<std::int64_t> global_batch = {},
                    const tensor& weights = {});

/// A term that every replica adds: divided by their number, so that the sum has it once (row
/// SYNC-UTL-2).
tensor scale_regularization_loss(const tensor& loss);

} // namespace troupe
