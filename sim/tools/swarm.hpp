#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <troupe/sim/tools/child_pool.hpp>
#include <troupe/sim/tools/failure_file.hpp>
#include <troupe/sim/tools/seed_run.hpp>

namespace troupe::sim {

struct swarm_options {
  std::uint64_t seeds = 1'000;
  std::uint64_t first_seed = 1;
  std::string scenario{}; ///< empty: all, in turn
  unsigned jobs = 0;      ///< children at once; 0: one a core
  double minutes = 0;     ///< no new seed after that; 0: no limit
  std::uint32_t twice_percent = 5;
  bool until_failure = false;           ///< stop at the first
  std::string failures{"sim-failures"}; ///< directory of failure files
  std::string bug{};                    ///< the planted one that is awake
  child_limits limits{};
};

/// Sums over the runs of one scenario.
struct scenario_sums {
  std::uint64_t seeds = 0;
  std::uint64_t failed = 0;
  std::uint64_t twice = 0;
  std::uint64_t events = 0;
  std::uint64_t closures = 0;
  std::uint64_t faults = 0;
  std::uint64_t trouble = 0;
  std::int64_t time_ns = 0;
  std::int64_t wall_ns = 0;
  void add(const seed_outcome& out);
  void add(const scenario_sums& other);
};

struct swarm_failure {
  std::uint64_t seed = 0;
  std::string scenario{};
  seed_outcome out{};
  std::string file{};      ///< where it was written; empty: nowhere
  std::string unwritten{}; ///< why it was not
};

/// The result of a swarm.
struct swarm_result {
  std::map<std::string, scenario_sums> scenarios{};
  std::map<std::string, std::uint64_t> marks{};
  std::map<std::string, std::uint64_t> actions{};
  std::vector<swarm_failure> failures{}; ///< by seed
  std::uint64_t asked = 0;               ///< seeds; fewer were run when a limit ended the swarm
  double wall_s = 0;
  scenario_sums total() const;
  /// Scenarios that test less than they say, a line each: of 20 seeds or more, fewer events a seed
  /// than expected, or no fault in one that is not fault-free.
  std::vector<std::string> too_few() const;
  bool ok() const { return failures.empty() && too_few().empty(); }
};

/// The scenario of a seed.
std::string scenario_of(const swarm_options& options, std::uint64_t seed);
/// Whether a seed is run twice: the same answer for ever.
bool runs_twice(std::uint64_t seed, std::uint32_t percent);

/// Whether failures can be written to a directory, which need not exist. `io_failed`, naming it.
result<void> check_failures_directory(const std::string& path);

/// Runs the seeds in children. `on_failure` is called for each. A failure whose file cannot be
/// written ends nothing: `swarm_failure::unwritten`.
/// @pre the scenario exists; first_seed + seeds - 1 is a seed.
swarm_result run_swarm(const swarm_options& options,
                       const std::function<void(const swarm_failure&)>& on_failure);

/// The figures, for people: speed, marks never hit, scenarios, faults.
void print(std::FILE* to, const swarm_result& result);
/// All known marks with their hits, and those hit that nobody listed.
void print_marks(std::FILE* to, const std::map<std::string, std::uint64_t>& hits);

/// The failure of that seed as a file's content.
failure_file file_of(const swarm_failure& failed, const std::string& bug);

} // namespace troupe::sim
