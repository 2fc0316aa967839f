#pragma once

#include <cstdint>
#include <span>
#include <string_view>

/// Known bugs that a build with TROUPE_PLANT_BUGS carries, to prove that the simulator finds them.
/// At most one is awake at a time. Every other build is compiled as if none of this were there.
namespace troupe {

enum class planted_bug : std::uint8_t {
  none = 0,
  double_apply,       ///< a server applies operations again that are in its ledger
  attempt_in_key,     ///< the attempt is part of the ledger's key
  half_a_push,        ///< a push that arrived in part is applied when its channel ends
  settled_applied,    ///< a server applies late operations of closures that have ended
  pruned_early,       ///< completion watermarks leave out closures that were put back and wait
  ids_from_zero,      ///< closure ids start at 1 again after an error was raised
  missing_fence,      ///< servers accept operations of fenced incarnations
  push_not_awaited,   ///< a closure ends before its pushes are acknowledged
  join_too_early,     ///< `join` does not wait for closures in flight
  lost_wake_up,       ///< a closure that is put back and cancelled wakes no waiting thread
  put_back_lost,      ///< closures that a lost worker had not begun are forgotten
  cancel_unconfirmed, ///< a cancellation is reported while servers may still apply updates
  earlier_attempt_forgotten, ///< the end of a closure considers its last attempt only
  stale_attempt,             ///< a report of an earlier session or attempt is accepted
  last_error_raised,         ///< the last error of a batch is raised, not the first
  passing_error_raised,      ///< an error that can be retried ends the closure
  innocent_strikes,          ///< closures that had not begun are blamed for a worker's death
  queue_unbounded,           ///< `schedule` does not wait while the queue is full
  address_order,             ///< workers are served in the order of addresses
  cut_while_running,         ///< a save does not wait for running closures
  no_sync,                   ///< checkpoint files are not synced to disk
  partial_result,            ///< a failed collective operation returns its partial result
};

#ifdef TROUPE_PLANT_BUGS

/// Whether that bug is awake.
bool planted(planted_bug which) noexcept;
/// Wakes a bug, for the whole process; the environment variable TROUPE_BUG names the one that is
/// awake at the start.
void plant(planted_bug which) noexcept;

struct planted_entry {
  planted_bug which{};
  std::string_view name{};
  std::string_view text{};
};
/// All planted bugs.
std::span<const planted_entry> planted_bugs() noexcept;

#else

constexpr bool planted(planted_bug) noexcept { return false; }

#endif

} // namespace troupe
