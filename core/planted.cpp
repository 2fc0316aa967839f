#include <troupe/core/planted.hpp>

#ifdef TROUPE_PLANT_BUGS

#include <cstdio>
#include <cstdlib>

namespace troupe {

namespace {

constexpr planted_entry entries[] = {
  {planted_bug::double_apply, "double_apply", "a server applies again what its ledger knows"},
  {planted_bug::attempt_in_key, "attempt_in_key", "the ledger's key tells attempts apart"},
  {planted_bug::half_a_push, "half_a_push",
   "what has arrived of a push is applied when its channel ends"},
  {planted_bug::settled_applied, "settled_applied",
   "a server applies late operations of closures that have ended"},
  {planted_bug::pruned_early, "pruned_early",
   "completion watermarks leave out what came back and waits"},
  {planted_bug::ids_from_zero, "ids_from_zero", "closure ids begin anew after an error was raised"},
  {planted_bug::missing_fence, "missing_fence", "servers take operations from fenced incarnations"},
  {planted_bug::push_not_awaited, "push_not_awaited",
   "a closure ends before its pushes are acknowledged"},
  {planted_bug::join_too_early, "join_too_early", "join does not wait for what is in flight"},
  {planted_bug::lost_wake_up, "lost_wake_up",
   "a closure that comes back and is cancelled wakes nobody"},
  {planted_bug::put_back_lost, "put_back_lost", "what a lost worker had not begun is forgotten"},
  {planted_bug::cancel_unconfirmed, "cancel_unconfirmed",
   "a cancel is told before no server can apply what was cancelled"},
  {planted_bug::earlier_attempt_forgotten, "earlier_attempt_forgotten",
   "an end looks at its last attempt only, not at those before it"},
  {planted_bug::stale_attempt, "stale_attempt", "a report of an earlier session or attempt counts"},
  {planted_bug::last_error_raised, "last_error_raised",
   "the last error of a batch is raised, not the first"},
  {planted_bug::passing_error_raised, "passing_error_raised",
   "an error that passes ends the closure"},
  {planted_bug::innocent_strikes, "innocent_strikes",
   "closures that had not begun are blamed for a worker's death"},
  {planted_bug::queue_unbounded, "queue_unbounded", "schedule does not wait for room"},
  {planted_bug::address_order, "address_order", "workers are served in the order of addresses"},
  {planted_bug::cut_while_running, "cut_while_running",
   "a save does not wait for running closures"},
  {planted_bug::no_sync, "no_sync", "checkpoint files are not made durable"},
  {planted_bug::partial_result, "partial_result",
   "a collective operation that failed gives what it has"},
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
