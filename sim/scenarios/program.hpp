#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

#include <troupe/sim/scenario_run.hpp>
#include <troupe/sim/update_audit.hpp>

/// Common parts of the scenarios' programs.
namespace troupe::sim {

using namespace std::chrono_literals;

class audited_program;

/// The argument of every audited closure.
struct audit_order {
  audit_layout layout{};
  std::int64_t cell = 0;
  std::int64_t compute_us = 0;
  step_dice dice{};
  TROUPE_FIELDS(audit_order, layout, cell, compute_us, dice)
};

/// The body of an audited step: computes, misbehaves as the dice say, adds 1 to its cell on every
/// shard. What else it pushes differs by attempt.
void audit_update(worker_context& ctx, const variable_list& variables, const audit_order& order);
/// Reports a rule that a step found broken: ends the run.
void broke_rule(worker_context& ctx, std::string_view rule, const std::string& text);

/// Schedules the closure of one cell.
using put_closure = std::function<remote_value<std::int64_t>(
  audited_program& program, const closure_options& options, const audit_order& order)>;

/// How a program deals out its work.
struct work_options {
  std::int64_t target = 0;     ///< closures that shall finish; 0: the shape's
  std::int64_t batch_max = 64; ///< between two joins
  duration lasts = 0ns;        ///< virtual time that all shall take; 0: the safety phase and more
  closure_options closures{};
  bool vary_priority = false;
  bool vary_worker = false;
  bool poll = false; ///< asks `done` now and then, instead of joining
  /// Schedules the closure of a cell; null: `audit_update` and nothing else.
  put_closure put{};
  /// The result that the closure of a cell must give; null: the cell.
  std::function<std::int64_t(std::int64_t cell)> result_of{};
  /// Called between two batches, with the number of closures that have finished.
  std::function<void(std::int64_t finished)> between{};
  /// Called when a batch was scheduled and nothing joined.
  std::function<void()> before_join{};
};

/// The coordinator's side of a cluster, and an audit of it. One session of the program makes one.
class audited_program {
public:
  /// Starts the runtime and makes the variables. Throws `error`.
  /// `width_max`: of a cell, where the whole variables are moved often.
  audited_program(scenario_run& run, process& p, std::int64_t width_max = 64);

  /// Schedules closures until enough have finished or no cells are left; errors of closures are
  /// noted, and what they cancelled is scheduled anew as other closures.
  void work(const work_options& options = {});
  /// Runs a batch: schedules, joins, takes the results.
  void batch(std::int64_t n, const work_options& options);
  /// Compares the cells with what is known of the closures.
  void check(std::string_view when = "at the end");
  /// Reads a variable, however often the way to its servers is cut.
  tensor read(const variable& v);

  scenario_run& run() const { return run_; }
  process& self() const { return process_; }
  runtime& rt() { return runtime_; }
  parameter_server_strategy& strategy() { return strategy_; }
  cluster_coordinator& coordinator() { return coordinator_; }
  audit_board& board() { return board_; }
  const variable_list& audit_variables() const { return audit_; }
  const variable& counts() const { return audit_[0]; }
  const variable& tries() const { return audit_[1]; }
  std::int64_t errors_seen() const { return errors_seen_; }

  /// Joins the batch and notes an error. False when there was one.
  bool join();
  void note(const error& why);
  /// Errors that the program lets out instead of noting them.
  void let_out(std::function<bool(const error&)> which) { lets_out_ = std::move(which); }

private:
  struct open_closure {
    std::int64_t cell = 0;
    remote_value<std::int64_t> result{};
  };
  closure_options options_for(const work_options& options, std::int64_t cell) const;
  void collect(const work_options& options);
  void poll();
  duration each(const work_options& options) const;

  scenario_run& run_;
  process& process_;
  runtime runtime_;
  parameter_server_strategy strategy_;
  cluster_coordinator coordinator_;
  audit_board board_;
  variable_list audit_{};
  std::vector<open_closure> open_{};
  std::int64_t errors_seen_ = 0;
  std::function<bool(const error&)> lets_out_{};
};

/// Runs `body` as the coordinator's program: an `error` that it lets out is its named end.
void run_program(scenario_run& run, process& p, const std::function<void()>& body);

/// Machines as the run's shape says, with settings that suit short runs.
void make_cluster(scenario_run& run, program main);

/// `make_cluster` with an audited program that works and checks.
void build_audit(scenario_run& run, const work_options& options);
template <work_options (*Options)()>
void build_audit_with(scenario_run& run) {
  build_audit(run, Options());
}
inline work_options plain_work() { return {}; }
/// Options for storms, which take any number of workers with one closure.
inline work_options storm_work() { return {.closures = {.deadline = 20s, .retries = 1'000}}; }
inline constexpr cluster_shape small_cluster{.workers = 2, .servers = 1, .closures = 120};
inline constexpr cluster_shape large_cluster{.workers = 5, .servers = 3, .closures = 300};

} // namespace troupe::sim
