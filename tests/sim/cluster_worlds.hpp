#pragma once

#include <troupe/sim/world.hpp>

/// Worlds built by hand, with an audit that breaks INV-X1 when an effect is lost or doubled.
namespace worlds {

using troupe::sim::report;
using troupe::sim::world;

/// 100 closures, no faults.
report calm(world& w);
/// 300 closures, a crash with restart, a partition, a pause.
report crash_and_partition(world& w);
/// 200 closures, the coordinator crashes and starts again.
report coordinator_restart(world& w);
/// 400 closures, many faults of workers, drawn from the world's seed.
report worker_storm(world& w);

} // namespace worlds
