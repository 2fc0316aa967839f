// Attempts on their way back: what workers report, what a loss leaves, what runs again.
#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/core/planted.hpp>
#include <troupe/messages/closures.hpp>
#include <troupe/messages/program.hpp>
#include <troupe/messages/tick.hpp>

#include <algorithm>
#include <new>

namespace troupe {

void coordinator_state::on_report(worker_report& msg) {
  auto index = msg.header.from.index;
  if (msg.header.from.job != job_kind::worker || !core_.is_up(index, msg.header.sender)
      || !queue()) {
    mark(env_, "coordinator.stale_sender_refused");
    return;
  }
  std::vector<closure_end> ends;
  ends.reserve(msg.ended.size());
  std::optional<std::string> hung;
  for (auto& end : msg.ended) {
    if (end.outcome == attempt_outcome::given_up && !hung)
      hung = end.why.text;
    end_attempt(index, end, ends);
  }
  for (const auto& x : msg.begun)
    core_.begun(index, x.id, x.attempt);
  queue()->mark_ended(ends);
  for (auto& end : ends) // now, since none of theirs is taken any more
    forget_blobs(*end.which);
  shared_->board.publish();
  for (auto& made : msg.resources)
    if (made.why.code != errc::none) {
      trace(env_, "coordinator.resource_failed",
            {{"worker", index}, {"resource", made.id}, {"why", made.why.text}});
      queue()->note_error(made.why);
    }
  settlement_.note_ended(msg.ended.size());
  if (core_.list_is_due(settlement_.ends_since_list(), options_.settle_every))
    send_completion_watermark();
  else if (settlement_.start_timer())
    tell_after(self_, self_handle<coordinator_actor>(self_),
               std::chrono::milliseconds{options_.settle_ms}, tick{.what = settle_timer});
  if (hung && !links_.at(index).local)
    give_up_worker(index, *hung);
  ask_to_confirm();
  check_quiet();
  dispatch();
}

void coordinator_state::end_attempt(std::uint32_t index, attempt_ended& end,
                                    std::vector<closure_end>& ends) {
  if (end.outcome == attempt_outcome::recalled)
    core_.recall_answered(index, 1);
  if (end.id.seq == 0) // "nothing left to give back"
    return;
  auto flew = core_.ended(index, end.id, end.attempt);
  if (!flew)
    return mark(env_, "coordinator.stale_end_refused");
  auto& c = flew->what;
  if (end.outcome > attempt_outcome::given_up) { // a peer that says what nobody understands
    auto what = "attempt outcome " + std::to_string(static_cast<unsigned>(end.outcome));
    return fail_attempt(index, *flew, make_failure(errc::bad_frame, what), false, ends);
  }
  switch (end.outcome) {
    case attempt_outcome::finished: {
      failure why;
      auto value = result_of(end, why);
      if (!value) {
        mark(env_, "coordinator.result_missing");
        why.where.task = {.job = job_kind::worker, .index = index}; // to be run again
        return fail_attempt(index, *flew, std::move(why), true, ends);
      }
      times_.add(c->function, end.run_ns);
      ends.push_back(
        {.which = c, .status = remote_status::ready, .value = std::move(*value), .why = {}});
      return;
    }
    case attempt_outcome::failed:
      return fail_attempt(index, *flew, std::move(end.why), end.acknowledged, ends);
    case attempt_outcome::recalled:
      forget_blobs(*c); // put again when it is sent again
      (void)queue()->put_back(c, put_back_reason::recalled);
      return;
    case attempt_outcome::given_up: {
      mark(env_, "coordinator.hung_step_given_up");
      attempt_loss from{task_id{.job = job_kind::worker, .index = index}};
      from.how =
        c->options.deadline > duration{}
          ? "exceeded its deadline of " + std::to_string(to_ms(c->options.deadline)) + " ms"
          : std::string{"did not end after its cancellation"};
      return lost_flight(*flew, put_back_reason::worker_lost_running, std::move(from));
    }
  }
}

std::optional<payload> coordinator_state::result_of(attempt_ended& end, failure& why) {
  if (end.handed.value)
    return std::move(*end.handed.value);
  if (end.blob_bytes == 0 && end.result.empty())
    return payload{};
  std::shared_ptr<const std::string> blob;
  if (end.blob_bytes != 0) {
    blob =
      shared_->blobs->get({.closure = end.id, .attempt = end.attempt, .role = blob_role::result});
    if (!blob) {
      why = make_failure(errc::unavailable,
                         "the result of closure " + std::to_string(end.id.seq) + " did not arrive");
      return {};
    }
  }
  try {
    auto value = unflatten(blob ? std::string_view{*blob} : std::string_view{end.result});
    if (value)
      return std::move(*value);
    why = value.error();
  } catch (const std::bad_alloc&) {
    mark(env_, "coordinator.out_of_memory");
    why = make_failure(errc::out_of_memory,
                       "the coordinator is out of memory for the result of closure "
                         + std::to_string(end.id.seq) + ", " + std::to_string(end.blob_bytes)
                         + " bytes");
  }
  return {};
}

void coordinator_state::fail_attempt(std::uint32_t index, const flight& flew, failure why,
                                     bool acknowledged, std::vector<closure_end>& ends) {
  task_id worker{.job = job_kind::worker, .index = index};
  bool server_lost =
    why.where.task.job == job_kind::ps && catalogue_.lost_servers().contains(why.where.task.index);
  // Steps ask for variables that were made; the news of the loss may still be on its way here.
  if (why.where.task.job == job_kind::ps && why.code == errc::unknown_variable)
    why = came_back_empty(std::move(why));
  trace(env_, "coordinator.attempt_failed",
        {{"closure", flew.what->id.seq},
         {"worker", index},
         {"code", to_string(why.code)},
         {"from_job", why.where.task.job},
         {"from_task", why.where.task.index},
         {"why", why.text}});
  switch (classifier_.classify(why, worker, cancelling_, server_lost, env_.clock.now())) {
    case verdict::put_back: {
      attempt_loss from{worker};
      from.unacknowledged = !acknowledged;
      return put_back(flew, put_back_reason::transient, std::move(from));
    }
    case verdict::worker_lost: {
      const bool device = is_fault_of_the_device(why.code);
      attempt_loss from{worker};
      from.unacknowledged = !acknowledged;
      if (device)
        from.how = "its device failed: " + why.text;
      put_back(flew,
               device ? put_back_reason::worker_lost_running : put_back_reason::worker_lost_waiting,
               std::move(from));
      return give_up_worker(index, to_string(why));
    }
    case verdict::cancelled:
      if (why.code != errc::cancelled) { // the cancel kept it from another try: that is its end
        mark(env_, "coordinator.retry_cancelled");
        auto text =
          "closure " + std::to_string(flew.what->id.seq) + " was cancelled: " + to_string(why);
        auto where = std::move(why.where);
        why = make_failure(errc::cancelled, std::move(text));
        why.where = std::move(where);
      }
      [[fallthrough]];
    case verdict::fatal: {
      auto status = why.code == errc::cancelled ? remote_status::cancelled : remote_status::failed;
      closure_end end{.which = flew.what, .status = status, .value = {}, .why = std::move(why)};
      const bool all_known = acknowledged && !flew.what->unacknowledged; // of earlier attempts too
      if (all_known || planted(planted_bug::cancel_unconfirmed))
        ends.push_back(std::move(end));
      else // what was sent may still be applied: nobody hears of its end before no server can
        confirm_later(std::move(end));
      return;
    }
  }
}

/// Its attempt may have reached some servers, and may still have operations in their buffers.
void coordinator_state::lost_flight(const flight& what, put_back_reason reason, attempt_loss from) {
  forget_blobs(*what.what);
  if (barrier_.quiescing())
    mark(env_, "coordinator.worker_died_during_cut");
  from.unacknowledged = true;
  put_back(what, reason, std::move(from));
}

/// After an attempt that was lost: it runs again, if it may.
void coordinator_state::put_back(const flight& what, put_back_reason reason, attempt_loss from) {
  barrier_.note_partial(what.what);
  if (!queue()->put_back(what.what, reason, from))
    return;
  ++shared_->retried;
  if (reason == put_back_reason::worker_lost_running)
    say_failed_attempt(what, from);
}

/// At the first failed attempt, and then ever more rarely: a closure may be allowed any number.
void coordinator_state::say_failed_attempt(const flight& what, const attempt_loss& from) {
  const auto& c = *what.what;
  if (!options_.say || (c.failed_attempts & (c.failed_attempts - 1)) != 0)
    return;
  const auto limit = queue()->failed_attempts_max(c);
  const auto left = limit - std::min(limit, c.failed_attempts);
  auto line = queue()->describe(c) + ": attempt " + std::to_string(value_of(what.attempt)) + ", on "
              + to_string(from.worker) + ", was lost"
              + (from.how.empty() ? " with that worker (" + from.reason + ")" : ": " + from.how);
  line += limit == 0 ? "; it is retried without limit"
                     : "; it is retried, and fails as poisoned if this happens "
                         + std::to_string(left) + " more time" + (left == 1 ? "" : "s");
  options_.say(line);
}

void coordinator_state::on_cancel(const cancel_requested& msg) {
  if (!queue()
      || msg.generation != queue()->cancel_generation()) // the batch that it was for has ended
    return mark(env_, "coordinator.old_cancel_ignored");
  cancelling_ = queue()->levels().in_flight > 0;
  for (const auto& [index, w] : core_.workers()) {
    if (w.flights.empty())
      continue;
    cancel_closures msg{
      .header = header_for(w.inc), .ids = {}, .grace_ms = options_.cancel_grace_ms};
    for (const auto& f : w.flights)
      msg.ids.push_back(f.what->id);
    tell(self_, links_.at(index).handle, std::move(msg));
  }
  ask_to_confirm();
  check_quiet();
}

void coordinator_state::forget_blobs(const closure& c) {
  if (!shared_->blobs->empty())
    shared_->blobs->drop(c.id);
}

} // namespace troupe
