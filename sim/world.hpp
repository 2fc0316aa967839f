#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/sim/action.hpp>
#include <troupe/sim/names.hpp>
#include <troupe/sim/observer.hpp>
#include <troupe/sim/process.hpp>
#include <troupe/sim/report.hpp>
#include <troupe/sim/schedule.hpp>
#include <troupe/sim/storage.hpp>

namespace troupe::sim {

/// The rules that a world built by hand is held to; a scenario's are those of its runner.
} // namespace troupe::sim

namespace troupe {
class fake_backend; // device/fake_backend.hpp
}

namespace troupe::sim {

/// The rules that a world built by hand is held to; a scenario's are those of its runner.
enum class world_checks : std::uint8_t {
  none = 0, ///< what the test looks at itself
  all = 1,  ///< the invariants, that no program throws, and that the coordinator's ends with 0
  /// The checks of `all` for faults that go past what Troupe promises: errors of the cluster's own
  /// ways may reach the program, and those of workers and servers may throw.
  beyond = 2,
};

/// Options of a world. Durations are virtual time unless a comment says otherwise.
struct world_options {
  std::uint64_t seed = 1;
  world_checks checks = world_checks::all;
  /// Whether the environment variables of `replay.hpp` are obeyed, and the report has a command
  /// that runs the seed again.
  bool from_environment = true;
  /// Arguments of the replay's command behind the program's name; empty: see `name_tests_by`.
  std::string replay_arguments{};
  /// The order in which things run; null: random, by the seed.
  std::unique_ptr<schedule> order{};
  /// A stream that gets a line for each traced event; null: none.
  std::FILE* trace_to = nullptr;
  /// Whether to keep the picks, for a replay.
  bool record_picks = false;

  // limits
  std::uint64_t steps_max = 20'000'000;
  duration time_max = std::chrono::hours{2};

  // what things take
  /// The steps in which time moves. Events that fall into one step happen in the schedule's order.
  duration quantum = std::chrono::microseconds{50};
  duration step_cost = std::chrono::microseconds{2};      ///< a message handled, a thread's turn
  duration closure_cost = std::chrono::microseconds{100}; ///< each step, beside what it computes
  /// Share of calls on data channels before which the thread loses the processor for up to 200 us,
  /// so that a push to several servers can be cut between them.
  std::uint32_t preempt_per_mille = 100;
  duration latency_min = std::chrono::microseconds{100};
  duration latency_jitter = std::chrono::microseconds{200};
  std::uint32_t latency_tail_per_mille = 5; ///< packets that take up to 20 times as long
  std::uint64_t bytes_per_second = 1'000'000'000;
  /// A system gives a connection up when what it sent is not taken for this long.
  duration give_up_after = std::chrono::minutes{2};
  std::size_t channel_bytes = std::size_t{1} << 20; ///< under way in a data channel, a direction
  std::size_t segment_bytes = std::size_t{32} << 10;
  std::uint32_t gpus = 2; ///< of each process that asks for devices
};

/// A cluster in one thread, with virtual time. Deterministic: everything that happens is a function
/// of the options, the programs and the actions. Programs run on fibers of the thread that calls
/// `run`.
///
///   world w{seed};
///   w.coordinator([&](process& p) { runtime rt{p.options(), p.host()}; ... });
///   w.workers(3);
///   w.servers(2);
///   w.at(2s).crash(worker{1});
///   w.at(3s).restart(worker{1});
///   auto r = w.run();
///   CHECK_MESSAGE(r.ok(), r.text()); // on failure: the rule, the seed, a command for a replay
///
/// The invariants are watched (`world_options::checks`): a program need not check them. What
/// programs write to outside must outlive the world: processes that crashed release their objects,
/// with all ports cut, only when the world is destroyed.
class world {
public:
  /// A world of that seed, or of TROUPE_SIM_SEED.
  explicit world(std::uint64_t seed);
  explicit world(world_options options);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  // -- the cluster; before `run` --

  /// Settings of every process; task, addresses and counts are filled in.
  runtime_options& settings();
  /// The coordinator's program. A restart runs it again from its start.
  void coordinator(program main);
  /// Adds machines worker{0} to worker{n - 1}, or server{0} to server{n - 1}, each with a process
  /// that runs `main`.
  void workers(std::uint32_t n, program main = serve);
  void servers(std::uint32_t n, program main = serve);
  /// Adds a machine. Its process runs from the start; that of a `spare` only once it is restarted.
  void node(node_name name, program main);
  void spare(node_name name, program main = serve);
  void watch(observer& who); ///< outlives the run

  // -- what happens to it --

  /// Actions at one time, measured from the start of the run. A `length` of 0 lasts until the
  /// action is undone (`resume`, `heal`); action.hpp tells what each action does.
  class moment {
  public:
    /// Ends the process on a machine without a word; `flags`: see `crash_flag`. `restart` starts a
    /// new process there, if none runs.
    moment& crash(node_name n, std::int64_t flags = crash_plain);
    moment& restart(node_name n);
    /// Stops scheduling a machine, whose links keep buffering; `resume` goes on.
    moment& pause(node_name n, duration length = {});
    moment& resume(node_name n);
    /// Makes everything on a machine take `factor` times as long.
    moment& slow(node_name n, std::int64_t factor, duration length = {});
    /// Cuts the link between two machines, one direction of it, or all links of one machine.
    moment& partition(node_name a, node_name b, duration length = {});
    moment& partition_one_way(node_name from, node_name to, duration length = {});
    moment& isolate(node_name n, duration length = {});
    /// Ends partitions, stalls and delays between two machines, or between all.
    moment& heal(node_name a, node_name b);
    moment& heal_all();
    /// Ends all connections between two machines, what is under way included; `flags`: see
    /// `reset_flag`.
    moment& reset(node_name a, node_name b, std::int64_t flags = reset_all);
    /// Lets nothing move from `from` to `to` for `length`; unlike in a partition all arrives after
    /// it.
    moment& stall(node_name from, node_name to, duration length);
    /// Makes everything from `from` to `to` take `extra` longer.
    moment& delay(node_name from, node_name to, duration extra, duration length = {});
    /// Moves a machine's wall time by `ms`, or lets its clocks run `ppm` fast.
    moment& clock_offset(node_name n, std::int64_t ms);
    moment& clock_drift(node_name n, std::int64_t ppm);
    /// Hits the next `count` operations of a machine's disk; `each`: duration of a slow one.
    moment& storage(action_kind kind, node_name n, std::int64_t count = 1, duration each = {});
    /// Plans any action.
    moment& act(action what);
    /// Calls `f` at that time, on the world's thread.
    moment& call(std::function<void()> f);

  private:
    friend class world;
    moment(world& w, duration at) : world_{&w}, at_{at} {}
    world* world_;
    duration at_;
  };
  /// The moment `since_start` after the start of the run, for actions.
  moment at(duration since_start) { return moment{*this, since_start}; }
  void plan(duration since_start, const action& what);
  void call_at(duration since_start, std::function<void()> f);
  /// Plans an action at the `nth` hit of `mark` on that machine, from 1, counted over its
  /// instances. From inside a handler or a thread: a crash holds from that very point on.
  void at_mark(std::string mark, node_name where, std::uint64_t nth, action what);
  /// Carries out an action now, from a planned call or an observer's `on_event`. False when it had
  /// no effect.
  bool act(const action& what);

  // -- the run --

  /// Runs until every process has ended, something is violated, or a limit is reached. Once.
  report run();
  /// Breaks a rule: the run ends after this step.
  void fail(std::string rule, std::string text);

  // -- looking in --

  /// Virtual time since the start of the run.
  duration now() const;
  /// Whether a process runs on the machine.
  bool is_up(node_name n) const;
  bool is_paused(node_name n) const;
  bool has_machine(node_name n) const;
  std::vector<node_name> machines() const;
  /// A machine's disk: its faults and its content.
  sim_disk& disk(node_name n);
  /// The GPUs of the process that runs there, for faults (`fake_backend::plant`, `lose`); null when
  /// none runs or it has not asked for a device yet. A process that follows has new ones.
  fake_backend* gpus(node_name n);
  std::uint64_t seed() const;
  /// The picks so far, with `record_picks`.
  const std::vector<std::uint32_t>& picks() const;
  /// Whether a coordinator's program is still to return.
  bool program_over() const;

  struct core;

private:
  std::unique_ptr<core> core_;
};

} // namespace troupe::sim
