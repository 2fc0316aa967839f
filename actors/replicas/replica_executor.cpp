#include <troupe/actors/replicas/replica_executor.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include <troupe/actors/replicas/detail/replica_run.hpp>
#include <troupe/actors/support/detail/guarded_call.hpp>
#include <troupe/actors/support/detail/spin_lock_guard.hpp>

namespace troupe {

using detail::replica_place;
using detail::replica_run;

namespace {

/// What a run was asked with names the strategy, which owns the threads, which may keep the run: it
/// goes with the call, however that ends.
class asked_with {
public:
  asked_with(replica_run& run, std::mutex& mutex) : run_{run}, mutex_{mutex} {}
  ~asked_with() {
    std::function<void(std::uint32_t)> body; // goes when the lock is free again
    std::map<std::uint64_t, std::shared_ptr<merge_meeting>> merges;
    const std::lock_guard lock{mutex_};
    body.swap(run_.body);
    merges = run_.merges.take_all();
    run_.calls.forget_for_empty_replicas();
  }
  asked_with(const asked_with&) = delete;
  asked_with& operator=(const asked_with&) = delete;

private:
  replica_run& run_;
  std::mutex& mutex_;
};

} // namespace

replica_executor::replica_executor(const environment& env, replica_executor_options options)
  : env_{env},
    options_{std::move(options)},
    changed_{env.waits.make_point()},
    threads_{env.threads, options_.replicas, options_.threads_lost_max},
    slots_(options_.replicas) {}

replica_executor::~replica_executor() = default;

std::string replica_executor::name_of(std::uint32_t local) const {
  return "replica " + std::to_string(options_.first_id + local);
}

/// @pre the lock is held
void replica_executor::tell() {
  news_.fetch_add(1, std::memory_order_release);
  changed_->notify_all();
}

/// Stays awake until there is news, for a while: the pauses of a training loop are shorter than
/// what going to sleep and being woken costs, and a thread that stays awake stays on its core.
void replica_executor::look_for_news(std::uint64_t seen, time_point deadline) {
  auto now = env_.clock.now();
  if (!spin_.may_look(now))
    return;
  const auto until = std::min(deadline, after(now, options_.spin));
  bool looked = false;
  while (news_.load(std::memory_order_acquire) == seen && now < until) {
    env_.threads.yield();
    const auto before = std::exchange(now, env_.clock.now());
    if (!spin_.looked(now, now - before))
      return;
    looked = true;
  }
  if (looked) // news that were there already say nothing of the core
    spin_.went_well();
}

/// Waits for news. @pre the lock is held
void replica_executor::await_news(std::unique_lock<std::mutex>& lock, time_point deadline) {
  if (options_.spin > duration{}) {
    const auto seen = news_.load(std::memory_order_relaxed);
    lock.unlock();
    look_for_news(seen, deadline);
    lock.lock();
    if (news_.load(std::memory_order_relaxed) != seen)
      return;
  }
  (void)changed_->wait_until(lock, deadline);
}

/// @pre the lock is held
void replica_executor::start_thread(std::uint32_t local) {
  threads_.start(local, options_.name + "." + std::to_string(options_.first_id + local),
                 [self = shared_from_this()](const post& mine) { self->serve(mine); });
}

/// False: the system has none left. @pre the lock is held
bool replica_executor::try_start_thread(std::uint32_t local) {
  try {
    start_thread(local);
    return true;
  } catch (const std::exception& e) {
    trace(env_, "replica.no_lane", {{"replica", options_.first_id + local}, {"why", e.what()}});
    return false;
  }
}

void replica_executor::serve(const post& mine) {
  env_.threads.keep_to_part(mine.place, options_.replicas);
  std::unique_lock lock{mutex_};
  auto& queue = slots_[mine.place].queue;
  const auto take = [&] {
    std::shared_ptr<replica_run> out;
    if (!queue.empty()) {
      out = std::move(queue.front());
      queue.pop_front();
    }
    return out;
  };
  while (auto run = threads_.next_work(mine, take, [&] { await_news(lock, never); })) {
    lock.unlock();
    execute(run, mine);
    run = nullptr;
    lock.lock();
  }
}

void replica_executor::execute(const std::shared_ptr<replica_run>& run, const post& mine) {
  const auto local = mine.place;
  std::shared_ptr<replica_run> before;
  std::function<void(std::uint32_t)> body;
  {
    const detail::spin_lock_guard lock{mutex_};
    before = std::exchange(slots_[local].current, run);
    body = run->body; // a thread that is left behind may still be in it when the run is over
  }
  std::exception_ptr why;
  {
    replica_place own{run, mine};
    const context_local_scope here{own};
    if (!run->inside && options_.before)
      why = detail::guarded_call([&] { options_.before(local); });
    if (!why && all_ready(local, *run))
      why = detail::guarded_call([&] { body(local); });
    body = nullptr;
  }
  note_end(local, *run, std::move(why), std::move(before));
}

/// Waits until all threads have joined, so that no function fails while others still do. False: the
/// run failed meanwhile.
bool replica_executor::all_ready(std::uint32_t local, replica_run& run) {
  detail::spin_lock_guard held{mutex_};
  auto& lock = held.owner();
  if (run.ready < options_.replicas && ++run.ready == options_.replicas)
    tell();
  while (run.ready < options_.replicas && !run.aborted && !run.calls.ended(local))
    await_news(lock, never);
  return !run.aborted && !run.calls.ended(local);
}

void replica_executor::note_end(std::uint32_t local, replica_run& run, std::exception_ptr why,
                                std::shared_ptr<replica_run> around) {
  detail::spin_lock_guard held{mutex_};
  auto& lock = held.owner();
  if (slots_[local].current.get() == &run)
    slots_[local].current = std::move(around);
  if (run.calls.ended(local)) // it was given up
    return;
  auto differs = run.calls.end(local, !why && !run.aborted);
  if (why && (!run.aborted || !detail::is_consequence(why)))
    run.errors[local] = why;
  const bool wakes_others =
    run.calls.all_ended() || run.empty_replicas_waiting > 0; // else to nobody
  if (!run.aborted && why) {
    abort(run, detail::failure_of(why, name_of(local)), lock);
  } else if (!run.aborted && differs) {
    abort(run, std::move(*differs), lock);
  }
  if (!wakes_others)
    return;
  news_.fetch_add(1, std::memory_order_release);
  lock.unlock(); // who is woken takes it
  changed_->notify_all();
}

/// The first failure of a run. False: it is not the first. @pre the lock is held
bool replica_executor::note_failure(replica_run& run, failure why) {
  if (run.aborted)
    return false;
  run.aborted = std::move(why);
  run.hung.ask_to_end(env_.clock.now(), std::chrono::milliseconds{options_.grace_ms});
  tell();
  return true;
}

/// The others' calls end. @pre the lock is held
void replica_executor::interrupt_all(replica_run& run, std::unique_lock<std::mutex>& lock) {
  const auto why = *run.aborted;
  ++run.interrupting;
  lock.unlock();
  for (std::uint32_t i = 0; options_.interrupt && i < options_.replicas; ++i)
    options_.interrupt(i, why);
  lock.lock();
  --run.interrupting;
  tell();
}

void replica_executor::abort(replica_run& run, failure why, std::unique_lock<std::mutex>& lock) {
  if (note_failure(run, std::move(why)))
    interrupt_all(run, lock);
}

void replica_executor::run(std::function<void(std::uint32_t)> body,
                           const std::shared_ptr<replica_run>& inside) {
  auto run = std::make_shared<replica_run>(*this, options_.first_id, options_.replicas);
  run->body = std::move(body);
  if (inside && inside->of == this)
    run->inside = inside;
  const asked_with until_the_end{*run, mutex_};
  std::unique_lock lock{mutex_};
  if (!run->inside) { // one after the other: an epoch that one run breaks is not the next one's
    const auto ticket = tickets_++;
    while (serving_ != ticket)
      (void)changed_->wait_until(lock, never);
  }
  auto refused = failed_;
  if (threads_.closed() && !refused)
    refused =
      make_failure(errc::wrong_state, options_.name + ": run called after the strategy was closed");
  auto next_turn = [&] {
    if (run->inside)
      return;
    ++serving_;
    tell();
  };
  try {
    if (!refused)
      drive(run, lock);
  } catch (...) {
    // The system has no thread to replace one that was given up; the next run tries again.
    if (!lock.owns_lock())
      lock.lock();
    next_turn();
    throw;
  }
  next_turn();
  const auto aborted = run->aborted;
  lock.unlock();
  if (refused)
    throw_failure(*refused);
  if (run->merge_error)
    std::rethrow_exception(run->merge_error);
  for (auto& e : run->errors)
    if (e)
      std::rethrow_exception(e);
  if (aborted)
    throw_failure(*aborted);
}

/// Puts the run on all threads and sees it to its end. @pre the lock is held
void replica_executor::drive(const std::shared_ptr<replica_run>& run,
                             std::unique_lock<std::mutex>& lock) {
  if (!run->inside && options_.prepare && options_.prepare())
    run->ready = options_.replicas;
  for (std::uint32_t i = 0; i < options_.replicas; ++i) {
    if (!threads_.has_thread(i) && !try_start_thread(i)) {
      (void)run->calls.end(i, false);
      run->aborted =
        make_failure(errc::unavailable, options_.name + ": cannot create a thread for replica "
                                          + std::to_string(options_.first_id + i));
      continue;
    }
    slots_[i].queue.push_back(run);
  }
  tell();
  while (!run->calls.all_ended() || run->interrupting > 0 || run->owes_interrupt) {
    if (std::exchange(run->owes_interrupt, false))
      interrupt_all(*run, lock);
    else if (auto merge = ready_merge(*run))
      run_merge(run, *merge, lock);
    else if (run->hung.passed(env_.clock.now()))
      give_up(*run);
    else
      (void)changed_->wait_until(lock, run->hung.at());
  }
}

std::uint64_t replica_executor::generation(std::uint32_t local) const {
  return threads_.number(local);
}

std::optional<failure> replica_executor::why_not_in_place(std::uint32_t local) const {
  const auto* here = context_local<replica_place>();
  if (!here || here->run->of != this || here->thread.place != local
      || threads_.is_in_place(here->thread))
    return std::nullopt;
  return make_failure(errc::cancelled,
                      name_of(local) + " exceeded its grace period; its thread was replaced");
}

// --- when something is wrong

/// A replica's function does not end: its thread is left behind, and with it its part of the runs
/// around. @pre the lock is held
void replica_executor::give_up(replica_run& run) {
  run.hung = {};
  for (std::uint32_t i = 0; i < options_.replicas; ++i)
    if (!run.calls.ended(i))
      give_up_thread(i, run);
  for (auto* outer = run.inside.get(); outer; outer = outer->inside.get())
    if (!outer->aborted) { // who waits there was interrupted with the inner one
      outer->aborted = run.aborted;
      outer->hung.ask_to_end(env_.clock.now(), std::chrono::milliseconds{options_.grace_ms});
    }
  tell();
}

void replica_executor::give_up_thread(std::uint32_t local, replica_run& run) {
  for (auto* at = &run; at; at = at->inside.get())
    if (!at->calls.ended(local))
      (void)at->calls.end(local, false);
  threads_.give_up(local);
  slots_[local].current = nullptr;
  const auto lost = threads_.given_up();
  trace(env_, "replica.given_up", {{"replica", options_.first_id + local}, {"lost", lost}});
  mark(env_, "replica.given_up");
  if (options_.replaced) // the thread may still stand in the group
    options_.replaced(local);
  if (!threads_.may_replace())
    failed_ = make_failure(errc::unavailable, options_.name + ": " + std::to_string(lost)
                                                + " replicas hang in their functions");
  if (!slots_[local].queue.empty() && !failed_ && !threads_.closed())
    start_thread(local);
}

void replica_executor::fail(std::uint32_t local, failure why) {
  const std::lock_guard lock{mutex_};
  if (failed_)
    return;
  why.text = name_of(local) + ": " + why.text;
  failed_ = why;
  std::vector<std::shared_ptr<replica_run>> all{slots_[local].queue.begin(),
                                                slots_[local].queue.end()};
  for (auto run = slots_[local].current; run; run = run->inside)
    all.push_back(run);
  for (const auto& run : all) // an actor tells it, which must not wait for what the others wait for
    run->owes_interrupt = note_failure(*run, why) || run->owes_interrupt;
}

std::string replica_executor::status() const {
  std::lock_guard lock{mutex_};
  for (const auto& s : slots_)
    if (s.current)
      if (auto text = s.current->calls.waiting(); !text.empty())
        return text;
  return {};
}

std::uint32_t replica_executor::threads_lost() const {
  std::lock_guard lock{mutex_};
  return threads_.given_up();
}

bool replica_executor::close(time_point deadline) {
  std::unique_lock lock{mutex_};
  threads_.close();
  tell();
  return threads_.join(lock, env_.clock, deadline, [&] {
    const auto soon = after(env_.clock.now(), std::chrono::milliseconds{1});
    (void)changed_->wait_until(lock, std::min(deadline, soon));
  });
}

} // namespace troupe
