#pragma once

#include <cstdint>
#include <span>
#include <string_view>

/// Known bugs that a build with TROUPE_PLANT_BUGS carries, to prove that the simulator finds them.
/// At most one is awake at a time. Every other build is compiled as if none of this were there.
namespace troupe {

enum class planted_bug : std::uint8_t {
  none = 0,
  double_apply,              ///< a server applies again what its ledger knows
  attempt_in_key,            ///< the ledger's key tells attempts apart
  half_a_push,               ///< what has arrived of a push is applied when its channel ends
  settled_applied,           ///< a server applies late operations of closures that have ended
  pruned_early,              ///< completion watermarks leave out what came back and waits
  ids_from_zero,             ///< closure ids begin anew after an error was raised
  missing_fence,             ///< servers take operations from fenced incarnations
  push_not_awaited,          ///< a closure ends before its pushes are acknowledged
  join_too_early,            ///< `join` does not wait for what is in flight
  lost_wake_up,              ///< a closure that comes back and is cancelled wakes nobody
  put_back_lost,             ///< what a lost worker had not begun is forgotten
  cancel_unconfirmed,        ///< a cancel is told before no server can apply what was cancelled
  earlier_attempt_forgotten, ///< an end looks at its last attempt only, not at those before it
  stale_attempt,             ///< a report of an earlier session or attempt counts
  last_error_raised,         ///< the last error of a batch is raised, not the first
  passing_error_raised,      ///< an error that passes ends the closure
  innocent_strikes,          ///< closures that had not begun are blamed for a worker's death
  queue_unbounded,           ///< `schedule` does not wait for room
  address_order,             ///< workers are served in the order of addresses
  cut_while_running,         ///< a save does not wait for running closures
  no_sync,                   ///< checkpoint files are not made durable
  partial_result,            ///< a collective operation that failed gives what it has
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
