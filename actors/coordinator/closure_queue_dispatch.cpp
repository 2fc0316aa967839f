#include <troupe/actors/coordinator/closure_queue.hpp>

#include <troupe/core/planted.hpp>

#include <algorithm>
#include <utility>

// The coordinator actor's side of the queue, and the places that a closure goes through.

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

// -- places --------------------------------------------------------------------------------------

/// To the line it belongs to, or aside while a value that it takes has not arrived.
void closure_queue::admit(queued_closure_ptr c, after_unlock& then) {
  if (!c->inputs.empty()) {
    const remote_state* broken = nullptr;
    const bool complete = watch_inputs(c, broken);
    if (broken) {
      end_when_confirmed(std::move(c), remote_status::failed, input_failure(*broken), then);
      return;
    }
    if (!complete) {
      c->place = closure_place::aside;
      aside_.emplace(c->id.seq, std::move(c));
      return;
    }
  }
  make_takeable(std::move(c), then);
}

/// Whether all inputs are there; names the first that will never be. Registers `c` with what is
/// missing.
bool closure_queue::watch_inputs(const queued_closure_ptr& c, const remote_state*& broken) {
  bool complete = true;
  for (const auto& input : c->inputs) {
    const remote_status status = input->status.load();
    if (status == remote_status::failed || status == remote_status::cancelled) {
      broken = input.get();
      return false;
    }
    if (status == remote_status::ready)
      continue;
    complete = false;
    // Several entries for one pair do no harm: each makes `feed` look again.
    auto& takers = takers_[input.get()];
    if (takers.empty() || takers.back() != c)
      takers.push_back(c);
  }
  return complete;
}

void closure_queue::feed(const remote_state& input, after_unlock& then) {
  const auto found = takers_.find(&input);
  const remote_status status = input.status.load();
  if (found == takers_.end() || status == remote_status::not_ready
      || status == remote_status::aborted)
    return;
  const auto takers = std::move(found->second);
  takers_.erase(found);
  for (const auto& c : takers)
    if (c->place == closure_place::aside) {
      // From scratch: another input may have been aborted since.
      aside_.erase(c->id.seq);
      admit(c, then);
    }
}

/// A list and no recursion: a chain of a thousand inputs is a legal program.
void closure_queue::feed_arrived(after_unlock& then) {
  for (std::size_t i = 0; i < then.arrived.size(); ++i) {
    const std::shared_ptr<remote_state> input = then.arrived[i];
    feed(*input, then);
  }
  then.arrived.clear();
}

void closure_queue::make_takeable(queued_closure_ptr c, after_unlock& then) {
  const bool was_empty = lanes_.size() + lanes_.tagged_size() == 0;
  lanes_.insert(std::move(c));
  if (!signalled_ && (hungry_ || was_empty)) {
    signalled_ = true;
    hungry_ = false;
    then.work = true;
  }
}

void closure_queue::hand_out(queued_closure_ptr c, std::uint32_t worker,
                             std::vector<closure_ptr>& to) {
  c->attempt = next(c->attempt);
  c->worker = worker;
  highest_ = std::max(highest_, c->id.seq);
  trace(env_, "queue.dispatched",
        {{"term", term_}, {"closure", c->id.seq}, {"attempt", c->attempt}, {"worker", c->worker}});
  to.push_back(c);
  enter_flight(std::move(c));
}

void closure_queue::enter_flight(queued_closure_ptr c) {
  c->place = closure_place::in_flight;
  c->slot = static_cast<std::uint32_t>(flying_.size());
  if (!c->tagged)
    ++in_flight_;
  flying_.push_back(std::move(c));
}

queued_closure_ptr closure_queue::leave_flight(const closure_ptr& c) {
  TROUPE_ASSERT(c, "PS-C8 only a closure can end or come back");
  const auto& q = static_cast<const queued_closure&>(*c);
  TROUPE_ASSERT(q.place == closure_place::in_flight,
                "PS-C8 a closure that ends or comes back is in flight");
  const std::size_t slot = q.slot;
  TROUPE_ASSERT(slot < flying_.size() && flying_[slot].get() == &q,
                "INV-Q1 a closure in flight has its slot");
  queued_closure_ptr out = std::move(flying_[slot]);
  if (slot + 1 < flying_.size()) {
    flying_[slot] = std::move(flying_.back());
    flying_[slot]->slot = static_cast<std::uint32_t>(slot);
  }
  flying_.pop_back();
  if (!out->tagged)
    --in_flight_;
  if (std::exchange(out->alone, false))
    alone_.erase(out->worker);
  return out;
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
  // During a raise the takers are cancelled with everything else.
  if (!takers_.empty() && !raising_)
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

// -- taking --------------------------------------------------------------------------------------

std::vector<closure_ptr> closure_queue::take(std::uint32_t worker, std::size_t n,
                                             bool worker_idle) {
  std::vector<closure_ptr> out;
  std::lock_guard lock{mutex_};
  signalled_ = false;
  out.reserve(std::min(n, lanes_.size() + lanes_.tagged_size()));
  const bool open = !stopped_ && (alone_.empty() || !alone_.contains(worker));
  while (open && out.size() < n) {
    const queued_closure* head = lanes_.peek(worker, raising_);
    if (!head)
      break;
    const bool alone = runs_alone(*head);
    if (alone && (!worker_idle || !out.empty()))
      break; // it waits for its turn here and nothing overtakes it, else it might never run
    hand_out(lanes_.pop(worker, raising_), worker, out);
    if (alone) {
      flying_.back()->alone = true;
      alone_[worker] = flying_.back()->id.seq;
      break;
    }
  }
  if (out.size() < n)
    hungry_ = true;
  if (!out.empty())
    wake_waiters();
  return out;
}

// -- ends ----------------------------------------------------------------------------------------

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
    feed_arrived(then);
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
  feed_arrived(then);
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
    ++c->strikes;
    c->took.push_back({.worker = from.worker, .how = from.how});
    trace(env_, "queue.struck",
          {{"term", term_},
           {"closure", c->id.seq},
           {"attempt", c->attempt},
           {"worker", from.worker.index},
           {"strikes", c->strikes}});
  }
  if (error_ && !c->tagged) {
    mark(env_, "queue.put_back_cancelled");
    auto why = cancellation(*c, "another closure failed");
    end_when_confirmed(std::move(c), remote_status::cancelled, std::move(why), then);
    return false;
  }
  const std::uint32_t limit = strikes_max(*c);
  if (limit > 0 && c->strikes >= limit) {
    auto why = poison(*c);
    end_when_confirmed(std::move(c), remote_status::failed, std::move(why), then);
    return false;
  }
  if (!c->tagged)
    ++counts_.put_back;
  if (joiners_ > 0)
    mark(env_, "queue.put_back_while_joining");
  trace(env_, "queue.put_back",
        {{"term", term_}, {"closure", c->id.seq}, {"reason", reason}, {"strikes", c->strikes}});
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

// -- resources, workers --------------------------------------------------------------------------

std::shared_ptr<remote_state> closure_queue::put_tagged(closure c, std::uint32_t worker) {
  TROUPE_ASSERT(c.inputs.empty(), "a closure that builds a resource takes no values");
  if (!c.result)
    c.result = std::make_shared<remote_state>();
  c.options.priority = std::clamp(c.options.priority, priority_min, priority_max);
  auto entry = std::make_shared<queued_closure>(std::move(c));
  entry->tagged = true;
  entry->worker = worker;
  std::shared_ptr<remote_state> value = entry->result;
  after_unlock then;
  unique_lock lock{mutex_};
  entry->id = {term_, next_seq_++};
  if (value->id.seq == 0) // a rebuilt one keeps its id: others may be reading it
    value->id = entry->id;
  if (stopped_)
    cancel(*entry, stopped_failure().text.c_str(), then);
  else
    make_takeable(std::move(entry), then);
  run(lock, then);
  return value;
}

std::vector<closure_ptr> closure_queue::drop_tagged(std::uint32_t worker) {
  std::lock_guard lock{mutex_};
  auto dropped = lanes_.move_tagged(worker);
  for (const auto& c : dropped)
    c->place = closure_place::outside;
  return {dropped.begin(), dropped.end()};
}

void closure_queue::input_changed(const remote_state& input) {
  after_unlock then;
  unique_lock lock{mutex_};
  if (stopped_ || raising_)
    return;
  feed(input, then);
  feed_arrived(then);
  wake_waiters();
  run(lock, then);
}

void closure_queue::set_live_workers(std::size_t n) {
  std::lock_guard lock{mutex_};
  if ((n == 0) == (live_workers_ == 0)) {
    live_workers_ = n;
    return;
  }
  live_workers_ = n;
  no_worker_deadline_ =
    n > 0 ? never : after(env_.clock.now(), std::chrono::milliseconds{options_.no_worker_ms_max});
  // Sleepers chose their deadline under the old state.
  ended_->notify_all();
  space_->notify_all();
}

// -- for the settle lists ------------------------------------------------------------------------

bool closure_queue::in_flight(const closure& c) const {
  std::lock_guard lock{mutex_};
  return static_cast<const queued_closure&>(c).place == closure_place::in_flight;
}

bool closure_queue::in_flight(const closure_id& id) const {
  std::lock_guard lock{mutex_};
  return std::any_of(flying_.begin(), flying_.end(),
                     [&](const queued_closure_ptr& c) { return c->id == id; });
}

std::optional<int> closure_queue::top_priority(std::uint32_t worker) const {
  std::lock_guard lock{mutex_};
  return lanes_.top_priority(worker);
}

std::uint64_t closure_queue::cancel_generation() const {
  std::lock_guard lock{mutex_};
  return generation_;
}

settle_list closure_queue::settled() const {
  settle_list list{.term = term_};
  std::lock_guard lock{mutex_};
  list.highest = highest_;
  list.open.reserve(flying_.size());
  for (const auto& c : flying_)
    list.open.push_back(c->id.seq);
  if (!planted(planted_bug::pruned_early))
    lanes_.list_up_to(highest_, list.open);
  for (auto it = aside_.begin(); it != aside_.end() && it->first <= highest_; ++it)
    list.open.push_back(it->first);
  std::sort(list.open.begin(), list.open.end());
  return list;
}

std::uint64_t closure_queue::highest_dispatched() const {
  std::lock_guard lock{mutex_};
  return highest_;
}

std::vector<std::uint64_t> closure_queue::unsettled() const { return settled().open; }

} // namespace troupe
