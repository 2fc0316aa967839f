// Saves: the cluster falls quiet, the servers take a snapshot, work goes on.
#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/messages/closures.hpp>
#include <troupe/messages/snapshots.hpp>
#include <troupe/messages/tick.hpp>

#include <utility>

namespace troupe {

void coordinator_state::take_snapshot(std::shared_ptr<promise_slot<snapshot_id>> done) {
  if (snapshot_done_ && snapshot_done_->given_up()) { // nobody waits for that one any more
    mark(env_, "coordinator.abandoned_cut_dropped");
    snapshot_over(make_failure(errc::cancelled, "save: the caller stopped waiting"));
  }
  if (snapshot_done_)
    return done->set(
      make_failure(errc::wrong_state, "save: another save is still taking its snapshot"));
  if (!queue())
    return done->set(make_failure(errc::wrong_state, "save: the coordinator has not started"));
  if (servers_.size() < options_.servers)
    return done->set(make_failure(errc::unavailable, "save: only " + std::to_string(servers_.size())
                                                       + " of " + std::to_string(options_.servers)
                                                       + " servers are members"));
  snapshot_done_ = std::move(done);
  barrier_.begin(env_.clock.now());
  set_quiesce_timer(options_.quiesce_ms_max);
  for (const auto& [index, w] : core_.workers())
    if (w.flights.size() > w.threads) {
      auto count = static_cast<std::uint32_t>(w.flights.size() - w.threads);
      core_.recall_sent(index, count);
      tell(self_, links_.at(index).handle,
           recall_closures{.header = header_for(w.inc), .count = count});
    }
  check_quiet();
}

/// Ends the snapshot once something that it waits for shows no progress any more.
void coordinator_state::watch_quiesce() {
  std::vector<running_closure> running;
  for (const auto& [index, w] : core_.workers())
    for (const auto& f : w.flights) {
      running.push_back({.seq = f.what->id.seq,
                         .worker = index,
                         .silent_ms = {},
                         .median_ms = times_.median_ns(f.what->function) / 1'000'000});
      for (const auto& thread : links_.at(index).threads)
        if (thread.closure == f.what->id)
          running.back().silent_ms = thread.silent_ms;
    }
  const auto seen = barrier_.look(env_.clock.now(), running);
  if (seen.overdue.empty() && seen.look_again_ms > 0)
    return set_quiesce_timer(seen.look_again_ms);
  snapshot_over(barrier_.no_progress(seen.overdue, settlement_.held()));
  dispatch();
}

void coordinator_state::set_quiesce_timer(std::uint64_t ms) {
  tell_after(self_, self_handle<coordinator_actor>(self_), std::chrono::milliseconds{ms},
             tick{.what = quiesce_timer, .number = barrier_.timer()});
}

/// Called whenever something ended: goes on with a snapshot once nothing runs, and notices the end
/// of a cancel.
void coordinator_state::check_quiet() {
  if (!queue())
    return;
  if (cancelling_ && core_.in_flight() == 0 && settlement_.held() == 0)
    cancelling_ = false;
  switch (barrier_.next_step(core_.in_flight(), settlement_.held())) {
    case snapshot_barrier::step::wait: return;
    case snapshot_barrier::step::run_partial:
      mark(env_, "coordinator.cut_waits_for_partial");
      return dispatch();
    case snapshot_barrier::step::take: return ask_for_snapshot();
  }
}

void coordinator_state::ask_for_snapshot() {
  std::set<std::uint32_t> asked;
  for (const auto& [index, s] : servers_)
    asked.insert(index);
  const auto snapshot = barrier_.take(election_.term(), std::move(asked));
  set_quiesce_timer(options_.quiesce_ms_max);
  for (auto& [index, s] : servers_)
    ask(
      self_, s.handle, request_timeout(),
      troupe::take_cut{.header = header_for(s.who.inc), .snapshot = snapshot},
      [this, snapshot, index = index](done_answer& answer) {
        snapshot_answered(snapshot, index,
                          answer.why.code == errc::none ? std::optional<failure>{}
                                                        : std::optional{std::move(answer.why)});
      },
      [this, snapshot, index = index](const std::string& why) {
        snapshot_answered(snapshot, index,
                          make_failure(errc::unavailable, "save: ps:" + std::to_string(index)
                                                            + " does not answer: " + why));
      });
}

/// `why`: it did not take that snapshot.
void coordinator_state::snapshot_answered(snapshot_id snapshot, std::uint32_t server,
                                          std::optional<failure> why) {
  switch (barrier_.answered(snapshot, server, !why)) {
    case snapshot_barrier::answer::late:
      mark(env_, "coordinator.late_cut_dropped");
      if (!why) // it was dropped before that server had it
        drop_snapshot(snapshot);
      return;
    case snapshot_barrier::answer::more: break;
    case snapshot_barrier::answer::complete: snapshot_over(snapshot); break;
    case snapshot_barrier::answer::failed: snapshot_over(std::move(*why)); break;
  }
  dispatch();
}

/// Ends the save that takes a snapshot, and the quiet with it.
/// @pre there is one.
void coordinator_state::snapshot_over(result<snapshot_id> how) {
  auto done = std::exchange(snapshot_done_, {});
  const auto asked = barrier_.end();
  const bool failed = !how;
  const bool wanted = done->try_set(std::move(how));
  if (asked && (failed || !wanted)) // nobody else would let it go
    drop_snapshot(*asked);
}

void coordinator_state::drop_snapshot(snapshot_id snapshot) {
  for (auto& [index, s] : servers_)
    ask(
      self_, s.handle, request_timeout(),
      troupe::drop_cut{.header = header_for(s.who.inc), .snapshot = snapshot}, [](done_answer&) {},
      [](const std::string&) {});
}

} // namespace troupe
