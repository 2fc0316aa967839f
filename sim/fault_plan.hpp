#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/sim/action.hpp>

/// The faults of a run, as plain data: made from a seed, kept in a file, shrunk.
namespace troupe::sim {

/// Number of machines of a run, and size of its program.
struct cluster_shape {
  std::uint32_t workers = 3;
  std::uint32_t servers = 2;
  std::uint32_t closures = 200; ///< what the scenario makes of it is its own
  friend bool operator==(const cluster_shape&, const cluster_shape&) = default;
};

/// A fault that happens to the cluster.
struct fault {
  duration at{}; ///< since the start of the run
  action what{};
  /// The mark of a fault that comes not at a time, but when `what.target` hits it for the `nth`
  /// time, from 1, over its instances. A worker that crashes so comes back by itself.
  std::string mark{};
  std::uint64_t nth = 0;
  friend bool operator==(const fault&, const fault&) = default;
};

/// How often step code misbehaves, of 1,000 attempts; see `step_dice`.
struct step_trouble {
  std::uint32_t throws = 0;
  std::uint32_t hangs = 0;
  std::uint32_t kills = 0; ///< its worker process leaves
  std::uint32_t slows = 0;
  friend bool operator==(const step_trouble&, const step_trouble&) = default;
};

/// The liveness phase: from `at` on, `members` and the links between them are whole and up for
/// good, all others are `others`, and nothing else happens.
struct core_plan {
  enum fate : std::uint8_t {
    dead = 0, ///< crashed, for ever
    cut = 1,  ///< up, but reach nobody
  };
  duration at{}; ///< 0: there is no liveness phase
  std::vector<node_name> members{};
  fate others = dead;
  friend bool operator==(const core_plan&, const core_plan&) = default;
};

struct fault_plan {
  std::vector<fault> faults{}; ///< by time
  step_trouble steps{};
  core_plan core{};
  friend bool operator==(const fault_plan&, const fault_plan&) = default;
};

/// Kinds of faults that a plan is drawn of. Each kind makes one or several actions.
enum class fault_kind : std::uint8_t {
  worker_crash = 0, ///< and, but for a tenth, a restart
  crash_loop = 1,   ///< a worker's processes, one after the other, short after their start
  server_crash = 2, ///< and a restart
  chief_crash = 3,  ///< and a restart
  pause = 4,        ///< of any machine, and its resumption
  slow = 5,         ///< a machine, for a while
  partition = 6,    ///< two machines, for a while
  partition_one_way = 7,
  isolate = 8, ///< one machine, for a while
  swizzle = 9, ///< links of a group clogged one by one and healed in another order
  reset = 10,  ///< the connections of two machines
  stall = 11,  ///< one direction of a link, short
  delay = 12,  ///< one direction of a link, for a while
  clock_offset = 13,
  clock_drift = 14,
  torn_write = 15, ///< storage of the chief, as all below
  io_error = 16,
  no_space = 17,
  bit_flip = 18,
  slow_io = 19,
  mark_crash = 20, ///< a worker, or a chief that saves, in the middle of what a mark names
};
inline constexpr std::uint32_t fault_kinds = 21;
std::string_view to_string(fault_kind kind);

/// Rate of a kind in a scenario: a seed has it with that chance, and then about so many.
struct fault_rate {
  fault_kind kind{};
  std::uint32_t chance_per_mille = 500;
  std::uint32_t count_max = 4; ///< uniform from 1
};

/// The faults of a scenario. The guard (`fault_guard.hpp`) keeps plans inside it.
struct fault_profile {
  std::vector<fault_rate> rates{};
  step_trouble steps{}; ///< highest values; each kind is on in half of the seeds
  /// Length of the safety phase, in which faults happen.
  duration safety_min{std::chrono::seconds{5}};
  duration safety_max{std::chrono::seconds{20}};
  /// How long pauses, partitions and the like last at most; most are much shorter.
  duration length_max{std::chrono::seconds{10}};
  bool liveness = true; ///< whether a liveness phase follows

  // the guard: what the product promises to survive here
  bool servers_may_crash = false;     ///< not without a checkpoint that the program restores
  bool chief_may_crash = false;       ///< the program restores a checkpoint in its next term
  bool servers_may_be_silent = false; ///< paused or cut for longer than silence is forgiven
  bool chief_may_be_silent = false;
};

/// The plan of a seed: a function of (seed, profile, shape) and nothing else. Draws are keyed by
/// kind and number, so that each fault is drawn by itself.
fault_plan draw_plan(std::uint64_t seed, const fault_profile& profile, const cluster_shape& shape);

} // namespace troupe::sim
