#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/variables/variable_options.hpp>

namespace troupe {

namespace detail {
class variable_core;
}

/// A variable of a synchronous strategy: one copy with each local replica, or one for all where the
/// strategy keeps one. A handle. The context of a call decides which copies it means: in a
/// replica's function the replica's own copy, in cross-replica context and outside any all copies,
/// in an update function the copy that it was called for. A run that failed may have written some
/// copies and not others. Throws `wrong_state` when another strategy is active, naming the variable
/// and both.
///
/// What a replica assigns (`on_write`): with aggregation sum or mean the replicas' values are
/// reduced and the result is assigned to all copies; with `only_first_replica` that of replica 0;
/// with none each replica must assign the same plain number, or the variable must allow divergence.
/// These calls are collective: all replicas make them. An `on_read` variable takes each replica's
/// values into its own copy, and cross-replica reads bring the copies together.
///
/// Writes throw `shape_mismatch`, `dtype_mismatch`; `invalid_argument` for a tensor without a value
/// and for what the aggregation forbids.
class distributed_variable {
public:
  distributed_variable() = default;
  /// A handle of `core`, for the strategy.
  explicit distributed_variable(std::shared_ptr<detail::variable_core> core)
    : core_{std::move(core)} {}
  explicit operator bool() const noexcept { return core_ != nullptr; }

  const std::string& name() const;
  const shape_t& shape() const;
  troupe::dtype type() const;
  variable_synchronization synchronization() const;
  variable_aggregation aggregation() const;
  /// Whether the variable is trained: as asked for, else true except for `on_read`.
  bool trainable() const;
  /// The strategy that made the variable.
  troupe::strategy distribute_strategy() const;
  /// Number of copies in this process.
  std::size_t components() const;
  /// The name of component `i`: "v", "v/replica_1", ... `out_of_range`.
  std::string component_name(std::size_t i) const;
  /// The value of component `i` in any context. `out_of_range`.
  tensor component(std::size_t i) const;

  /// The device of each copy, "cpu:1".
  const std::vector<std::string>& devices() const;
  /// The current device if a copy is there, else the device of component 0.
  const std::string& device() const;
  /// The value of the copy on `device`, in any context. `device_unavailable` says where there are
  /// copies.
  tensor component_on(const std::string& device) const;

  /// The value: a replica's own copy; in cross-replica context the first copy, or for `on_read` the
  /// sum, mean or first of all copies. That read of an `on_read` variable is collective over
  /// several workers, and throws `invalid_argument` with aggregation none. `type()`, `shape()`.
  tensor read() const;
  template <class T>
  /// The value of a variable of one element; throws `shape_mismatch`, `dtype_mismatch` as
  /// `tensor::item`.
  T item() const {
    return read().item<T>();
  }

  /// Replaces, adds to or subtracts from the value. `value`: `type()`, `shape()`. An `on_read`
  /// variable with aggregation sum: in cross-replica context `assign` divides the value over the
  /// copies, the other two throw `invalid_argument`.
  const distributed_variable& assign(const tensor& value) const;
  const distributed_variable& assign_add(const tensor& value) const;
  const distributed_variable& assign_sub(const tensor& value) const;
  /// Assigns a number to every element; the same number on every replica. For f32, f64, i32 and i64
  /// variables: `dtype_mismatch` for others and for a number that the dtype does not hold. With
  /// aggregation sum `invalid_argument` inside a replica of several.
  template <class T>
  requires std::is_arithmetic_v<T>
  const distributed_variable& assign(T value) const {
    return literal(write::assign, number(value));
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  const distributed_variable& assign_add(T value) const {
    return literal(write::add, number(value));
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  const distributed_variable& assign_sub(T value) const {
    return literal(write::sub, number(value));
  }
  /// Assigns component by component. In cross-replica context only, else `invalid_argument`, as
  /// when the counts differ.
  const distributed_variable& assign(const per_replica<tensor>& value) const;
  /// Assigns another variable's value, as the caller reads it.
  const distributed_variable& assign(const distributed_variable& value) const;

  /// Changes the rows `indices` alone. `indices`: i64 [n]; `values`: `type()`, [n] + row shape.
  /// Inside a replica the rows of all replicas are brought together first: with aggregation sum one
  /// after the other, with mean divided by the number of replicas too (arithmetic only), with
  /// `only_first_replica` those of replica 0, with none the same rows on all. `invalid_argument`
  /// for `on_read` variables, on a TPU for any aggregation but none, for what the aggregation
  /// forbids and for an integer divided by 0; `dtype_mismatch`, `shape_mismatch`, `out_of_range`.
  const distributed_variable& scatter_add(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_sub(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_mul(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_div(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_min(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_max(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_update(const tensor& indices, const tensor& values) const;

  /// The variable's constraint function; empty: it has none.
  const std::function<tensor(const tensor&)>& constraint() const;
  /// Replaces each copy that the caller means by the constraint's result for it; no other call
  /// applies the constraint. All replicas call it, if one does. `wrong_state` without a constraint,
  /// `shape_mismatch` and `dtype_mismatch` for what does not fit.
  const distributed_variable& apply_constraint() const;

  /// The value that a checkpoint holds: component 0, or the cross-replica value of an `on_read`
  /// variable. Every worker calls it.
  tensor saved_value() const;
  /// Takes back a saved value, whatever the number of replicas was. `value`: `type()`, `shape()`.
  /// In cross-replica context only, else `wrong_state`. An `on_read` sum is divided over the
  /// copies.
  void restore_value(const tensor& value) const;

  const std::shared_ptr<detail::variable_core>& core() const { return core_; }
  friend bool operator==(const distributed_variable& a, const distributed_variable& b) {
    return a.core_ == b.core_;
  }

private:
  enum class write : std::uint8_t { assign = 0, add = 1, sub = 2 };
  using any_number = std::variant<std::int64_t, double>;
  template <class T>
  static any_number number(T x) {
    if constexpr (std::is_floating_point_v<
                    T> || (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t)))
      return static_cast<double>(x);
    else
      return static_cast<std::int64_t>(x);
  }
  const distributed_variable& literal(write how, any_number value) const;
  const distributed_variable& change(write how, const tensor& value, bool is_literal) const;
  std::shared_ptr<detail::variable_core> core_{};
};

using distributed_variables = std::vector<distributed_variable>;

/// Makes a variable of the ambient strategy: in a scope; inside a replica's function, where all
/// replicas make the same ones in the same order, with the same names (else `mismatch`); or of the
/// default strategy. The first copy's initial value is copied to the others, over several workers
/// worker 0's: creation is collective there. `wrong_state` inside a dataset function, a step, or
/// the scope of a strategy whose variables are of another kind. Throws `invalid_argument`,
/// `shape_mismatch`, `dtype_mismatch` naming the variable and the field.
distributed_variable make_variable(distributed_variable_options options);

namespace detail {
/// A variable that every replica made: the nest of the replicas' handles is that variable.
template <>
struct nest<distributed_variable> {
  static const distributed_variable& select(const distributed_variable& x, std::size_t) {
    return x;
  }
  using regrouped = distributed_variable;
  static regrouped regroup(std::vector<distributed_variable> xs) {
    for (std::size_t i = 1; i < xs.size(); ++i)
      if (!(xs[i] == xs[0]))
        throw_failure(errc::mismatch, "regroup: replica " + std::to_string(i)
                                        + " has a different variable than replica 0: "
                                        + xs[i].name() + ", " + xs[0].name());
    return xs.at(0);
  }
};
} // namespace detail

} // namespace troupe
