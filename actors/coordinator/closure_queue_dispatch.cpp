// The coordinator's side: which closures may be taken, what is taken, what is in flight.
#include <troupe/actors/coordinator/closure_queue.hpp>

#include <troupe/core/planted.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

// -- places --------------------------------------------------------------------------------------

/// To the queue it belongs to, or among the blocked while a value that it takes has not arrived.
void closure_queue::admit(queued_closure_ptr c, after_unlock& then) {
  const auto seen = blocked_.add(c);
  if (seen.what == blocked_closures::inputs::broken)
    end_when_confirmed(std::move(c), remote_status::failed, input_failure(*seen.broken), then);
  else if (seen.what == blocked_closures::inputs::complete)
    make_takeable(std::move(c), then);
}

void closure_queue::on_ready(const remote_state& input, after_unlock& then) {
  for (auto& c : blocked_.on_ready(input))
    admit(std::move(c), then);
}

/// A list and no recursion: a chain of a thousand inputs is a legal program.
void closure_queue::on_arrived(after_unlock& then) {
  for (std::size_t i = 0; i < then.arrived.size(); ++i) {
    const std::shared_ptr<remote_state> input = then.arrived[i];
    on_ready(*input, then);
  }
  then.arrived.clear();
}

void closure_queue::make_takeable(queued_closure_ptr c, after_unlock& then) {
  const bool was_empty = queues_.size() + queues_.tagged_size() == 0;
  queues_.insert(std::move(c));
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

// -- taking --------------------------------------------------------------------------------------

std::vector<closure_ptr> closure_queue::take(std::uint32_t worker, std::size_t n,
                                             bool worker_idle) {
  std::vector<closure_ptr> out;
  std::lock_guard lock{mutex_};
  signalled_ = false;
  out.reserve(std::min(n, queues_.size() + queues_.tagged_size()));
  const bool open = !stopped_ && (alone_.empty() || !alone_.contains(worker));
  while (open && out.size() < n) {
    const queued_closure* head = queues_.peek(worker, raising_);
    if (!head)
      break;
    const bool alone = runs_alone(*head);
    if (alone && (!worker_idle || !out.empty()))
      break; // it waits for its turn here and nothing overtakes it, else it might never run
    hand_out(queues_.pop(worker, raising_), worker, out);
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
  auto dropped = queues_.move_tagged(worker);
  for (const auto& c : dropped)
    c->place = closure_place::outside;
  return {dropped.begin(), dropped.end()};
}

void closure_queue::input_changed(const remote_state& input) {
  after_unlock then;
  unique_lock lock{mutex_};
  if (stopped_ || raising_)
    return;
  on_ready(input, then);
  on_arrived(then);
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

// -- for the completion watermarks ----------------------------------------------------------------

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
  return queues_.top_priority(worker);
}

std::uint64_t closure_queue::cancel_generation() const {
  std::lock_guard lock{mutex_};
  return generation_;
}

completion_watermark closure_queue::settled() const {
  completion_watermark list{.term = term_};
  std::lock_guard lock{mutex_};
  list.highest = highest_;
  list.open.reserve(flying_.size());
  for (const auto& c : flying_)
    list.open.push_back(c->id.seq);
  if (!planted(planted_bug::pruned_early))
    queues_.list_up_to(highest_, list.open);
  blocked_.list_up_to(highest_, list.open);
  std::sort(list.open.begin(), list.open.end());
  return list;
}

std::uint64_t closure_queue::highest_dispatched() const {
  std::lock_guard lock{mutex_};
  return highest_;
}

std::vector<std::uint64_t> closure_queue::unsettled() const { return settled().open; }

} // namespace troupe
