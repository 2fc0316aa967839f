#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <troupe/sim/scenario.hpp>
#include <troupe/sim/tools/seed_run.hpp>

namespace troupe::sim {

struct shrink_options {
  std::uint32_t runs_max = 500;
  /// Workers, servers and closures don't go below.
  cluster_shape shape_min{.workers = 1, .servers = 1, .closures = 1};
  /// Whether a plan may stand in the result; empty: any.
  std::function<bool(const run_spec&)> allowed{};
  /// Told what was achieved, a line at a time; empty: nobody is.
  std::function<void(const std::string&)> say{};
};

/// Makes a failing run simpler, step by step: features off, fewer faults, fewer machines and
/// closures, shorter and earlier faults, FIFO instead of other picks. A step stands only when the
/// same rule still breaks. Plain: how a run is made is the caller's.
class shrinker {
public:
  using run_function = std::function<seed_outcome(const run_spec&)>;

  shrinker(std::string rule, run_function run, shrink_options options);

  /// @pre `from` breaks the rule. Where the budget ends, the simplest so far.
  run_spec shrink(run_spec from);

  std::uint32_t runs() const { return runs_; }
  /// The outcome of the last run that broke the rule.
  const seed_outcome& last() const { return last_; }

private:
  bool fails(const run_spec& candidate);
  /// Takes `candidate` for the best when it fails.
  bool accept(const run_spec& candidate);
  template <class F>
  bool accept_with(F change);
  template <class Get>
  bool lower(Get get, std::int64_t least);

  bool features_off();
  bool fewer_faults();
  bool smaller_shape();
  bool milder_faults();
  void fewer_picks();
  bool replay_recorded();
  void say(const std::string& what);

  std::string rule_;
  run_function run_;
  shrink_options options_;
  run_spec best_{};
  seed_outcome last_{};
  std::uint32_t runs_ = 0;
};

} // namespace troupe::sim
