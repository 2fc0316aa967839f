#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/sim/scenario_run.hpp>
#include <troupe/sim/scenarios/replica_model.hpp>

/// A training program under a synchronous strategy, in one process or in several that are peer
/// workers: it steps, saves, fails, and goes on from what was saved.
namespace troupe::sim {

using namespace std::chrono_literals;

/// The state that the processes of a run share beside their strategy, over all crashes.
struct replica_world {
  std::int64_t target = 0;
  bool finished = false;            ///< some worker knows that all have done all steps
  std::set<std::uint32_t> gone{};   ///< workers that have ended since
  std::int64_t saves_begun = -1;    ///< the highest step of a save that was begun, and
  std::int64_t saves_returned = -1; ///< of one that returned
};

/// A strategy, and the operations of its workers beside their replicas; null within one process.
struct made_strategy {
  strategy is{};
  std::function<std::vector<std::string>(const std::string& mine)> exchange{};
  std::function<void()> barrier{};
};

struct replica_program_options {
  std::uint32_t worker = 0;
  std::uint32_t workers = 1;
  duration call_max = 1s; ///< of a collective call
  /// Makes the strategy, anew for each session. It may wait up to `start_max`.
  std::function<made_strategy()> make{};
  duration start_max = 4s;
};

/// The program of a process.
class replica_program {
public:
  replica_program(scenario_run& run, process& p, replica_world& shared,
                  replica_program_options options);

  /// Runs until all steps are done, however many sessions that takes.
  void run_all();

private:
  class session;
  void one_session();

  // events for the checkers
  void began(std::string_view what, duration deadline);
  void ended();
  void failed(const failure& why);

  scenario_run& run_;
  process& process_;
  replica_world& shared_;
  const replica_program_options options_;
  environment env_;
  std::uint64_t sessions_ = 0; ///< of strategies, in this process
};

} // namespace troupe::sim
