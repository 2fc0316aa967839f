#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/time.hpp>

/// Agreement of a group of workers on the step at which all save, because one of them is about to
/// be taken away. Source: TensorFlow's PreemptionCheckpointHandler.
///
/// A round agrees on one step for all. The states of a worker in a round:
///
///     idle --own notice--> proposing --all acknowledged--> decided --step reached--> saved
///      |                       | hears of a proposer with a lower number        ^
///      +--hears a proposal-> following ----------hears the decision-------------+
///
/// A proposer holds between two calls and asks for its own counter + 1. A follower answers with the
/// first step at which it can still save and doesn't run past that, so the largest answer suits all
/// (invariant: every member saves the same step, once a round). As long as every call has a
/// collective, no peer is ahead of a proposer that holds, and the step is its counter + 1. Of
/// several proposers the lowest number goes on; it never answers another, so no other can decide.
namespace troupe {

/// How long a worker has from the notice, and how it leaves.
struct preemption_options {
  /// 0 or less: save and leave at once. More: save, train on, save again near the end, leave.
  duration grace{};
  int exit_code = 42;

  /// The settings for Google's compute engine: an hour, code 143.
  static preemption_options for_gce();
};

enum class preemption_message_kind : std::uint8_t {
  proposal = 0,        ///< `step`: where the sender asks to save
  acknowledgement = 1, ///< `step`: the first at which the sender can, not below the proposal's
  decision = 2,        ///< `step`: where all save
};

/// Between two members. Delivered once or more, in any order.
struct preemption_message {
  preemption_message_kind kind = preemption_message_kind::proposal;
  std::uint32_t round = 0; ///< 0: the first save; 1: the one before the grace ends
  std::uint32_t from = 0;
  std::uint64_t step = 0;
  friend bool operator==(const preemption_message&, const preemption_message&) = default;
};

struct preemption_outgoing {
  std::uint32_t to = 0;
  preemption_message message{};
};

enum class preemption_action : std::uint8_t {
  run = 0,  ///< run the next call, then `call_finished`
  hold = 1, ///< ask again after a message; `waiting_for` says whose
  save = 2, ///< save, then `saved`
};

/// A worker's part in the agreement. Plain: no clock, no thread, no I/O; the owner serialises all
/// calls and sends what `take_outgoing` gives. A member that is lost before a decision leaves the
/// others holding: the owner bounds a hold with a deadline and starts over with a new core for the
/// new group.
class preemption_core {
public:
  /// `worker`: own number below `num_workers`. `restored_calls`: the counter of the checkpoint that
  /// the program started from. Throws `invalid_argument`.
  preemption_core(preemption_options options, std::uint32_t worker, std::uint32_t num_workers,
                  std::uint64_t restored_calls = 0);

  /// Notes that this worker is to be taken away. False when ignored: later notices than the first
  /// one that this worker knows of, of whichever worker, are.
  bool on_notice(time_point now);

  /// `mismatch` names what in the message contradicts what was agreed; the message had no effect.
  result<void> on_message(const preemption_message& message);

  /// The next action of the owner. @pre no call is running, nothing is being saved, not `exits`.
  preemption_action before_call(time_point now);
  /// @pre `before_call` gave `run`.
  void call_finished(time_point now);
  /// @pre `before_call` gave `save`.
  void saved();
  /// The call or save that was begun failed: it does not count, and `before_call` stands again.
  void give_up() noexcept;

  /// The code to leave with, once all is saved; none before.
  std::optional<int> exits() const;

  /// Calls finished over all restarts.
  std::uint64_t total_run_calls() const noexcept { return calls_; }
  /// Mean length of this process's calls; 0 before the first ended.
  duration average_call() const;
  /// The time at which this worker asks for the second save: its notice + grace - 3 * 2 *
  /// `average_call`. None without a grace, or when no notice of its own counts.
  std::optional<time_point> second_save_at() const;
  /// The step at which all save in a round (0 or 1); none before that is agreed. Decisions may
  /// overtake each other, so the second can be known before the first.
  std::optional<std::uint64_t> agreed_step(std::uint32_t round) const;
  /// The workers that this worker waits for while it holds.
  std::vector<std::uint32_t> waiting_for() const;
  std::vector<preemption_outgoing> take_outgoing();
  /// "worker 1, 5 calls, running, noticed; round 0 follows 0 up to 6; round 1 idle": all that the
  /// next decision depends on but the times.
  std::string status() const;

private:
  enum class phase : std::uint8_t { idle, proposing, following, decided, saved };
  struct round_state {
    phase at = phase::idle;
    std::uint32_t leader = 0;         // proposing: this worker
    std::uint64_t step = 0;           // first possible so far; final once decided
    std::vector<bool> acknowledged{}; // proposing: by member
  };

  std::uint32_t rounds() const noexcept { return options_.grace > duration{} ? 2 : 1; }
  std::uint64_t first_step_left() const noexcept { return calls_ + (running_ ? 1 : 0); }
  bool is_time_to_propose(std::uint32_t round, time_point now) const;
  void propose(std::uint32_t round);
  void decide_if_all_acknowledged(std::uint32_t round);
  void follow(const preemption_message& proposal);
  result<void> on_proposal(const preemption_message& message);
  result<void> on_acknowledgement(const preemption_message& message);
  result<void> on_decision(const preemption_message& message);
  void send(std::uint32_t to, preemption_message_kind kind, std::uint32_t round);
  void send_all(preemption_message_kind kind, std::uint32_t round);
  std::string describe(std::uint32_t round) const;

  preemption_options options_;
  std::uint32_t worker_;
  std::uint32_t num_workers_;
  std::uint64_t calls_;
  std::array<round_state, 2> rounds_{};
  std::optional<time_point> noticed_{};
  bool running_ = false;
  std::optional<std::uint32_t> saving_{}; // round
  time_point call_began_{};
  duration calls_length_{};
  std::int64_t calls_here_ = 0;
  std::vector<preemption_outgoing> outgoing_{};
};

} // namespace troupe
