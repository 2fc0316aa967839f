#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <troupe/troupe.hpp>

#include "../../tools/free_ports.hpp"
#include "../../tools/process/child_process.hpp"

/// Processes of the same program, for benches that need more than one.
namespace bench {

/// A port of this machine's loopback that nobody listens on, and that no listener on port 0 gets.
inline std::uint16_t free_port() { return tool::free_loopback_ports(1).front(); }

/// This program again, with other arguments. It finds `descriptors` at `tool::handed_down(0)` and
/// so on, and has no other open file of this process but the three standard ones: a socket that it
/// kept open would never end for whoever is at its other end.
inline tool::child_process run_again(std::vector<std::string> arguments,
                                     std::vector<int> descriptors = {}) {
  return tool::child_process{tool::child_command{.program = tool::own_program(),
                                                 .arguments = std::move(arguments),
                                                 .descriptors = std::move(descriptors)}};
}

/// The task of a process that was started as "worker:0" or "ps:1".
inline troupe::task_id task_of(const std::string& role) {
  const auto colon = role.find(':');
  return {.job = role.substr(0, colon) == "ps" ? troupe::job_kind::ps : troupe::job_kind::worker,
          .index = static_cast<std::uint32_t>(std::stoul(role.substr(colon + 1)))};
}

} // namespace bench
