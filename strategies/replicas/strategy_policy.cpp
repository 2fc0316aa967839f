#include <troupe/strategies/replicas/detail/strategy_policy.hpp>

#include <array>
#include <cstddef>

namespace troupe::detail {

namespace {

/// By the number of the kind.
constexpr std::array<strategy_policy, 7> policies{{
  {.kind = strategy_kind::standard, .is_default = true},
  {.kind = strategy_kind::one_device},
  {.kind = strategy_kind::mirrored, .allows_pipeline_per_replica = true, .isolates_sessions = true},
  {.kind = strategy_kind::central_storage, .isolates_sessions = true},
  {.kind = strategy_kind::multi_worker_mirrored,
   .is_between_graph = true,
   .has_collective_leader = true},
  {.kind = strategy_kind::tpu,
   .requires_equal_shapes = true,
   .row_updates_without_aggregation_only = true,
   .updates_with_mirrored_values_only = true,
   .isolates_sessions = true,
   .configures_cluster = true},
  {.kind = strategy_kind::parameter_server, .variables_on_servers = true, .is_between_graph = true},
}};

} // namespace

const strategy_policy& policy_of(strategy_kind kind) {
  return policies.at(static_cast<std::size_t>(kind));
}

} // namespace troupe::detail
