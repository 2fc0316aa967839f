#pragma once

#include <troupe/sim/tools/options.hpp>

namespace troupe::sim {

/// Carries out a command; the program's exit code: 0 all is well, 1 a rule broke, 2 it could not be
/// done.
int do_command(const sim_command& command);

} // namespace troupe::sim
