#pragma once

#include <troupe/sim/scenario.hpp>

/// Every scenario, by name: the registry of `registry.hpp` lists these.
namespace troupe::sim {

extern const scenario bad_links, clocks_only, everything, partitions, pauses, slow_machines,
  witness_calm, worker_storm;

} // namespace troupe::sim
