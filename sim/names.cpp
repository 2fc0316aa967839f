// Names of machines, actions and orders, as they stand in traces and failure files.
#include <troupe/sim/names.hpp>

#include <array>
#include <cstddef>
#include <iterator>

#include <troupe/sim/action.hpp>
#include <troupe/sim/scenario.hpp>

namespace troupe::sim {

std::string to_string(const node_name& name) {
  switch (name.task.job) {
    case job_kind::chief:
      return name.task.index == 0 ? "chief" : "chief" + std::to_string(name.task.index);
    case job_kind::worker: return "worker" + std::to_string(name.task.index);
    case job_kind::ps: return "ps" + std::to_string(name.task.index);
    default: return "evaluator" + std::to_string(name.task.index);
  }
}

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

std::string_view to_string(order_kind kind) {
  constexpr std::array<std::string_view, 4> names{"fifo", "random", "pct", "replay"};
  auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : "order(?)";
}

} // namespace troupe::sim
