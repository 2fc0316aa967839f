#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/optimizer/optimizer.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/sharding/partitioner.hpp>

namespace troupe {

/// When the copies of a variable are brought together.
enum class variable_synchronization : std::uint8_t {
  automatic = 0, ///< `on_write`
  none = 1,      ///< refused by every strategy here
  on_write = 2,  ///< each assignment, so that copies are always equal
  on_read = 3    ///< in cross-replica reads; replicas write their own copy
};

/// How values of the replicas become one.
enum class variable_aggregation : std::uint8_t {
  none = 0,
  sum = 1,
  mean = 2,
  only_first_replica = 3
};

std::string_view to_string(variable_synchronization x);
std::string_view to_string(variable_aggregation x);

struct distributed_variable_options {
  std::string name{}; ///< empty: "variable_N"
  shape_t shape{};    ///< may be empty when `initial` gives a whole tensor
  troupe::dtype type = dtype::f32;
  /// A rule; a whole value; or a function that is called once, for all copies.
  std::variant<initializer_spec, tensor, std::function<tensor()>> initial{initializer_spec{}};
  variable_synchronization synchronization = variable_synchronization::automatic;
  variable_aggregation aggregation = variable_aggregation::none;
  std::optional<bool> trainable{}; ///< none: true, but for `on_read`
  /// How `replica_context::apply` turns gradients into updates, each copy with slots of its own.
  troupe::optimizer optimizer{};
  /// Replicas may assign different values to their copies though `aggregation` is none.
  bool allow_divergence = false;
  /// Which of its replica's devices each copy is on; none: that of the scope around, else the first
  /// (row SYNC-LOG-2).
  std::optional<std::uint32_t> logical_device{};
  /// What `apply_constraint` makes of a value; pure, of the same type and shape (row SYNC-VCR-16).
  std::function<tensor(const tensor&)> constraint{};
  /// For parameter servers; synchronous strategies keep variables whole, and say once that they
  /// drop it (row SYNC-CTX-14).
  troupe::partitioner partitioner{};
};

namespace detail {
class variable_core;
}

/// A variable of a synchronous strategy: one copy with each local replica, or one for all where the
/// strategy keeps one. A handle. What a call does depends on who makes it (rows SYNC-ONW, ONR and
/// the tables of section 1.14): a replica means its own copy, cross-replica context and the program
/// mean all of them, an update function the copy it was called for. A run that failed may have
/// written some copies and not others. Throws `wrong_state` when
/// another strategy is active, naming the variable and both.
class distributed_variable {
public:
  distributed_variable() = default;
  /// For the strategy.
  explicit distributed_variable(std::shared_ptr<detail::variable_core> core)
    : core_{std::move(core)} {}
  explicit operator bool() const noexcept { return core_ != nullptr; }

  const std::string& name() const;
  const shape_t& shape() const;
  troupe::dtype type() const;
  variable_synchronization synchronization() const;
  variable_aggregation aggregation() const;
  bool trainable() const;
  troupe::strategy distribute_strategy() const;
  /// Copies in this process.
  std::size_t components() const;
  /// "v" of component 0, "v/replica_1" of the next (row SYNC-VCR-1).
  std::string component_name(std::size_t i) const;
  /// Component `i` as it is, whoever asks.
  tensor component(std::size_t i) const;

  /// Where each copy lives, "cpu:1".
  const std::vector<std::string>& devices() const;
  /// The current device if there is a copy, else that of component 0 (row SYNC-VCR-15).
  const std::string& device() const;
  /// The copy on `device` as it is, whoever asks. `device_unavailable` says where there are copies.
  tensor component_on(const std::string& device) const;

  /// A replica's own copy; in cross-replica context the first one, or for `on_read` the sum, mean
  /// or first of all.
  tensor read() const;
  template <class T>
  T item() const {
    return read().item<T>();
  }

  const distributed_variable& assign(const tensor& value) const;
  const distributed_variable& assign_add(const tensor& value) const;
  const distributed_variable& assign_sub(const tensor& value) const;
  /// A number, the same on every replica: with aggregation sum a replica may not assign one.
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
  /// In cross-replica context: component by component; `invalid_argument` when the counts differ.
  const distributed_variable& assign(const per_replica<tensor>& value) const;
  /// Another variable's value, as the caller reads it.
  const distributed_variable& assign(const distributed_variable& value) const;

  /// `indices`: i64 [n]; `values`: [n] + row shape. A replica's rows are brought together first:
  /// summed rows of all replicas one after the other, mean ones divided by their number (rows
  /// SYNC-SCT).
  const distributed_variable& scatter_add(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_sub(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_mul(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_div(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_min(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_max(const tensor& indices, const tensor& values) const;
  const distributed_variable& scatter_update(const tensor& indices, const tensor& values) const;

  /// The variable's constraint function; empty: it has none.
  const std::function<tensor(const tensor&)>& constraint() const;
  /// Replaces each copy that the caller means by what the constraint makes of it; nothing else ever
  /// does (rows SYNC-VCR-16, T9). All replicas call it, if one does. `wrong_state` without a
  /// constraint, `shape_mismatch` and `dtype_mismatch` for what does not fit.
  const distributed_variable& apply_constraint() const;

  /// What a checkpoint holds: component 0, or the cross-replica value of an `on_read` variable
  /// (rows SYNC-CKP). Every worker calls it.
  tensor saved_value() const;
  /// Puts it back, whatever the number of replicas was.
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
/// replicas make the same ones in the same order (rows SYNC-RUN-21, VCR-12); or of the default
/// strategy. Throws `invalid_argument`, `shape_mismatch`, `dtype_mismatch` naming the variable and
/// the field.
distributed_variable make_variable(distributed_variable_options options);

namespace detail {
/// The same variable made by every replica: itself (row SYNC-REG-4).
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
                                        + " has another variable than replica 0: " + xs[i].name()
                                        + ", " + xs[0].name());
    return xs.at(0);
  }
};
} // namespace detail

} // namespace troupe
