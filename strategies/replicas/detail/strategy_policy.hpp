#pragma once

#include <cstdint>

/// The rules that tell the kinds of strategies apart: one table, in strategy_policy.cpp. The
/// engine, variables and inputs ask for a rule by its name and never for the kind.
namespace troupe::detail {

enum class strategy_kind : std::uint8_t {
  standard = 0,
  one_device = 1,
  mirrored = 2,
  central_storage = 3,
  multi_worker_mirrored = 4,
  tpu = 5,
  parameter_server = 6 ///< its variables live on servers; one replica, here
};

/// The rules of one kind. Immutable; any thread. Source: tf.distribute.
struct strategy_policy {
  strategy_kind kind = strategy_kind::standard;
  /// Whether it is what holds where nobody made a strategy: no runtime, no devices, and its scope
  /// changes nothing.
  bool is_default = false;
  /// Whether variables are on parameter servers: no copies here, and no threads for replicas.
  bool variables_on_servers = false;
  /// Whether shapes are fixed when a program is compiled: gathers take equal shapes only.
  bool requires_equal_shapes = false;
  /// Whether replicas write rows of variables with aggregation none only.
  bool row_updates_without_aggregation_only = false;
  /// Whether a variable with an aggregation is updated with mirrored values only.
  bool updates_with_mirrored_values_only = false;
  /// Whether each replica may have an input pipeline of its own.
  bool allows_pipeline_per_replica = false;
  /// Whether each process has a client of its own, in v1's terms.
  bool is_between_graph = false;
  /// What it changes in a session's configuration, in v1's terms: each session keeps its state for
  /// itself; the cluster is the session's; a leader begins the workers' collectives.
  bool isolates_sessions = false;
  bool configures_cluster = false;
  bool has_collective_leader = false;
};

/// The rules of `kind`. One object for each kind, for ever.
const strategy_policy& policy_of(strategy_kind kind);

} // namespace troupe::detail
