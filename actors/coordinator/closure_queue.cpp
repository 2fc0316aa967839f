#include <troupe/actors/coordinator/closure_queue.hpp>

#include <troupe/core/planted.hpp>

#include <algorithm>
#include <utility>

// The side of user threads: `put`, `wait`, `done`, what is raised there and when it stops.

namespace troupe {

closure_queue::closure_queue(const environment& env, completion_board& board, term_no term,
                             closure_queue_options options, closure_queue_hooks hooks)
  : env_{env},
    board_{board},
    term_{term},
    options_{options},
    hooks_{std::move(hooks)},
    space_{env.waits.make_point()},
    ended_{env.waits.make_point()} {
  no_worker_deadline_ =
    after(env_.clock.now(), std::chrono::milliseconds{options_.no_worker_ms_max});
}

closure_queue::~closure_queue() {
  after_unlock then;
  std::lock_guard lock{mutex_};
  if (!stopped_)
    end_everything(then);
  if (then.publish)
    board_.publish();
}

// -- waits ---------------------------------------------------------------------------------------

/// Waits for `pred`, which must hold once the queue has stopped.
template <class Pred>
result<void> closure_queue::await(unique_lock& lock, wait_point& at, std::size_t& waiting,
                                  time_point deadline, const char* call, Pred pred) {
  result<void> outcome;
  ++waiting;
  while (!pred()) {
    if (at.wait_until(lock, std::min(deadline, no_worker_deadline_)) || pred())
      continue;
    const time_point now = env_.clock.now();
    if (now >= no_worker_deadline_) {
      outcome = no_worker_failure_locked();
      break;
    }
    if (now >= deadline) {
      const auto tied = queues_.tied_text();
      outcome = make_failure(errc::deadline, std::string{call} + ": deadline exceeded with "
                                               + std::to_string(queued()) + " closures queued"
                                               + (tied.empty() ? "" : " (" + tied + ")") + " and "
                                               + std::to_string(in_flight_) + " in flight");
      break;
    }
  }
  --waiting;
  return outcome;
}

bool closure_queue::may_put() const {
  bool room = queued() < options_.queue_len_max || planted(planted_bug::queue_unbounded);
  return room && joiners_ == 0 && !raising_;
}

/// After every change, with the lock held.
void closure_queue::wake_waiters() {
  if (watchers_ > 0 && (in_flight_ == 0 || error_ || stopped_))
    ended_->notify_all();
  if (putters_ > 0 && (stopped_ || (error_ && !raiser_) || may_put()))
    space_->notify_all();
}

/// Unlocks and does what must not be done under the lock.
void closure_queue::run(unique_lock& lock, after_unlock& then) {
  TROUPE_ASSERT(then.arrived.empty(), "INV-Q1 every arrived input was fed");
  lock.unlock();
  if (then.publish)
    board_.publish();
  if (then.cancel && hooks_.on_cancel)
    hooks_.on_cancel(*then.cancel);
  if (then.work && hooks_.on_work)
    hooks_.on_work();
}

// -- put, wait, done -----------------------------------------------------------------------------

result<std::shared_ptr<remote_state>> closure_queue::put(closure c, time_point deadline) {
  if (!c.result)
    c.result = std::make_shared<remote_state>();
  auto entry = std::make_shared<queued_closure>(std::move(c));
  std::shared_ptr<remote_state> value = entry->result;
  const int priority = entry->options.priority;
  after_unlock then;
  unique_lock lock{mutex_};
  result<void> room =
    priority < priority_min || priority > priority_max
      ? make_failure(errc::invalid_argument,
                     "closure_options.priority: " + std::to_string(priority) + " is not in [-3, 3]")
      : wait_for_room(lock, deadline, then);
  if (room) {
    entry->id = {term_, next_seq_++};
    value->id = entry->id;
    ++counts_.scheduled;
    trace(
      env_, "queue.accepted",
      {{"term", term_}, {"closure", entry->id.seq}, {"priority", priority}, {"queued", queued()}});
    admit(std::move(entry), then);
    on_arrived(then);
  } else {
    board_.set_ended(
      *value, remote_status::cancelled,
      make_failure(errc::cancelled, describe(*entry) + " was cancelled before it was"
                                      + " queued, schedule it again: " + to_string(room.error())));
    then.publish = true;
  }
  wake_waiters();
  run(lock, then);
  if (!room)
    return std::move(room.error());
  return value;
}

result<void> closure_queue::wait_for_room(unique_lock& lock, time_point deadline,
                                          after_unlock& then) {
  if (!stopped_ && !error_ && may_put())
    return {};
  auto ready = [this] { return stopped_ || (error_ && !raiser_) || may_put(); };
  if (auto ok = await(lock, *space_, putters_, deadline, "schedule", ready); !ok)
    return ok;
  if (stopped_)
    return stopped_failure();
  if (error_ && !raiser_)
    return raise(lock, deadline, then);
  return {};
}

result<void> closure_queue::wait(time_point deadline) {
  after_unlock then;
  unique_lock lock{mutex_};
  auto ready = [this] { return stopped_ || (!raiser_ && (error_ || all_ended())); };
  result<void> outcome;
  const std::uint64_t upto = next_seq_ - 1;
  trace(env_, "queue.join_begun", {{"term", term_}, {"upto", upto}});
  if (!ready()) {
    ++joiners_;
    outcome = await(lock, *ended_, watchers_, deadline, "join", ready);
    --joiners_;
    if (error_)
      mark(env_, "queue.join_met_failure");
  }
  if (outcome && stopped_)
    outcome = stopped_failure();
  else if (outcome && error_)
    outcome = raise(lock, deadline, then);
  trace(env_, "queue.join_ended",
        {{"term", term_}, {"upto", upto}, {"code", outcome ? errc::none : outcome.error().code}});
  wake_waiters();
  run(lock, then);
  return outcome;
}

result<bool> closure_queue::done(time_point deadline) {
  after_unlock then;
  unique_lock lock{mutex_};
  if (stopped_)
    return stopped_failure();
  if (!error_ || raiser_)
    return all_ended() && !raiser_;
  failure why = raise(lock, deadline, then);
  wake_waiters();
  run(lock, then);
  return why;
}

/// @pre an error is recorded and nobody else raises it. The failure that the caller returns.
failure closure_queue::raise(unique_lock& lock, time_point deadline, after_unlock& then) {
  raiser_ = true;
  if (!raising_) {
    raising_ = true;
    cancel_unacknowledged("another closure failed", then);
    trace(env_, "queue.raise_begun", {{"in_flight", in_flight_}, {"queued", queued()}});
    if (in_flight_ > 0 && hooks_.on_cancel) {
      const std::uint64_t generation = generation_;
      lock.unlock();
      hooks_.on_cancel(generation);
      lock.lock();
    }
  }
  auto ready = [this] { return stopped_ || in_flight_ == 0; };
  auto drained = await(lock, *ended_, watchers_, deadline, "the cancel after an error", ready);
  raiser_ = false;
  if (!drained)
    return std::move(drained.error());
  if (stopped_)
    return stopped_failure();
  cancel_queued("another closure failed", then);
  ++generation_;
  if (planted(planted_bug::ids_from_zero))
    next_seq_ = 1;
  raising_ = false;
  failure why = std::move(*error_);
  error_.reset();
  trace(env_, "queue.raised", {{"code", why.code}, {"generation", generation_}, {"why", why.text}});
  return why;
}

// -- stop ----------------------------------------------------------------------------------------

void closure_queue::stop(failure why) {
  after_unlock then;
  unique_lock lock{mutex_};
  if (stopped_)
    return;
  stopped_why_ = std::move(why);
  if (!flying_.empty())
    then.cancel = generation_;
  end_everything(then);
  wake_waiters();
  run(lock, then);
}

void closure_queue::end_everything(after_unlock& then) {
  stopped_ = true;
  trace(env_, "queue.stopped", {{"term", term_}, {"in_flight", in_flight_}, {"queued", queued()}});
  const auto why = stopped_failure().text;
  const char* because = why.c_str();
  cancel_queued(because, then);
  for (const auto& c : queues_.move_tagged())
    cancel(*c, because, then);
  auto flying = std::exchange(flying_, {});
  std::sort(flying.begin(), flying.end(),
            [](const auto& a, const auto& b) { return a->id < b->id; });
  in_flight_ = 0;
  alone_.clear();
  unconfirmed_.clear();
  for (const auto& c : flying)
    cancel(*c, because, then);
}

/// Takes all that wait, blocked or not, out first: a cancelled input must not fail what takes it,
/// that goes too.
void closure_queue::cancel_queued(const char* because, after_unlock& then) {
  auto all = queues_.move_all();
  blocked_.move_all(all);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  for (const auto& c : all)
    cancel(*c, because, then);
}

/// Those that nobody may hear of yet: in flight, so that the raise waits for the coordinator.
void closure_queue::cancel_unacknowledged(const char* because, after_unlock& then) {
  auto some = queues_.move_unacknowledged();
  blocked_.move_unacknowledged(some);
  for (auto& c : some) {
    auto why = cancellation(*c, because);
    end_when_confirmed(std::move(c), remote_status::cancelled, std::move(why), then);
  }
}

// -- what is -------------------------------------------------------------------------------------

void closure_queue::note_error(const failure& why) {
  std::lock_guard lock{mutex_};
  record(why, false);
}

std::vector<failure> closure_queue::errors() const {
  std::lock_guard lock{mutex_};
  return {errors_.begin(), errors_.end()};
}

std::uint64_t closure_queue::error_count() const {
  std::lock_guard lock{mutex_};
  return error_count_;
}

closure_counts closure_queue::counts() const {
  std::lock_guard lock{mutex_};
  return counts_;
}

closure_levels closure_queue::levels() const {
  std::lock_guard lock{mutex_};
  return {.queued = queued(),
          .waiting_for_inputs = blocked_.size(),
          .in_flight = in_flight_,
          .tagged_queued = queues_.tagged_size(),
          .tagged_in_flight = flying_.size() - in_flight_,
          .has_error = error_.has_value()};
}

time_point closure_queue::no_worker_deadline() const {
  std::lock_guard lock{mutex_};
  return no_worker_deadline_;
}

failure closure_queue::no_worker_failure() const {
  std::lock_guard lock{mutex_};
  return no_worker_failure_locked();
}

// -- failures ------------------------------------------------------------------------------------

failure closure_queue::stopped_failure() const {
  if (stopped_why_.code != errc::none)
    return stopped_why_;
  return make_failure(errc::unavailable,
                      "the cluster was shut down (by runtime::shutdown or the end of the runtime) "
                      "and accepts no more closures");
}

failure closure_queue::no_worker_failure_locked() const {
  return make_failure(
    errc::unavailable,
    "no live worker for no_worker_ms_max = " + std::to_string(options_.no_worker_ms_max)
      + " ms, with " + std::to_string(queued()) + " closures queued");
}

/// "closure 3:17 of train_step"; without the id before it has one.
std::string closure_queue::describe(const closure& c) const {
  std::string text = "closure";
  if (c.id.seq != 0)
    text += " " + std::to_string(value_of(c.id.term)) + ":" + std::to_string(c.id.seq);
  return text + " of "
         + (hooks_.name_of ? hooks_.name_of(c.function)
                           : "function " + std::to_string(value_of(c.function)));
}

} // namespace troupe
