#pragma once

#include <cstdint>
#include <string>

#include <troupe/core/ids.hpp>

namespace troupe::sim {

/// A machine of the simulated cluster, named after the task that runs on it: `chief`, `worker{1}`,
/// `server{0}`. The machine keeps its disk, clock and name over the instances of its processes.
struct node_name {
  task_id task{};
  constexpr node_name() = default;
  constexpr node_name(task_id t) : task{t} {}
  friend auto operator<=>(const node_name&, const node_name&) = default;
};

struct worker {
  std::uint32_t index = 0;
  constexpr operator node_name() const { return task_id{job_kind::worker, index}; }
};
struct server {
  std::uint32_t index = 0;
  constexpr operator node_name() const { return task_id{job_kind::ps, index}; }
};
inline constexpr node_name chief{task_id{job_kind::chief, 0}};

/// "chief", "worker1", "ps0": also the host in simulated addresses.
std::string to_string(const node_name& name);

} // namespace troupe::sim
