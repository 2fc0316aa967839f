// Names of actions, as they stand in traces and failure files.
#include <troupe/sim/action.hpp>

#include <cstddef>
#include <iterator>

namespace troupe::sim {

std::string_view to_string(action_kind kind) {
  constexpr std::string_view names[] = {"crash",
                                        "restart",
                                        "pause",
                                        "resume",
                                        "slow",
                                        "partition",
                                        "partition_one_way",
                                        "isolate",
                                        "heal",
                                        "heal_all",
                                        "reset",
                                        "stall",
                                        "delay",
                                        "clock_offset",
                                        "clock_drift",
                                        "torn_write",
                                        "io_error",
                                        "no_space",
                                        "bit_flip",
                                        "slow_io"};
  auto i = static_cast<std::size_t>(kind);
  return i < std::size(names) ? names[i] : "action(?)";
}

} // namespace troupe::sim
