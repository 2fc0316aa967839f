#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include <troupe/actors/coordinator/closure_queue.hpp>
#include <troupe/actors/coordinator/quiesce_watch.hpp>

namespace troupe {

/// Leads a save to a snapshot that shows no closure half applied: nothing new is sent, what
/// runs ends, the servers take the snapshot, work goes on.
///
///     open --begin--> quiescing --take--> taking --end--> open
///                         \------------end------------/
///
/// A closure of which a lost attempt may have reached some servers and not others is *partial*:
/// it must run to its end before the snapshot, so those are sent while quiescing. No CAF, clocks or
/// locks; one thread.
///
/// Invariants: an answer counts for the snapshot that it speaks of and for no other; the number of
/// a timer that was set before the last change of phase is not current.
class snapshot_barrier {
public:
  /// @param quiet_ms_max  how long steps may show no progress, and servers owe an answer
  explicit snapshot_barrier(std::uint64_t quiet_ms_max)
    : quiet_ms_max_{quiet_ms_max}, watch_{quiet_ms_max} {}

  /// Whether the servers have been asked for a snapshot and it is not over.
  bool taking() const { return current_.has_value(); }
  bool quiescing() const { return quiescing_; }

  /// From now on nothing new is sent. @pre open.
  void begin(time_point now);
  /// What to do, after a closure or attempt has ended.
  enum class step : std::uint8_t {
    wait = 0,        ///< nothing: open, or something runs, or the servers are at it
    run_partial = 1, ///< send what is partial: it waits to be run again
    take = 2,        ///< nothing runs: call `take`, ask the servers
  };
  /// @param running  closures on workers
  /// @param held  ends that the servers have not confirmed: they may still apply something
  step next_step(std::size_t running, std::size_t held);
  /// The servers are asked for this snapshot, whose id is new. @pre `next_step` said so.
  snapshot_id take(term_no term, std::set<std::uint32_t> servers);
  /// What a server's answer means.
  enum class answer : std::uint8_t {
    late = 0,     ///< of another snapshot than the one being taken: over long ago
    more = 1,     ///< others still owe theirs
    complete = 2, ///< all servers have taken it
    failed = 3,   ///< it did not take it
  };
  answer answered(snapshot_id snapshot, std::uint32_t server, bool taken);
  /// Work goes on. Returns the snapshot that servers may have: they are to drop it unless somebody
  /// wants it.
  std::optional<snapshot_id> end();

  /// Whether no closure may be sent.
  bool holds_back();
  /// Notes a closure that comes back from a lost attempt. Partial until it has ended.
  void note_partial(const closure_ptr& c);
  /// Whether something partial has not ended.
  bool has_partial();

  // -- waiting --

  /// The number for a timer that is set now.
  std::uint64_t timer() const { return timer_; }
  /// Whether a timer that ran out is of the present phase.
  bool is_current(std::uint64_t timer) const { return quiescing_ && timer == timer_; }
  /// As `quiesce_watch::look`. @pre quiescing, not taking.
  quiesce_watch::verdict look(time_point now, std::span<const running_closure> running) const {
    return watch_.look(now, running);
  }
  /// The failure of a save whose closures show no progress. `overdue` empty: it is `held` that it
  /// waits for, or what is partial.
  failure no_progress(std::span<const running_closure> overdue, std::size_t held) const;
  /// The failure of a save whose servers did not answer in time, naming them. @pre taking.
  failure no_answer() const;

private:
  std::uint64_t quiet_ms_max_;
  quiesce_watch watch_;
  bool quiescing_ = false;
  std::optional<snapshot_id> current_{}; ///< that the servers are taking
  std::set<std::uint32_t> owing_{};      ///< servers that have not answered
  std::uint64_t timer_ = 0;
  std::uint64_t snapshots_ = 0;
  std::vector<closure_ptr> partial_{};
};

} // namespace troupe
