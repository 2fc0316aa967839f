// What replicas call on their threads: merge calls and collective calls.
#include <troupe/actors/replicas/replica_executor.hpp>

#include <algorithm>
#include <utility>

#include <troupe/actors/replicas/detail/replica_run.hpp>
#include <troupe/actors/support/detail/guarded_call.hpp>
#include <troupe/actors/support/detail/spin_lock_guard.hpp>

namespace troupe {

using detail::merging_run;
using detail::replica_place;
using detail::replica_run;
using detail::run_here;

namespace {

/// Parts that do not fit together: each replica of a call finds that for itself, and says its own.
bool is_found_by_all(errc code) {
  return code == errc::shape_mismatch || code == errc::dtype_mismatch;
}

} // namespace

// --- merge calls

std::shared_ptr<replica_run> replica_executor::merging() {
  const auto* here = context_local<merging_run>();
  return here ? here->run : nullptr;
}

/// The merge call that all replicas stand in and nobody has run. @pre the lock is held
std::shared_ptr<merge_meeting> replica_executor::ready_merge(const replica_run& run) {
  if (run.aborted || !run.calls.all_in_call())
    return nullptr;
  return run.merges.ready(run.calls.calls(0));
}

void replica_executor::run_merge(const std::shared_ptr<replica_run>& run, merge_meeting& at,
                                 std::unique_lock<std::mutex>& lock) {
  at.begin();
  lock.unlock();
  merge_values results;
  merging_run own{run};
  auto why = [&] {
    const context_local_scope here{own};
    return detail::guarded_call([&] { results = at.run(); });
  }();
  lock.lock();
  if (!why)
    at.finish(std::move(results));
  tell();
  if (!why)
    return;
  if (!run->aborted || !detail::is_consequence(why))
    run->merge_error = why;
  abort(*run, detail::failure_of(why, "a merge function"), lock);
}

/// @pre the lock is held
std::shared_ptr<replica_run> replica_executor::nested(std::uint32_t local,
                                                      const replica_run& outer) {
  auto& s = slots_[local];
  auto at = std::find_if(s.queue.begin(), s.queue.end(),
                         [&](const auto& r) { return r->inside.get() == &outer; });
  if (at == s.queue.end())
    return nullptr;
  auto out = std::move(*at);
  s.queue.erase(at);
  return out;
}

std::shared_ptr<void> replica_executor::merge(std::uint32_t local, replica_call call,
                                              std::shared_ptr<void> arguments,
                                              const merge_body& merge) {
  begin_call(local, std::move(call));
  auto run = run_here();
  std::unique_lock lock{mutex_};
  const auto number = run->calls.calls(local);
  const auto at = run->merges.arrive(number, local, std::move(arguments), merge);
  tell();
  const auto deadline = after(env_.clock.now(), options_.call_timeout);
  while (!at->done() && !run->aborted && !run->calls.ended(local)) {
    const bool waits_for_others = at->waits_for_others(); // not for who asked for the run
    if (waits_for_others && env_.clock.now() >= deadline) {
      auto why = make_failure(errc::deadline, run->calls.waiting());
      abort(*run, why, lock);
      throw_failure(std::move(why));
    }
    if (auto inner = nested(local, *run)) {
      lock.unlock();
      execute(inner, context_local<replica_place>()->thread);
      inner = nullptr;
      lock.lock();
      continue;
    }
    await_news(lock, waits_for_others ? deadline : never);
  }
  if (!at->done())
    throw_failure(detail::consequence("merge_call", *run));
  auto mine = run->merges.leave(number, *at, local);
  run->calls.done(local);
  tell();
  return mine;
}

// --- collective calls

void replica_executor::begin_call(std::uint32_t local, replica_call call) {
  auto run = run_here();
  detail::spin_lock_guard held{mutex_};
  auto& lock = held.owner();
  if (run->aborted)
    throw_failure(detail::consequence(call.kind, *run));
  if (auto differs = run->calls.begin(local, std::move(call))) {
    run->calls_differ = run->calls_differ || !run->aborted;
    abort(*run, *differs, lock);
    throw_failure(std::move(*differs));
  }
  if (run->empty_replicas_waiting > 0)
    tell();
}

std::optional<replica_call> replica_executor::await_call(std::uint32_t local,
                                                         const std::vector<bool>& empty_replicas) {
  auto run = run_here();
  std::unique_lock lock{mutex_};
  ++run->empty_replicas_waiting;
  auto others_run = [&] {
    for (std::uint32_t i = 0; i < options_.replicas; ++i)
      if (!empty_replicas[i] && !run->calls.ended(i))
        return true;
    return false;
  };
  while (!run->calls.next(local) && others_run() && !run->aborted && !run->calls.ended(local))
    await_news(lock, never);
  --run->empty_replicas_waiting;
  if (run->aborted)
    throw_failure(detail::consequence("call", *run));
  const auto* next = run->calls.next(local);
  return next ? std::optional{*next} : std::nullopt;
}

void replica_executor::end_call(std::uint32_t local) {
  auto run = run_here();
  const detail::spin_lock_guard lock{mutex_};
  if (!run->calls.ended(local))
    run->calls.done(local);
}

failure replica_executor::call_failed(std::uint32_t local, failure why) {
  auto run = run_here();
  std::unique_lock lock{mutex_};
  if (run->aborted && !(why.code == run->aborted->code && is_found_by_all(why.code)))
    return detail::consequence("call", *run);
  const auto call =
    run->calls.in_call(local) ? to_string(run->calls.current(local)) : std::string{"call"};
  const bool is_named =
    why.text.find(call) != std::string::npos; // by the group, which numbers them
  why.text = name_of(local) + ": " + (is_named ? "" : call + ": ") + why.text;
  abort(*run, why, lock);
  return why;
}

} // namespace troupe
