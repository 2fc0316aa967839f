#pragma once

#include <string>

#include <troupe/sim/event_log.hpp>
#include <troupe/sim/scenario.hpp>

namespace troupe::sim {

/// A run that can be made again and compared, event by event: two runs of a seed must be the same.
/// The events of the first are kept, some 50 bytes each.
class compared_run {
public:
  /// Makes the first run. `s` outlives this; `settings.also` sees this run and no other.
  compared_run(const scenario& s, run_spec spec, const run_settings& settings = {});

  const run_result& first() const { return first_; }
  /// Makes the run again, with its objects at other addresses and no trace. Returns the difference
  /// from the first, in words; empty: they agree.
  std::string again(bool record_picks = false);
  /// The result of the second run. @pre `again` was called.
  const run_result& second() const { return second_; }

private:
  run_result run(run_settings settings, event_log& to);

  const scenario& scenario_;
  run_spec spec_;
  run_settings settings_;
  event_log log_{};
  run_result first_;
  run_result second_{};
};

} // namespace troupe::sim
