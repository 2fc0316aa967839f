#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/sim/fault_plan.hpp>
#include <troupe/sim/report.hpp>
#include <troupe/sim/world.hpp>

namespace troupe::sim {

class scenario_run;

/// A program on a cluster, and what may go wrong there.
struct scenario {
  std::string_view name{}; ///< snake_case
  std::string_view text{}; ///< one line
  bool fault_free = false;
  /// Faults go past what the product promises: the program must end with a named error, in time.
  bool beyond_guard = false;
  /// World events that a seed has about, and why so few when it is less than 5,000.
  std::uint64_t events_expected = 5'000;
  std::string_view few_because{};
  cluster_shape shape_min{};
  cluster_shape shape_max{};
  fault_profile faults{};
  /// Progress is due within that virtual time of the liveness phase (or of the start, without one).
  duration finish_within{std::chrono::minutes{5}};
  /// Adds machines and programs to the run's world.
  void (*build)(scenario_run& run) = nullptr;
};

enum class order_kind : std::uint8_t { fifo = 0, random = 1, pct = 2, replay = 3 };
std::string_view to_string(order_kind kind);

/// The conditions of the cluster, the same for a whole run.
struct run_conditions {
  duration latency_min{std::chrono::microseconds{100}};
  duration latency_jitter{std::chrono::microseconds{200}};
  std::uint32_t latency_tail_per_mille = 5;
  std::size_t segment_bytes = std::size_t{32} << 10; ///< most bytes that arrive at once
  std::size_t channel_bytes = std::size_t{1} << 20;  ///< under way in a data channel
  friend bool operator==(const run_conditions&, const run_conditions&) = default;
};

/// A run, as plain data: everything that decides what happens in it.
struct run_spec {
  std::string scenario{};
  std::uint64_t seed = 1;
  cluster_shape shape{};
  fault_plan plan{};
  run_conditions conditions{};
  order_kind order = order_kind::random;
  std::uint32_t pct_changes = 0;
  /// `order_kind::replay`: the picks.
  std::vector<std::uint32_t> picks{};
  friend bool operator==(const run_spec&, const run_spec&) = default;
};

/// The run of that seed.
run_spec draw_spec(const scenario& s, std::uint64_t seed);

/// Observation of a run; nothing here changes what happens.
struct run_settings {
  std::FILE* trace_to = nullptr;
  bool record_picks = false;
  std::uint64_t steps_max = 5'000'000;
  /// Sees all events too; outlives the run.
  observer* also = nullptr;
};

struct run_result {
  report rep{};
  std::vector<std::uint32_t> picks{};
  std::uint64_t closures = 0; ///< that the program scheduled
  std::uint64_t faults = 0;   ///< actions that had an effect
  std::uint64_t trouble = 0;  ///< attempts of steps that misbehaved
  bool ok() const { return rep.ok(); }
  /// The broken rule; empty when all is well. `stuck`, `time_limit`, ... for runs that didn't end.
  std::string rule() const;
  std::string text() const { return rep.text(); }
};

/// Runs `spec`, with all checkers. @pre `spec.scenario` is `s.name`.
run_result run_scenario(const scenario& s, const run_spec& spec, const run_settings& settings = {});
/// Runs `spec` twice, the second time with its objects at other addresses, and compares event by
/// event; gives the first result, with a violation added that names the first event that differs.
/// `settings.also` sees the first run. See `twice.hpp`.
run_result run_twice(const scenario& s, const run_spec& spec, const run_settings& settings = {});
/// Runs `seed`, or that of TROUPE_SIM_SEED (`replay.hpp`). Returns an empty text when all was well,
/// else what went wrong and a command of this program that replays it: `CHECK_MESSAGE(why.empty(),
/// why)`.
std::string why_failed(const scenario& s, std::uint64_t seed);

} // namespace troupe::sim
