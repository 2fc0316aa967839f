#pragma once

#include <cstdint>
#include <string>

#include <troupe/core/ids.hpp>
#include <troupe/sim/checkers.hpp>

/// Parts that the checkers share.
namespace troupe::sim {

/// The closure that an event is about.
inline closure_id closure_of(const observed& e) {
  return {term_no{static_cast<std::uint32_t>(e.integer("term"))},
          static_cast<std::uint64_t>(e.integer("closure"))};
}

/// Key of a process instance.
struct instance_key {
  node_name node{};
  std::uint32_t start = 0;
  friend auto operator<=>(const instance_key&, const instance_key&) = default;
};
inline instance_key instance_of(const observed& e) { return {e.node, e.start}; }

inline std::string to_string(const closure_id& id) {
  return "closure " + std::to_string(value_of(id.term)) + ":" + std::to_string(id.seq);
}

inline bool is_server(const node_name& n) { return n.task.job == job_kind::ps; }

/// Numbers of `remote_status` and `attempt_outcome`, as events carry them.
namespace ended_as {
inline constexpr std::int64_t ready = 1, failed = 2, cancelled = 3;
}

} // namespace troupe::sim
