#pragma once

#include <troupe/sim/scenario.hpp>

/// Every scenario, by name: the registry of `registry.hpp` lists these.
namespace troupe::sim {

extern const scenario bad_links, checkpoints, clocks_only, coordinator_lost, coordinator_restart,
  creations, datasets, devices, equal_workers, equal_workers_calm, everything, failing_steps,
  groups, groups_calm, hostile_steps, inputs_and_priorities, large_values, late_saves, many_lanes,
  partitions, pauses, replicas, replicas_calm, server_lost, server_missing, server_restart,
  server_silent, slow_machines, tables, tight_queue, witness_calm, worker_storm, workers_lost;

} // namespace troupe::sim
