#include <troupe/core/planted.hpp>

#ifdef TROUPE_PLANT_BUGS

#include <cstdio>
#include <cstdlib>

namespace troupe {

namespace {

constexpr planted_entry entries[] = {
  {planted_bug::double_apply, "double_apply",
   "a server applies operations again that are in its ledger"},
  {planted_bug::attempt_in_key, "attempt_in_key", "the attempt is part of the ledger's key"},
  {planted_bug::half_a_push, "half_a_push",
   "a push that arrived in part is applied when its channel ends"},
  {planted_bug::settled_applied, "settled_applied",
   "a server applies late operations of closures that have ended"},
  {planted_bug::pruned_early, "pruned_early",
   "completion watermarks leave out closures that were put back and wait"},
  {planted_bug::ids_from_zero, "ids_from_zero",
   "closure ids start at 1 again after an error was raised"},
  {planted_bug::missing_fence, "missing_fence", "servers accept operations of fenced incarnations"},
  {planted_bug::push_not_awaited, "push_not_awaited",
   "a closure ends before its pushes are acknowledged"},
  {planted_bug::join_too_early, "join_too_early", "join does not wait for closures in flight"},
  {planted_bug::lost_wake_up, "lost_wake_up",
   "a closure that is put back and cancelled wakes no waiting thread"},
  {planted_bug::put_back_lost, "put_back_lost",
   "closures that a lost worker had not begun are forgotten"},
  {planted_bug::cancel_unconfirmed, "cancel_unconfirmed",
   "a cancellation is reported while servers may still apply updates"},
  {planted_bug::earlier_attempt_forgotten, "earlier_attempt_forgotten",
   "the end of a closure considers its last attempt only"},
  {planted_bug::stale_attempt, "stale_attempt",
   "a report of an earlier session or attempt is accepted"},
  {planted_bug::last_error_raised, "last_error_raised",
   "the last error of a batch is raised, not the first"},
  {planted_bug::passing_error_raised, "passing_error_raised",
   "an error that can be retried ends the closure"},
  {planted_bug::innocent_strikes, "innocent_strikes",
   "closures that had not begun are blamed for a worker's death"},
  {planted_bug::queue_unbounded, "queue_unbounded",
   "schedule does not wait while the queue is full"},
  {planted_bug::address_order, "address_order", "workers are served in the order of addresses"},
  {planted_bug::cut_while_running, "cut_while_running",
   "a save does not wait for running closures"},
  {planted_bug::no_sync, "no_sync", "checkpoint files are not synced to disk"},
  {planted_bug::partial_result, "partial_result",
   "a failed collective operation returns its partial result"},
};

planted_bug from_environment() {
  const char* name = std::getenv("TROUPE_BUG");
  if (!name || !*name)
    return planted_bug::none;
  for (const auto& e : entries)
    if (e.name == name)
      return e.which;
  std::fprintf(stderr, "troupe: TROUPE_BUG: unknown planted bug '%s'\n", name);
  std::exit(2);
}

planted_bug& awake() {
  static planted_bug which = from_environment();
  return which;
}

} // namespace

bool planted(planted_bug which) noexcept { return awake() == which; }

void plant(planted_bug which) noexcept { awake() = which; }

std::span<const planted_entry> planted_bugs() noexcept { return entries; }

} // namespace troupe

#endif
