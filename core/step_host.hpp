#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/function_registry.hpp>
#include <troupe/core/specs.hpp>

namespace troupe {

/// Rows [row_begin, row_end) of a variable as one version of one shard. Never changes.
struct row_block {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  tensor values{};
  std::uint64_t version = 0;
};

/// A variable as read: its shards in row order, each at one version (not a snapshot across shards).
/// In one process the blocks are the servers' own memory.
struct variable_value {
  troupe::dtype type = dtype::f32;
  shape_t shape{};
  std::vector<row_block> blocks{};
  /// The whole value as one tensor; a copy only when there are several blocks.
  tensor to_tensor() const;
};

enum class mutation_kind : std::uint8_t {
  apply =
    0, ///< gradient through the variable's optimizer; `indices` given: rows of a sparse gradient
  assign = 1,      ///< values of the variable's whole shape
  assign_add = 2,  ///< values of the variable's whole shape
  assign_sub = 3,  ///< values of the variable's whole shape
  scatter_add = 4, ///< rows `indices`, in order, duplicates allowed; also below
  scatter_sub = 5,
  scatter_mul = 6,
  scatter_div = 7,
  scatter_min = 8,
  scatter_max = 9,
  scatter_update = 10,
  set_learning_rate = 11, ///< values: one f32; replaces the schedule by a constant
};

constexpr bool takes_indices(mutation_kind kind) {
  return kind >= mutation_kind::scatter_add && kind <= mutation_kind::scatter_update;
}

/// A mutating call on a variable.
struct mutation {
  variable_id variable{};
  mutation_kind kind = mutation_kind::apply;
  tensor values{};
  tensor indices{}; ///< i64 [n], global rows; undefined when dense
};

/// The calls of a running step: implemented by the worker (`worker_step_host`), wrapped by the
/// public `worker_context`. The step's thread only. Every call is a sign of life and throws
/// `troupe::error`; `cancelled` as a code when the closure was cancelled.
class step_host {
public:
  virtual ~step_host() = default;
  virtual const environment& env() const = 0;
  virtual task_id task() const = 0;
  virtual closure_id closure() const = 0;
  virtual attempt_no attempt() const = 0;
  virtual bool cancelled() = 0;
  /// The specification of a variable. `unknown_variable` names the id.
  virtual std::shared_ptr<const variable_spec> describe(variable_id variable) = 0;
  /// The variable of that name, made if there is none; `mismatch` when it was made with another
  /// specification. `wanted` has no id and no shards.
  virtual std::shared_ptr<const variable_spec> get_or_create(const variable_spec& wanted) = 0;
  virtual std::vector<variable_value> read(std::span<const variable_id> variables) = 0;
  /// Rows `indices` (i64, any rank) of the variable: shape(indices) + row shape, in the order
  /// asked.
  virtual tensor gather(variable_id variable, const tensor& indices) = 0;
  /// Sends all of `ops`; returns when they are in the channels' windows. The closure ends when all
  /// are acknowledged.
  virtual void mutate(std::span<const mutation> ops) = 0;
  /// The worker's own object behind a resource id; `input_failed` when it could not be built.
  virtual resource& resource_of(resource_id id) = 0;
  /// The resources for this step alone, until what is returned goes: other steps of the worker that
  /// ask for one of them wait, on their threads. Throws `cancelled` when the step is cancelled
  /// meanwhile, `input_failed` when a step that hung was left behind with one.
  virtual std::shared_ptr<void> hold(std::vector<resource_id> ids) = 0;
  /// Takes `d` of virtual time in simulation; nothing in production.
  virtual void compute(duration d) = 0;
};

} // namespace troupe
