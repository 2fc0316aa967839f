#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/shards/shard.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/variables/detail/variable_rules.hpp>
#include <troupe/strategies/variables/variable_options.hpp>

namespace troupe::detail {

/// The caller of a variable's method: a replica, an update function, or cross-replica code.
struct variable_caller {
  variable_context what = variable_context::cross;
  std::uint32_t component = 0;
  replica_context* ctx = nullptr;
};

/// A variable of a synchronous strategy behind its handles. Each copy is a shard of all rows, so
/// that updates, optimizers and snapshots are those of the parameter servers. Any thread; the
/// replicas' writes are collective where an aggregation brings values together.
class variable_core : public std::enable_shared_from_this<variable_core> {
public:
  variable_core(std::shared_ptr<replica_engine> of, std::shared_ptr<const variable_spec> spec,
                const distributed_variable_options& options);

  const variable_spec& spec() const { return *spec_; }
  const std::shared_ptr<replica_engine>& of() const { return of_; }
  variable_synchronization synchronization() const { return synchronization_; }
  variable_aggregation aggregation() const { return aggregation_; }
  bool trainable() const { return trainable_; }
  /// Whether all replicas read the same value.
  bool keeps_copies_equal() const {
    return copies_.size() == 1
           || (synchronization_ == variable_synchronization::on_write && !allow_divergence_);
  }
  std::size_t components() const { return copies_.size(); }
  shard& component(std::size_t i) const;
  /// The device of each copy.
  const std::vector<std::string>& devices() const { return devices_; }
  std::uint32_t logical_device() const { return logical_device_; }

  tensor read() const;
  /// Writes `value` as the caller's context, the synchronization and the aggregation say. `kind`:
  /// assign, assign_add or assign_sub.
  void write(mutation_kind kind, const tensor& value, bool is_number) const;
  void assign_each(const per_replica<tensor>& value) const;
  void scatter(mutation_kind kind, const tensor& indices, const tensor& values) const;
  /// Has the optimizer apply a gradient that was summed already, on the caller's own copy or on
  /// all.
  void apply(const tensor& gradient) const;
  /// Throws what `apply` would, before anything has changed.
  void check_gradient(const tensor& gradient) const;
  const std::function<tensor(const tensor&)>& constraint() const { return constraint_; }
  void apply_constraint() const;
  tensor saved_value() const;
  void restore_value(const tensor& value) const;

  variable_caller caller(const char* what) const;
  /// Whether all replicas share one copy.
  bool is_shared() const { return copies_.size() == 1 && of_->local_count() > 1; }
  failure complaint(errc code, const char* what, const std::string& text) const;
  /// The failure of a call that got a tensor without a value.
  failure no_value(const char* what, const std::string& of) const;

private:
  void change(shard& at, mutation_kind kind, const tensor& values,
              const tensor& indices = {}) const;
  void change_all(mutation_kind kind, const tensor& value) const;
  void write_cross(mutation_kind kind, const tensor& value) const;
  void write_replica(const variable_caller& by, mutation_kind kind, const tensor& value,
                     bool is_number) const;
  /// A replica's part of a change that all make: its own copy, or the first's of the shared one.
  void settle_here(const variable_caller& by, mutation_kind kind, const tensor& values,
                   const tensor& indices) const;
  /// Makes a change of one value on all replicas, those without data too.
  void settle(const variable_caller& by, mutation_kind kind, const tensor& values,
              const tensor& indices = {}) const;
  void scatter_compared(const variable_caller& by, mutation_kind kind, const tensor& indices,
                        const tensor& values) const;
  void scatter_combined(const variable_caller& by, mutation_kind kind, reduce_op op,
                        const tensor& indices, const tensor& values) const;
  void scatter_first(const variable_caller& by, mutation_kind kind, const tensor& indices,
                     const tensor& values) const;
  tensor constrained(std::size_t component) const;
  tensor combined(variable_action how) const;
  variable_rules rules() const;
  /// Whether `value` has the variable's dtype and shape.
  bool fits(const tensor& value) const;
  [[noreturn]] void refuse(const char* what, variable_action how) const;
  std::vector<tensor> shares_of(const tensor& total) const;

  const std::shared_ptr<replica_engine> of_;
  const std::shared_ptr<const variable_spec> spec_;
  const variable_synchronization synchronization_;
  const variable_aggregation aggregation_;
  const bool trainable_;
  const bool allow_divergence_;
  const std::uint32_t logical_device_;
  const std::function<tensor(const tensor&)> constraint_;
  std::vector<std::string> devices_{};
  std::vector<std::shared_ptr<shard>> copies_{};
};

} // namespace troupe::detail
