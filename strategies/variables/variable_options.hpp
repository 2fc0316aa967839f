#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/optimizer/optimizer.hpp>
#include <troupe/strategies/sharding/partitioner.hpp>

/// What a variable of a synchronous strategy is asked to be. Plain values.
namespace troupe {

/// The time at which the copies of a variable are brought together.
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

/// Options of a new distributed variable.
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
  /// The logical device of its replica that each copy is on; none: that of the scope around, else
  /// the first.
  std::optional<std::uint32_t> logical_device{};
  /// The function of `apply_constraint`; pure, its result has the value's dtype and shape.
  /// Assignments never call it.
  std::function<tensor(const tensor&)> constraint{};
  /// A partitioner, for programs that came from parameter servers: synchronous strategies keep
  /// variables whole and trace once that they drop it.
  troupe::partitioner partitioner{};
};

} // namespace troupe
