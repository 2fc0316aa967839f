// Ends of closures, and closures that come back from an attempt without one.
#include <troupe/actors/coordinator/closure_queue.hpp>

#include <troupe/core/planted.hpp>

#include <utility>

namespace troupe {

failure input_failure(const remote_state& input) {
  if (input.why.code == errc::input_failed)
    return input.why;
  failure why = make_failure(errc::input_failed,
                             "input closure " + std::to_string(value_of(input.id.term)) + ":"
                               + std::to_string(input.id.seq) + " failed: " + to_string(input.why));
  why.where = input.why.where;
  return why;
}

void closure_queue::end(queued_closure& c, remote_status status, payload&& value, failure&& why,
                        after_unlock& then) {
  c.place = closure_place::ended;
  trace(env_, "queue.ended",
        {{"term", term_},
         {"closure", c.id.seq},
         {"attempt", c.attempt},
         {"status", status},
         {"tagged", c.tagged},
         {"code", why.code},
         {"why", why.text}});
  if (!c.tagged)
    ++(status == remote_status::ready    ? counts_.finished
       : status == remote_status::failed ? counts_.failed
                                         : counts_.cancelled);
  if (status == remote_status::ready) {
    board_.set_ready(*c.result, std::move(value));
  } else {
    if (status == remote_status::failed)
      record(why, !c.tagged);
    board_.set_ended(*c.result, status, std::move(why));
  }
  then.publish = true;
  // During a raise what takes it is cancelled with everything else.
  if (blocked_.has_dependents() && !raising_)
    then.arrived.push_back(c.result);
}

/// What the queue itself decides to end. @pre `c` is in no place. An end that the user may not hear
/// of yet waits, in flight, for the coordinator.
void closure_queue::end_when_confirmed(queued_closure_ptr c, remote_status status, failure&& why,
                                       after_unlock& then) {
  if (!c->unacknowledged || planted(planted_bug::cancel_unconfirmed))
    return end(*c, status, {}, std::move(why), then);
  mark(env_, "queue.end_waits_for_servers");
  unconfirmed_.push_back({.which = c, .status = status, .why = std::move(why)});
  any_unconfirmed_ = true;
  enter_flight(std::move(c));
  then.work = true;
}

std::vector<closure_end> closure_queue::take_unconfirmed() {
  if (!any_unconfirmed_.load())
    return {};
  std::lock_guard lock{mutex_};
  any_unconfirmed_ = false;
  return std::exchange(unconfirmed_, {});
}

failure closure_queue::cancellation(const closure& c, const char* because) const {
  return make_failure(errc::cancelled, describe(c) + " was cancelled: " + because
                                         + (stopped_ ? "" : "; schedule it again"));
}

void closure_queue::cancel(queued_closure& c, const char* because, after_unlock& then) {
  end(c, remote_status::cancelled, {}, cancellation(c, because), then);
}

/// The first of a batch is kept apart, to be raised.
void closure_queue::record(const failure& why, bool of_batch) {
  ++error_count_;
  errors_.push_back(why);
  if (errors_.size() > options_.errors_len_max)
    errors_.pop_front();
  if (of_batch && (!error_ || planted(planted_bug::last_error_raised)))
    error_ = why;
}

// -- the coordinator's reports --------------------------------------------------------------------

void closure_queue::mark_finished(const closure_ptr& c, payload value) {
  closure_end end{.which = c, .status = remote_status::ready, .value = std::move(value)};
  mark_ended({&end, 1});
}

void closure_queue::mark_failed(const closure_ptr& c, failure why) {
  closure_end end{.which = c, .status = remote_status::failed, .why = std::move(why)};
  mark_ended({&end, 1});
}

void closure_queue::mark_cancelled(const closure_ptr& c, failure why) {
  closure_end end{.which = c, .status = remote_status::cancelled, .why = std::move(why)};
  mark_ended({&end, 1});
}

void closure_queue::mark_ended(std::span<closure_end> ends) {
  after_unlock then;
  unique_lock lock{mutex_};
  if (stopped_)
    return;
  bool came_back = false;
  for (closure_end& one : ends) {
    const queued_closure_ptr c = leave_flight(one.which);
    came_back |= c->unacknowledged && one.status != remote_status::ready;
    const bool cancelled = one.status == remote_status::failed && one.why.code == errc::cancelled;
    end(*c, cancelled ? remote_status::cancelled : one.status, std::move(one.value),
        std::move(one.why), then);
    on_arrived(then);
  }
  if (!(came_back && planted(planted_bug::lost_wake_up)))
    wake_waiters();
  run(lock, then);
}

bool closure_queue::put_back(const closure_ptr& c, put_back_reason reason, attempt_loss from) {
  after_unlock then;
  unique_lock lock{mutex_};
  if (stopped_)
    return false;
  const bool again = return_one(c, reason, from, then);
  on_arrived(then);
  if (!planted(planted_bug::lost_wake_up))
    wake_waiters();
  run(lock, then);
  return again;
}

void closure_queue::put_back(std::span<const closure_ptr> cs, put_back_reason reason,
                             attempt_loss from) {
  for (const closure_ptr& c : cs)
    put_back(c, reason, from);
}

/// False when it will not run again.
bool closure_queue::return_one(const closure_ptr& given, put_back_reason reason,
                               const attempt_loss& from, after_unlock& then) {
  queued_closure_ptr c = leave_flight(given);
  c->doubted |= from.doubted;
  c->unacknowledged |= from.unacknowledged && !planted(planted_bug::earlier_attempt_forgotten);
  if (reason == put_back_reason::worker_lost_running) {
    ++c->failed_attempts;
    c->took.push_back({.worker = from.worker, .how = from.how});
    trace(env_, "queue.struck",
          {{"term", term_},
           {"closure", c->id.seq},
           {"attempt", c->attempt},
           {"worker", from.worker.index},
           {"strikes", c->failed_attempts}});
  }
  if (error_ && !c->tagged) {
    mark(env_, "queue.put_back_cancelled");
    auto why = cancellation(*c, "another closure failed");
    end_when_confirmed(std::move(c), remote_status::cancelled, std::move(why), then);
    return false;
  }
  const std::uint32_t limit = failed_attempts_max(*c);
  if (limit > 0 && c->failed_attempts >= limit) {
    auto why = poison(*c);
    end_when_confirmed(std::move(c), remote_status::failed, std::move(why), then);
    return false;
  }
  if (!c->tagged)
    ++counts_.put_back;
  if (joiners_ > 0)
    mark(env_, "queue.put_back_while_joining");
  trace(
    env_, "queue.put_back",
    {{"term", term_}, {"closure", c->id.seq}, {"reason", reason}, {"strikes", c->failed_attempts}});
  admit(std::move(c), then);
  return true;
}

failure closure_queue::poison(const closure& c) const {
  std::string workers;
  for (const auto& [worker, how] : c.took)
    workers +=
      (workers.empty() ? "" : ", ") + to_string(worker) + (how.empty() ? "" : " (" + how + ")");
  return make_failure(errc::poisoned, describe(c) + " lost " + std::to_string(c.took.size())
                                        + " workers while it ran: " + workers);
}

} // namespace troupe
