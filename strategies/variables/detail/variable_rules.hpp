#pragma once

#include <cstdint>
#include <string>

#include <troupe/core/step_host.hpp>
#include <troupe/strategies/variables/variable_options.hpp>

/// What a call of a variable comes to: tables over the caller's context, the synchronization and
/// the aggregation. Plain; any thread. Source: tf.distribute, where it throws for what TensorFlow
/// lets diverge.
namespace troupe::detail {

/// Where a variable is used.
enum class variable_context : std::uint8_t { cross = 0, replica = 1, update = 2 };

/// How many copies a variable has for its replicas.
enum class variable_placement : std::uint8_t {
  single = 0, ///< one replica in all
  copies = 1, ///< a copy with each of several replicas
  shared = 2  ///< one copy for several replicas
};

/// What is done. `refuse_...`: the call throws `invalid_argument`, see `refusal_of`.
enum class variable_action : std::uint8_t {
  every_copy = 0,            ///< all copies take the value
  own_copy = 1,              ///< the caller's copy does, or gives it
  divide = 2,                ///< the copies take shares that add up to the value
  same_on_all = 3,           ///< the same value on all replicas: nothing is brought together
  sum = 4,                   ///< the sum over the replicas or copies
  mean = 5,                  ///< their mean
  first = 6,                 ///< that of replica 0
  compared = 7,              ///< each its own, once all were found to be the same
  refuse_shared = 8,         ///< several replicas, one copy and no aggregation
  refuse_diverging = 9,      ///< the copies would differ
  refuse_number = 10,        ///< a plain number is not distributed, it has no sum
  refuse_adding_to_sum = 11, ///< a sum over copies takes no addend from outside the replicas
  refuse_reading = 12,       ///< copies that nothing combines have no common value
  refuse_shared_rows = 13,   ///< as `refuse_shared`, of rows
  refuse_rows_of_on_read = 14,
  refuse_combined_rows = 15 ///< rows of several replicas add up, they have no common extreme
};

/// The rules of one variable.
struct variable_rules {
  /// on_write or on_read.
  variable_synchronization synchronization = variable_synchronization::on_write;
  variable_aggregation aggregation = variable_aggregation::none;
  variable_placement placement = variable_placement::single;
  bool allow_divergence = false; ///< replicas may give their copies different values

  /// own_copy, or what combines the copies, or a refusal.
  variable_action read(variable_context by) const;
  /// Of a whole value. `kind`: assign, assign_add, assign_sub. `is_number`: a plain number, the
  /// same on each replica.
  variable_action write(variable_context by, mutation_kind kind, bool is_number) const;
  /// Of some rows. `kind`: scatter_add to scatter_update.
  variable_action scatter(variable_context by, mutation_kind kind) const;
};

/// Why an action is refused, for the text of the failure; empty for one that is done.
std::string refusal_of(variable_action action, variable_aggregation aggregation);

/// "assign", "scatter_add", ..., "apply".
const char* name_of(mutation_kind kind);

} // namespace troupe::detail
