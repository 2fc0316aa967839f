#include <troupe/actors/replicas/replica_lanes.hpp>

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include <troupe/actors/support/detail/guarded_call.hpp>
#include <troupe/actors/support/detail/patient_lock.hpp>
#include <troupe/core/lane_context.hpp>
#include <troupe/core/thrown.hpp>

namespace troupe {

namespace detail {

/// One merge call of a run.
struct merge_point {
  merge_body body{}; ///< the first replica's
  merge_values arguments{};
  merge_values results{};
  std::uint32_t arrived = 0;
  std::uint32_t taken = 0;
  bool begun = false;
  bool done = false;
};

/// One run, shared by its caller and the lanes. Under the lanes' lock.
struct replica_run {
  replica_run(std::uint32_t first_id, std::uint32_t replicas) : calls{first_id, replicas} {}

  const replica_lanes* of = nullptr;
  std::function<void(std::uint32_t)> body{};
  std::shared_ptr<replica_run> inside{};
  lockstep calls;
  std::optional<failure> aborted{};
  bool calls_differ = false; ///< why it was aborted, whatever the code: all replicas are told
  time_point give_up_at = never;
  std::vector<std::exception_ptr> errors{}; ///< that replicas threw of themselves
  std::exception_ptr merge_error{};
  std::map<std::uint64_t, std::shared_ptr<merge_point>> merges{}; ///< by the calls' number
  std::uint32_t standing_in = 0; ///< replicas that wait for what the others call
  std::uint32_t ready = 0;       ///< lanes that have joined the group
  int interrupting = 0;          ///< who ends others' calls right now: the next run must not begin
  bool owes_interrupt = false;   ///< whoever asked for the run has to end them
};

} // namespace detail

using detail::merge_point;
using detail::replica_run;

namespace {

/// What a run was asked with names the strategy, which owns the lanes, which may keep the run: it
/// goes with the call, however that ends.
class asked_with {
public:
  asked_with(replica_run& run, std::mutex& mutex) : run_{run}, mutex_{mutex} {}
  ~asked_with() {
    std::function<void(std::uint32_t)> body; // goes when the lock is free again
    std::map<std::uint64_t, std::shared_ptr<merge_point>> merges;
    const std::lock_guard lock{mutex_};
    body.swap(run_.body);
    merges.swap(run_.merges);
    run_.calls.forget_for_silent();
  }
  asked_with(const asked_with&) = delete;
  asked_with& operator=(const asked_with&) = delete;

private:
  replica_run& run_;
  std::mutex& mutex_;
};

/// `who` threw it, "replica 3": for the others, who have to say whose it was.
failure failure_of(const std::exception_ptr& why, const std::string& who) {
  auto out = failure_in([&] { std::rethrow_exception(why); }).value_or(failure{});
  if (!out.text.starts_with("replica ")) // a collective call's failure names one already
    out.text = who + ": " + out.text;
  return out;
}

/// Whether a replica's exception only says that another one's was first.
bool is_consequence(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    return e.code() == errc::cancelled || e.code() == errc::revoked;
  } catch (...) {
    return false;
  }
}

/// Parts that do not fit together: each replica of a call finds that for itself, and says its own.
bool is_found_by_all(errc code) {
  return code == errc::shape_mismatch || code == errc::dtype_mismatch;
}

/// What calls of the other replicas fail with: what they did wrong together, or that they were
/// cancelled.
failure consequence(const std::string& call, const replica_run& run) {
  const auto& why = *run.aborted;
  if (run.calls_differ)
    return why;
  switch (why.code) {
    case errc::mismatch:
    case errc::deadline:
    case errc::peer_lost: return why;
    default: return make_failure(errc::cancelled, call + ": " + why.text);
  }
}

/// What a lane is at. Behind its own context, since in a simulation lanes share a thread.
struct lane_place {
  std::shared_ptr<replica_run> run{};
  std::uint64_t life = 0; ///< of the lane; see `slot`
};
lane_place* lane_here() { return static_cast<lane_place*>(current_context().replica); }
/// @pre on a lane, in a run
std::shared_ptr<replica_run> run_here() { return lane_here()->run; }

} // namespace

replica_lanes::replica_lanes(const environment& env, replica_lanes_options options)
  : env_{env},
    options_{std::move(options)},
    changed_{env.waits.make_point()},
    slots_(options_.replicas) {}

replica_lanes::~replica_lanes() {
  for (auto& s : slots_)
    if (s.thread) { // the last lane that was given up may be what ends us
      if (s.thread->ended())
        s.thread->join();
      else
        s.thread->abandon();
    }
}

std::string replica_lanes::name_of(std::uint32_t local) const {
  return "replica " + std::to_string(options_.first_id + local);
}

/// @pre the lock is held
void replica_lanes::tell() {
  news_.fetch_add(1, std::memory_order_release);
  changed_->notify_all();
}

/// Stays awake until there is news, for a while: the pauses of a training loop are shorter than
/// what going to sleep and being woken costs, and a lane that stays awake stays on its core.
void replica_lanes::look_for_news(std::uint64_t seen, time_point deadline) {
  auto now = env_.clock.now();
  if (!crowd_.may_look(now))
    return;
  const auto until = std::min(deadline, after(now, options_.spin));
  bool looked = false;
  while (news_.load(std::memory_order_acquire) == seen && now < until) {
    env_.lanes.yield();
    const auto before = std::exchange(now, env_.clock.now());
    if (!crowd_.looked(now, now - before))
      return;
    looked = true;
  }
  if (looked) // news that were there already say nothing of the core
    crowd_.went_well();
}

/// Waits for news. @pre the lock is held
void replica_lanes::await_news(std::unique_lock<std::mutex>& lock, time_point deadline) {
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
void replica_lanes::start_lane(std::uint32_t local) {
  auto& s = slots_[local];
  s.thread = env_.lanes.start(
    options_.name + "." + std::to_string(options_.first_id + local),
    [self = shared_from_this(), local, life = s.life.load()] { self->serve(local, life); });
}

/// False: the system has none left. @pre the lock is held
bool replica_lanes::try_start_lane(std::uint32_t local) {
  try {
    start_lane(local);
    return true;
  } catch (const std::exception& e) {
    trace(env_, "replica.no_lane", {{"replica", options_.first_id + local}, {"why", e.what()}});
    return false;
  }
}

void replica_lanes::serve(std::uint32_t local, std::uint64_t life) {
  env_.lanes.keep_to_part(local, options_.replicas);
  std::unique_lock lock{mutex_};
  for (;;) {
    auto& s = slots_[local];
    while (s.queue.empty() && !closed_ && s.life == life)
      await_news(lock, never);
    if (s.life != life || s.queue.empty())
      return;
    auto run = std::move(s.queue.front());
    s.queue.pop_front();
    lock.unlock();
    execute(local, run, life);
    run = nullptr;
    lock.lock();
  }
}

void replica_lanes::execute(std::uint32_t local, const std::shared_ptr<replica_run>& run,
                            std::uint64_t life) {
  std::shared_ptr<replica_run> before;
  std::function<void(std::uint32_t)> body;
  {
    const detail::patient_lock lock{mutex_};
    before = std::exchange(slots_[local].current, run);
    body = run->body; // a lane that is left behind may still be in it when the run is over
  }
  lane_place own{run, life};
  auto* outer = std::exchange(current_context().replica, &own);
  std::exception_ptr why;
  if (!run->inside && options_.before)
    why = detail::guarded_call([&] { options_.before(local); });
  if (!why && all_ready(local, *run))
    why = detail::guarded_call([&] { body(local); });
  body = nullptr;
  current_context().replica = outer;
  note_end(local, *run, std::move(why), std::move(before));
}

/// Waits until all lanes have joined, so that no function fails while others still do. False: the
/// run failed meanwhile.
bool replica_lanes::all_ready(std::uint32_t local, replica_run& run) {
  detail::patient_lock held{mutex_};
  auto& lock = held.owner();
  if (run.ready < options_.replicas && ++run.ready == options_.replicas)
    tell();
  while (run.ready < options_.replicas && !run.aborted && !run.calls.ended(local))
    await_news(lock, never);
  return !run.aborted && !run.calls.ended(local);
}

void replica_lanes::note_end(std::uint32_t local, replica_run& run, std::exception_ptr why,
                             std::shared_ptr<replica_run> around) {
  detail::patient_lock held{mutex_};
  auto& lock = held.owner();
  if (slots_[local].current.get() == &run)
    slots_[local].current = std::move(around);
  if (run.calls.ended(local)) // it was given up
    return;
  auto differs = run.calls.end(local, !why && !run.aborted);
  if (why && (!run.aborted || !is_consequence(why)))
    run.errors[local] = why;
  const bool is_news = run.calls.all_ended() || run.standing_in > 0; // else to nobody
  if (!run.aborted && why) {
    abort(run, failure_of(why, name_of(local)), lock);
  } else if (!run.aborted && differs) {
    abort(run, std::move(*differs), lock);
  }
  if (!is_news)
    return;
  news_.fetch_add(1, std::memory_order_release);
  lock.unlock(); // who is woken takes it
  changed_->notify_all();
}

/// The first failure of a run. False: it is not the first. @pre the lock is held
bool replica_lanes::note_failure(replica_run& run, failure why) {
  if (run.aborted)
    return false;
  run.aborted = std::move(why);
  run.give_up_at = after(env_.clock.now(), std::chrono::milliseconds{options_.grace_ms});
  tell();
  return true;
}

/// The others' calls end. @pre the lock is held
void replica_lanes::interrupt_all(replica_run& run, std::unique_lock<std::mutex>& lock) {
  const auto why = *run.aborted;
  ++run.interrupting;
  lock.unlock();
  for (std::uint32_t i = 0; options_.interrupt && i < options_.replicas; ++i)
    options_.interrupt(i, why);
  lock.lock();
  --run.interrupting;
  tell();
}

void replica_lanes::abort(replica_run& run, failure why, std::unique_lock<std::mutex>& lock) {
  if (note_failure(run, std::move(why)))
    interrupt_all(run, lock);
}

void replica_lanes::run(std::function<void(std::uint32_t)> body,
                        const std::shared_ptr<replica_run>& inside) {
  auto run = std::make_shared<replica_run>(options_.first_id, options_.replicas);
  run->of = this;
  run->body = std::move(body);
  if (inside && inside->of == this)
    run->inside = inside;
  run->errors.resize(options_.replicas);
  const asked_with until_the_end{*run, mutex_};
  std::unique_lock lock{mutex_};
  if (!run->inside) { // one after the other: an epoch that one run breaks is not the next one's
    const auto ticket = tickets_++;
    while (serving_ != ticket)
      (void)changed_->wait_until(lock, never);
  }
  auto refused = failed_;
  if (closed_ && !refused)
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
  } catch (...) { // no thread for a lane's successor; the next run tries again
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

/// Puts the run on all lanes and sees it to its end. @pre the lock is held
void replica_lanes::drive(const std::shared_ptr<replica_run>& run,
                          std::unique_lock<std::mutex>& lock) {
  if (!run->inside && options_.prepare && options_.prepare())
    run->ready = options_.replicas;
  for (std::uint32_t i = 0; i < options_.replicas; ++i) {
    if (!slots_[i].thread && !try_start_lane(i)) {
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
    else if (env_.clock.now() >= run->give_up_at)
      give_up(*run);
    else
      (void)changed_->wait_until(lock, run->give_up_at);
  }
}

// --- merge calls

std::shared_ptr<replica_run> replica_lanes::merging() {
  auto* run = static_cast<std::shared_ptr<replica_run>*>(current_context().merging);
  return run ? *run : nullptr;
}

/// The merge call that all replicas stand in and nobody has run. @pre the lock is held
std::shared_ptr<merge_point> replica_lanes::ready_merge(replica_run& run) {
  if (run.aborted || !run.calls.all_in_call())
    return nullptr;
  auto at = run.merges.find(run.calls.calls(0));
  const bool ready =
    at != run.merges.end() && !at->second->begun && at->second->arrived == options_.replicas;
  return ready ? at->second : nullptr;
}

void replica_lanes::run_merge(const std::shared_ptr<replica_run>& run, merge_point& at,
                              std::unique_lock<std::mutex>& lock) {
  at.begun = true;
  lock.unlock();
  merge_values results;
  auto own = run;
  auto* before = std::exchange(current_context().merging, &own);
  auto why = detail::guarded_call([&] { results = at.body(at.arguments); });
  current_context().merging = before;
  lock.lock();
  at.results = std::move(results);
  at.done = !why;
  tell();
  if (!why)
    return;
  if (!run->aborted || !is_consequence(why))
    run->merge_error = why;
  abort(*run, failure_of(why, "a merge function"), lock);
}

/// @pre the lock is held
std::shared_ptr<replica_run> replica_lanes::nested(slot& s, const replica_run& outer) {
  auto at = std::find_if(s.queue.begin(), s.queue.end(),
                         [&](const auto& r) { return r->inside.get() == &outer; });
  if (at == s.queue.end())
    return nullptr;
  auto out = std::move(*at);
  s.queue.erase(at);
  return out;
}

std::shared_ptr<void> replica_lanes::merge(std::uint32_t local, replica_call call,
                                           std::shared_ptr<void> arguments,
                                           const merge_body& merge) {
  begin_call(local, std::move(call));
  auto run = run_here();
  std::unique_lock lock{mutex_};
  auto& point = run->merges[run->calls.calls(local)];
  if (!point) { // the first who comes
    point = std::make_shared<merge_point>();
    point->arguments.resize(options_.replicas);
  }
  auto at = point;
  at->arguments[local] = std::move(arguments);
  if (local == 0)
    at->body = merge;
  ++at->arrived;
  tell();
  const auto deadline = after(env_.clock.now(), options_.call_timeout);
  while (!at->done && !run->aborted && !run->calls.ended(local)) {
    const bool waits_for_others = at->arrived < options_.replicas; // not for who asked for the run
    if (waits_for_others && env_.clock.now() >= deadline) {
      auto why = make_failure(errc::deadline, run->calls.waiting());
      abort(*run, why, lock);
      throw_failure(std::move(why));
    }
    if (auto inner = nested(slots_[local], *run)) {
      lock.unlock();
      execute(local, inner, lane_here()->life);
      inner = nullptr;
      lock.lock();
      continue;
    }
    await_news(lock, waits_for_others ? deadline : never);
  }
  if (!at->done)
    throw_failure(consequence("merge_call", *run));
  if (++at->taken == options_.replicas)
    run->merges.erase(run->calls.calls(local));
  run->calls.done(local);
  tell();
  return at->results.empty() ? nullptr : at->results[local];
}

// --- collective calls

void replica_lanes::begin_call(std::uint32_t local, replica_call call) {
  auto run = run_here();
  detail::patient_lock held{mutex_};
  auto& lock = held.owner();
  if (run->aborted)
    throw_failure(consequence(call.kind, *run));
  if (auto differs = run->calls.begin(local, std::move(call))) {
    run->calls_differ = run->calls_differ || !run->aborted;
    abort(*run, *differs, lock);
    throw_failure(std::move(*differs));
  }
  if (run->standing_in > 0)
    tell();
}

std::optional<replica_call> replica_lanes::await_call(std::uint32_t local,
                                                      const std::vector<bool>& silent) {
  auto run = run_here();
  std::unique_lock lock{mutex_};
  ++run->standing_in;
  auto others_run = [&] {
    for (std::uint32_t i = 0; i < options_.replicas; ++i)
      if (!silent[i] && !run->calls.ended(i))
        return true;
    return false;
  };
  while (!run->calls.next(local) && others_run() && !run->aborted && !run->calls.ended(local))
    await_news(lock, never);
  --run->standing_in;
  if (run->aborted)
    throw_failure(consequence("call", *run));
  const auto* next = run->calls.next(local);
  return next ? std::optional{*next} : std::nullopt;
}

void replica_lanes::end_call(std::uint32_t local) {
  auto run = run_here();
  const detail::patient_lock lock{mutex_};
  if (!run->calls.ended(local))
    run->calls.done(local);
}

std::uint64_t replica_lanes::life(std::uint32_t local) const { return slots_[local].life; }

std::optional<failure> replica_lanes::why_not_in_place(std::uint32_t local) const {
  const auto* here = lane_here();
  if (!here || here->run->of != this || here->life == life(local))
    return std::nullopt;
  return make_failure(errc::cancelled,
                      name_of(local) + " exceeded its grace period; its thread was replaced");
}

failure replica_lanes::call_failed(std::uint32_t local, failure why) {
  auto run = run_here();
  std::unique_lock lock{mutex_};
  if (run->aborted && !(why.code == run->aborted->code && is_found_by_all(why.code)))
    return consequence("call", *run);
  const auto call =
    run->calls.in_call(local) ? to_string(run->calls.current(local)) : std::string{"call"};
  const bool is_named =
    why.text.find(call) != std::string::npos; // by the group, which numbers them
  why.text = name_of(local) + ": " + (is_named ? "" : call + ": ") + why.text;
  abort(*run, why, lock);
  return why;
}

// --- when something is wrong

/// A replica's function does not end: its lane is left behind, and with it its part of the runs
/// around. @pre the lock is held
void replica_lanes::give_up(replica_run& run) {
  run.give_up_at = never;
  for (std::uint32_t i = 0; i < options_.replicas; ++i)
    if (!run.calls.ended(i))
      give_up_lane(i, run);
  for (auto* outer = run.inside.get(); outer; outer = outer->inside.get())
    if (!outer->aborted) { // who waits there was interrupted with the inner one
      outer->aborted = run.aborted;
      outer->give_up_at = after(env_.clock.now(), std::chrono::milliseconds{options_.grace_ms});
    }
  tell();
}

void replica_lanes::give_up_lane(std::uint32_t local, replica_run& run) {
  for (auto* at = &run; at; at = at->inside.get())
    if (!at->calls.ended(local))
      (void)at->calls.end(local, false);
  auto& s = slots_[local];
  if (s.thread)
    s.thread->abandon();
  s.thread = nullptr;
  s.current = nullptr;
  ++s.life;
  ++lost_;
  trace(env_, "replica.given_up", {{"replica", options_.first_id + local}, {"lost", lost_}});
  mark(env_, "replica.given_up");
  if (options_.replaced) // the lane may still stand in the group
    options_.replaced(local);
  if (lost_ > options_.lanes_lost_max)
    failed_ = make_failure(errc::unavailable, options_.name + ": " + std::to_string(lost_)
                                                + " replicas hang in their functions");
  if (!s.queue.empty() && !failed_ && !closed_)
    start_lane(local);
}

void replica_lanes::fail(std::uint32_t local, failure why) {
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

std::string replica_lanes::status() const {
  std::lock_guard lock{mutex_};
  for (const auto& s : slots_)
    if (s.current)
      if (auto text = s.current->calls.waiting(); !text.empty())
        return text;
  return {};
}

std::uint32_t replica_lanes::lanes_lost() const {
  std::lock_guard lock{mutex_};
  return lost_;
}

bool replica_lanes::close(time_point deadline) {
  std::unique_lock lock{mutex_};
  closed_ = true;
  tell();
  bool all = true;
  for (auto& s : slots_) {
    if (!s.thread)
      continue;
    while (s.thread && !s.thread->ended() && env_.clock.now() < deadline)
      (void)changed_->wait_until(
        lock, std::min(deadline, after(env_.clock.now(), std::chrono::milliseconds{1})));
    auto thread = std::exchange(s.thread, nullptr);
    if (!thread) // given up meanwhile
      continue;
    if (thread->ended()) {
      lock.unlock();
      thread->join();
      lock.lock();
    } else {
      thread->abandon();
      all = false;
    }
  }
  return all && lost_ == 0; // what was given up earlier may still come back
}

} // namespace troupe
