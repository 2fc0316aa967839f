#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include <troupe/actors/coordinator/closure_priority_queues.hpp>

namespace troupe {

/// The closures that may not be taken before values they take have arrived, and for each such value
/// the closures that depend on it. Plain data without a lock; `closure_queue` guards it.
///
/// Invariant: a closure is here exactly while its place is `blocked`.
class blocked_closures {
public:
  /// The state of the values that a closure takes.
  enum class inputs : std::uint8_t {
    complete = 0, ///< all have arrived
    missing = 1,  ///< some have not, or were aborted and will be rebuilt
    broken = 2,   ///< one failed or was cancelled: it will never arrive
  };
  struct look {
    inputs what = inputs::complete;
    const remote_state* broken = nullptr; ///< the first one that is
  };
  /// Looks at what `c` takes; keeps `c` when something is missing.
  look add(const queued_closure_ptr& c);
  /// Takes out the closures that wait for `input`, in the order in which they came: `add` them
  /// again, since others of their inputs may be missing. Empty while the input has not ended.
  std::vector<queued_closure_ptr> on_ready(const remote_state& input);
  /// False: nothing can wait for any value.
  bool has_dependents() const { return !dependents_.empty(); }

  std::size_t size() const { return blocked_.size(); }
  /// Appends the sequence numbers up to `seq_max`.
  void list_up_to(std::uint64_t seq_max, std::vector<std::uint64_t>& to) const;
  /// Empties it into `to`, in closure order.
  void move_all(std::vector<queued_closure_ptr>& to);
  /// Moves those that are `unacknowledged` to `to`, in closure order.
  void move_unacknowledged(std::vector<queued_closure_ptr>& to);

private:
  std::map<std::uint64_t, queued_closure_ptr> blocked_{}; ///< by seq
  std::unordered_map<const remote_state*, std::vector<queued_closure_ptr>>
    dependents_{}; ///< looked up only; may name closures that are not here any more
};

} // namespace troupe
