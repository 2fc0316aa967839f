// The coordinator's way of a closure: out to a worker, its end, what the servers must hear of it,
// cuts.
#include <algorithm>
#include <new>

#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/core/planted.hpp>

namespace troupe {

namespace {
/// Of the 64 KiB of a message, for orders; the rest is header and a margin.
constexpr std::size_t batch_bytes_max = message_bytes_max - 8 * 1024;
} // namespace

// --- out
// --------------------------------------------------------------------------------------------------------

void coordinator_state::dispatch() {
  if (!queue() || ending_)
    return;
  ask_to_confirm();
  if (barrier_.holds_back())
    return;
  bool more = true;
  while (more) { // rounds of the least loaded first, so that a short queue is spread and a long one
                 // fills everybody
    more = false;
    for (auto index : core_.by_load()) {
      auto room = core_.room(index, last_function_, times_);
      if (room == 0)
        continue;
      auto queued = queue()->levels().queued;
      auto share =
        std::max<std::size_t>(1, std::min(room, queued / std::max<std::size_t>(core_.live(), 1)));
      if (!core_.worth_sending(index, share, room))
        continue;
      auto batch = queue()->take(index, share, core_.workers().at(index).flights.empty());
      if (batch.empty())
        continue;
      more |= batch.size() < room;
      last_function_ = batch.back()->function;
      send_to(index, std::move(batch));
    }
  }
  recall_low();
  maybe_recall();
}

void coordinator_state::send_to(std::uint32_t index, std::vector<closure_ptr> batch) {
  auto& link = links_.at(index);
  auto now = env_.clock.now();
  run_closures msg{.header = header_for(core_.workers().at(index).inc), .orders = {}};
  std::size_t bytes = 0;
  for (auto& c : batch) {
    closure_order order;
    try {
      order = order_of(*c, link.local);
    } catch (const std::bad_alloc&) {
      mark(env_, "coordinator.out_of_memory");
      queue()->mark_failed(c, make_failure(errc::out_of_memory,
                                           "the coordinator is out of memory for the arguments of "
                                           "closure "
                                             + std::to_string(c->id.seq)));
      shared_->board.publish();
      continue;
    }
    order.announce = // within one process nobody dies alone
      !link.local && announces(*c, times_.median_ns(c->function), queue()->strikes_max(*c));
    core_.sent(index, {.what = c, .attempt = c->attempt, .sent = now, .announced = order.announce});
    bytes += order.arguments.size() + 64;
    if (bytes > batch_bytes_max && !msg.orders.empty()) {
      auto header = header_for(core_.workers().at(index).inc);
      tell(self_, link.handle, std::exchange(msg, run_closures{.header = header, .orders = {}}));
      bytes = order.arguments.size() + 64;
    }
    msg.orders.push_back(std::move(order));
  }
  if (!msg.orders.empty())
    tell(self_, link.handle, std::move(msg));
}

closure_order coordinator_state::order_of(const closure& c, bool local) {
  closure_order order{.id = c.id,
                      .attempt = c.attempt,
                      .function = c.function,
                      .wants_result = c.result.use_count() > 1,
                      .deadline_ms = static_cast<std::uint64_t>(to_ms(c.options.deadline))};
  payload bound;
  const payload* arguments = c.arguments.get();
  if (!c.inputs.empty()) { // remote values that have arrived stand behind the closure's own
                           // arguments, one by one
    bound = bind_inputs(c);
    arguments = &bound;
  }
  if (local) {
    order.handed.value =
      c.inputs.empty() ? c.arguments : std::make_shared<const payload>(std::move(bound));
    return order;
  }
  auto flat = flatten(*arguments);
  if (flat.size() <= inline_bytes_max) {
    order.arguments = std::move(flat);
    return order;
  }
  order.blob_bytes = flat.size();
  blob_key key{.closure = c.id, .attempt = {}, .role = blob_role::argument};
  if (auto ok = shared_->blobs->put(key, std::move(flat)); !ok)
    trace(env_, "coordinator.blob_refused",
          {{"closure", c.id.seq}, {"why", ok.error().text}}); // the worker will say so
  return order;
}

/// Makes way for a higher priority, and takes work away from lanes that are stuck.
void coordinator_state::recall_low() {
  for (const auto& [index, w] : core_.workers())
    if (auto plan = core_.plan_recall_for(index, queue()->top_priority(index)))
      send_recall(*plan);
}

void coordinator_state::send_recall(const dispatch_core::recall& plan) {
  core_.recall_sent(plan.worker, plan.count);
  mark(env_, "coordinator.recalled");
  tell(self_, links_.at(plan.worker).handle,
       recall_closures{.header = header_for(core_.workers().at(plan.worker).inc),
                       .count = plan.count});
}

void coordinator_state::maybe_recall() {
  if (!queue() || core_.live() < 2 || core_.in_flight() == 0)
    return;
  if (queue()->levels().queued > 0)
    return;
  auto wait = std::chrono::milliseconds{options_.recall_ms};
  if (auto plan = core_.plan_recall(env_.clock.now(), wait)) {
    send_recall(*plan);
  }
  if (!recall_timer_set_) {
    recall_timer_set_ = true;
    tell_after(self_, self_handle<coordinator_actor>(self_),
               std::chrono::milliseconds{options_.recall_ms * 5}, tick{.what = recall_timer});
  }
}

// --- back
// -------------------------------------------------------------------------------------------------------

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
    send_settle_list();
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

// --- settling
// ---------------------------------------------------------------------------------------------------

/// `ask_to_confirm` follows.
void coordinator_state::confirm_later(closure_end end) {
  mark(env_, end.why.code == errc::poisoned ? "coordinator.poison_isolated"
                                            : "coordinator.end_confirmed_later");
  settlement_.hold(std::move(end));
}

/// Of all ends that are new here, also those that the queue decided.
void coordinator_state::ask_to_confirm() {
  for (auto& end : queue()->take_unconfirmed())
    confirm_later(std::move(end));
  if (settlement_.list_wanted())
    send_settle_list();
}

void coordinator_state::send_settle_list() {
  auto list = queue()->settled();
  const auto list_no = settlement_.next_list(list);
  for (auto& [index, s] : servers_)
    tell(self_, s.handle,
         settle_closures{.header = header_for(s.who.inc),
                         .list_no = list_no,
                         .highest = list.highest,
                         .unsettled = list.open});
  confirm_settled();
}

void coordinator_state::on_settled(closures_settled& msg) {
  auto at = servers_.find(msg.header.from.index);
  if (at == servers_.end() || at->second.who.inc != msg.header.sender)
    return;
  settlement_.acknowledged(msg.header.from.index, msg.list_no);
  confirm_settled();
}

void coordinator_state::confirm_settled() {
  if (settlement_.held() == 0)
    return;
  for (auto& end : settlement_.take_confirmed()) {
    queue()->mark_ended({&end, 1});
    forget_blobs(*end.which);
  }
  shared_->board.publish();
  check_quiet();
}

// --- cuts
// -------------------------------------------------------------------------------------------------------

void coordinator_state::take_cut(std::shared_ptr<promise_slot<cut_id>> done) {
  if (cut_done_ && cut_done_->given_up()) { // nobody waits for that one any more
    mark(env_, "coordinator.abandoned_cut_dropped");
    cut_over(make_failure(errc::cancelled, "save: the caller stopped waiting"));
  }
  if (cut_done_)
    return done->set(
      make_failure(errc::wrong_state, "save: another save is still taking its snapshot"));
  if (!queue())
    return done->set(make_failure(errc::wrong_state, "save: the coordinator has not started"));
  if (servers_.size() < options_.servers)
    return done->set(make_failure(errc::unavailable, "save: only " + std::to_string(servers_.size())
                                                       + " of " + std::to_string(options_.servers)
                                                       + " servers are members"));
  cut_done_ = std::move(done);
  barrier_.begin(env_.clock.now());
  set_quiesce_timer(options_.quiesce_ms_max);
  for (const auto& [index, w] : core_.workers())
    if (w.flights.size() > w.lanes) {
      auto count = static_cast<std::uint32_t>(w.flights.size() - w.lanes);
      core_.recall_sent(index, count);
      tell(self_, links_.at(index).handle,
           recall_closures{.header = header_for(w.inc), .count = count});
    }
  check_quiet();
}

/// Ends the cut once something that it waits for shows no progress any more.
void coordinator_state::watch_quiesce() {
  std::vector<running_closure> running;
  for (const auto& [index, w] : core_.workers())
    for (const auto& f : w.flights) {
      running.push_back({.seq = f.what->id.seq,
                         .worker = index,
                         .silent_ms = {},
                         .median_ms = times_.median_ns(f.what->function) / 1'000'000});
      for (const auto& lane : links_.at(index).lanes)
        if (lane.closure == f.what->id)
          running.back().silent_ms = lane.silent_ms;
    }
  const auto seen = barrier_.look(env_.clock.now(), running);
  if (seen.overdue.empty() && seen.look_again_ms > 0)
    return set_quiesce_timer(seen.look_again_ms);
  cut_over(barrier_.no_progress(seen.overdue, settlement_.held()));
  dispatch();
}

void coordinator_state::set_quiesce_timer(std::uint64_t ms) {
  tell_after(self_, self_handle<coordinator_actor>(self_), std::chrono::milliseconds{ms},
             tick{.what = quiesce_timer, .number = barrier_.timer()});
}

/// Called whenever something ended: goes on with a cut once nothing runs, and notices the end of a
/// cancel.
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
    case snapshot_barrier::step::take: return ask_for_cut();
  }
}

void coordinator_state::ask_for_cut() {
  std::set<std::uint32_t> asked;
  for (const auto& [index, s] : servers_)
    asked.insert(index);
  const auto cut = barrier_.take(election_.term(), std::move(asked));
  set_quiesce_timer(options_.quiesce_ms_max);
  for (auto& [index, s] : servers_)
    ask(
      self_, s.handle, request_timeout(),
      troupe::take_cut{.header = header_for(s.who.inc), .cut = cut},
      [this, cut, index = index](done_answer& answer) {
        cut_answered(cut, index,
                     answer.why.code == errc::none ? std::optional<failure>{}
                                                   : std::optional{std::move(answer.why)});
      },
      [this, cut, index = index](const std::string& why) {
        cut_answered(cut, index,
                     make_failure(errc::unavailable, "save: ps:" + std::to_string(index)
                                                       + " does not answer: " + why));
      });
}

/// `why`: it did not take that cut.
void coordinator_state::cut_answered(cut_id cut, std::uint32_t server, std::optional<failure> why) {
  switch (barrier_.answered(cut, server, !why)) {
    case snapshot_barrier::answer::late:
      mark(env_, "coordinator.late_cut_dropped");
      if (!why) // it was dropped before that server had it
        drop_cut(cut);
      return;
    case snapshot_barrier::answer::more: break;
    case snapshot_barrier::answer::complete: cut_over(cut); break;
    case snapshot_barrier::answer::failed: cut_over(std::move(*why)); break;
  }
  dispatch();
}

/// Ends the save that takes a cut, and the quiet with it.
/// @pre there is one.
void coordinator_state::cut_over(result<cut_id> how) {
  auto done = std::exchange(cut_done_, {});
  const auto asked = barrier_.end();
  const bool failed = !how;
  const bool wanted = done->try_set(std::move(how));
  if (asked && (failed || !wanted)) // nobody else would let it go
    drop_cut(*asked);
}

void coordinator_state::drop_cut(cut_id cut) {
  for (auto& [index, s] : servers_)
    ask(
      self_, s.handle, request_timeout(),
      troupe::drop_cut{.header = header_for(s.who.inc), .cut = cut}, [](done_answer&) {},
      [](const std::string&) {});
}

void coordinator_state::on_tick(tick& msg) {
  switch (msg.what) {
    case settle_timer:
      if (settlement_.timer_ended() && queue())
        send_settle_list();
      break;
    case last_words_timer:
      if (auto index = losing_.timed_out(msg.number)) {
        mark(env_, "coordinator.last_words_missing");
        last_words_came(*index);
      }
      break;
    case recall_timer:
      recall_timer_set_ = false;
      maybe_recall();
      break;
    case quiesce_timer:
      if (!barrier_.is_current(msg.number))
        break;
      if (!barrier_.taking()) {
        watch_quiesce();
        break;
      }
      cut_over(barrier_.no_answer());
      dispatch();
      break;
    default: break;
  }
}

} // namespace troupe
