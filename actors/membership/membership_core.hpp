#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <troupe/actors/membership/phi_accrual.hpp>
#include <troupe/core/time.hpp>
#include <troupe/messages/membership.hpp>

/// The membership of the cluster: the author of the views and the judge of silence
/// (`docs/protocol.md`). No CAF calls, no clock: every input carries the time, every output is an
/// action for the membership actor.
namespace troupe {

struct membership_options {
  std::string cluster = "troupe";
  std::uint16_t version = protocol_version;
  term_no term{};
  /// Tasks that the cluster specification has.
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
  /// Workers beyond `workers` may join at run time, up to this index; 0: none may.
  std::uint32_t worker_index_max = 0;
  /// The table that a member's table must equal: `function_table::hash()` and `lines()`.
  std::uint64_t functions_hash = 0;
  std::vector<function_line> functions{};
  /// Whether a hello proves that it knows the shared token; null when there is none.
  std::function<bool(const hello&)> token_holds{};
  /// How long the holder of a task has to show itself when another process wants the task.
  std::int64_t probe_ms = 1000;
  /// How often `tick` will come; what is beyond counts as the judge's own lateness.
  std::int64_t tick_ms = 100;
  phi_options detector{};
};

/// Number of a hello that waits for its answer, given by the actor.
enum class hello_no : std::uint64_t {};

/// Actions for the actor, in this order.
namespace membership_action {

/// Answer the hello with this incarnation and the current view.
struct welcome {
  hello_no to{};
  task_id task{};
  incarnation inc{};
};
/// Answer the hello with a failure.
struct refuse {
  hello_no to{};
  failure why{};
};
/// Ask the member for a sign of life.
struct probe {
  task_id task{};
  incarnation inc{};
};
/// Tell that incarnation, should it live, that it is fenced and has to rejoin with a new nonce.
struct fence {
  task_id task{};
  incarnation inc{};
};
struct joined {
  member who{};
};
/// A member has gone and its incarnation is fenced. `clean`: of its own will.
struct lost {
  member who{};
  std::string reason{};
  bool clean = false;
};
/// `current()` changed; comes once, after all that changed it.
struct new_view {};

} // namespace membership_action

using any_membership_action =
  std::variant<membership_action::welcome, membership_action::refuse, membership_action::probe,
               membership_action::fence, membership_action::joined, membership_action::lost,
               membership_action::new_view>;
using membership_actions = std::vector<any_membership_action>;

/// State of a member, for status pages and for the report of a start that takes too long.
struct member_status {
  task_id task{};
  incarnation inc{}; ///< counter 0: never seen
  bool live = false;
  double phi = 0.0;
  std::int64_t silent_ms = 0;
};

/// Admits members, notices silence and fences. One thread (the membership actor's).
///
/// Invariants: at most one incarnation of a task is in the view; counters of a task and the epoch
/// only grow, the counter by one with each admission; what is fenced is never in a view again; a
/// member whose heartbeats come at most the detector's floor less a tick apart is never fenced for
/// silence, also when the judge sleeps; a silent one is fenced within its detector's patience, plus
/// a tick, plus the judge's own lateness.
///
/// Taken task: the holder is probed at once and again after half of `probe_ms`. A heartbeat after
/// the second probe proves it alive and the newcomer gets `task_taken` (one on its way from a
/// process that just died proves nothing). Otherwise, at the end or when its socket is lost, the
/// holder is fenced and the newcomer admitted.
class membership_core {
public:
  membership_core(membership_options options, time_point now);

  /// Takes a hello. Refusals: `wrong_peer` (version, cluster, token, functions: names the first
  /// that differs), `bad_config` (a task that this cluster has no place for), `task_taken`,
  /// `fenced` (the nonce of a fenced incarnation: rejoin with another), `try_again` (another
  /// newcomer is being decided on). The same nonce again gives the same incarnation.
  membership_actions on_hello(const hello& msg, hello_no request, time_point now);
  /// The asker of a hello that was not answered yet has gone.
  membership_actions on_hello_gone(hello_no request, time_point now);
  /// Takes a heartbeat, or any other message that a member must be alive for. From anything but the
  /// live incarnation: `fence`.
  membership_actions on_heartbeat(const task_id& task, const incarnation& from, time_point now);
  membership_actions on_lost_socket(const task_id& task, const incarnation& of, time_point now);
  membership_actions on_left(const task_id& task, const incarnation& who, time_point now);
  membership_actions on_launcher_says_dead(const task_id& task, time_point now);
  /// The coordinator gives that incarnation up.
  membership_actions on_fence(const task_id& task, const incarnation& who, std::string reason,
                              time_point now);
  membership_actions on_tick(time_point now);

  const view& current() const { return view_; }
  bool is_live(const task_id& task, const incarnation& who) const;
  /// The address at which the task's live actor is published; empty when it isn't live or is in
  /// this process.
  std::string control_address(const task_id& task) const;
  /// Tasks of the specification, and others that were ever there, in order.
  std::vector<member_status> statuses(time_point now) const;
  std::size_t live_count(job_kind job) const;

private:
  struct newcomer {
    hello msg{};
    hello_no request{};
    time_point second_probe{};
    time_point decision{};
    bool probed_twice = false;
  };
  struct seat {
    bool live = false;
    incarnation inc{}; ///< the last one given
    std::uint32_t fenced_counter = 0;
    std::deque<std::uint64_t> fenced_nonces{};
    std::string data_address{};
    std::string control_address{};
    phi_accrual detector{};
    std::optional<newcomer> waiting{};
  };
  failure check(const hello& msg) const;
  failure check_token(const hello& msg) const;
  failure check_functions(const hello& msg) const;
  failure check_task(const task_id& task) const;
  void notice_lateness(time_point now);
  void admit(const hello& msg, hello_no request, time_point now, membership_actions& to);
  void contest(seat& holder, const hello& msg, hello_no request, time_point now,
               membership_actions& to);
  void remove(const task_id& task, seat& s, std::string reason, bool clean, time_point now,
              membership_actions& to);
  void decide(const task_id& task, seat& s, time_point now, membership_actions& to);
  member member_of(const task_id& task, const seat& s) const;
  seat* live_seat(const task_id& task, const incarnation& who);
  void publish(membership_actions& to);

  membership_options options_;
  std::map<task_id, seat> seats_{};
  view view_{};
  bool changed_ = false;
  time_point due_; ///< of the next tick
};

} // namespace troupe
