#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <troupe/core/result.hpp>
#include <troupe/sim/scenario.hpp>
#include <troupe/sim/tools/child_pool.hpp>

namespace troupe::sim {

/// The outcome of a run, small enough for a pipe.
struct seed_outcome {
  std::string rule{}; ///< that was broken; empty: all is well
  std::string text{};
  std::uint64_t events = 0;
  std::uint64_t hash = 0;
  std::uint64_t closures = 0;
  std::uint64_t faults = 0;
  std::uint64_t trouble = 0;
  std::int64_t time_ns = 0; ///< virtual
  std::int64_t wall_ns = 0; ///< of the first run
  bool twice = false;
  std::string picks{}; ///< see pick_text.hpp; of runs that broke a rule
  std::map<std::string, std::uint64_t> marks{};
  std::map<std::string, std::uint64_t> actions{};
  bool ok() const { return rule.empty(); }
};

/// Runs `spec` in this process. `twice`: runs it again and compares, event by event; a run that
/// broke a rule is always run again so, and its picks are kept.
seed_outcome run_seed(const scenario& s, const run_spec& spec, bool twice);
/// `run_seed` of the registry's scenario. @pre there is one of that name.
seed_outcome run_seed(const run_spec& spec, bool twice);

/// The outcome as text for the pipe, and back.
std::string to_text(const seed_outcome& out);
result<seed_outcome> outcome_from_text(std::string_view text);

/// The outcome of a child that ran `run_seed`: its answer, or its end as a broken rule: the name of
/// an assertion, "asan", "ubsan", "signal 11", "wall_limit".
seed_outcome outcome_of(child_end end);

/// Runs `spec` in a child of its own.
seed_outcome run_contained(const run_spec& spec, bool twice, const child_limits& limits);

} // namespace troupe::sim
