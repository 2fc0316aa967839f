#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace troupe {

/// Arguments or results of a merge function: one a replica, by their common type.
using merge_values = std::vector<std::shared_ptr<void>>;
using merge_body = std::function<merge_values(const merge_values& arguments)>;

/// One merge call, in which all replicas meet: each brings its argument and leaves with its part of
/// the result. Plain; its owner locks, but for `run`.
class merge_meeting {
public:
  explicit merge_meeting(std::uint32_t replicas) : arguments_(replicas) {}

  bool waits_for_others() const { return arrived_ < arguments_.size(); }
  /// All have come, and nobody runs the merge function.
  bool is_ready() const { return !waits_for_others() && !begun_; }
  bool done() const { return done_; }

  /// Whoever runs the merge function says so first. @pre is_ready
  void begin() { begun_ = true; }
  /// Calls the merge function. Without the owner's lock; throws what the function throws. @pre
  /// begun
  merge_values run() const { return body_(arguments_); }
  /// `results`: one a replica, or none where nobody gets anything.
  void finish(merge_values results) {
    results_ = std::move(results);
    done_ = true;
  }

private:
  friend class merge_rendezvous;
  merge_body body_{}; ///< the first replica's
  merge_values arguments_;
  merge_values results_{};
  std::uint32_t arrived_ = 0;
  std::uint32_t left_ = 0;
  bool begun_ = false;
  bool done_ = false;
};

/// The merge calls of one run of all replicas, by the number of the call within the run. Plain; its
/// owner locks.
class merge_rendezvous {
public:
  explicit merge_rendezvous(std::uint32_t replicas) : replicas_{replicas} {}

  /// Replica `local` has come to call `number` with its argument. `body`: the merge function, the
  /// same for all; that of replica 0 is called.
  std::shared_ptr<merge_meeting> arrive(std::uint64_t number, std::uint32_t local,
                                        std::shared_ptr<void> argument, const merge_body& body);
  /// The meeting of call `number`, if all have come and nobody runs its merge function.
  std::shared_ptr<merge_meeting> ready(std::uint64_t number) const;
  /// Replica `local` leaves `from`, call `number`, with its part of the result. The last one ends
  /// the meeting. The meeting may have been taken away: a replica that was given up comes late.
  /// @pre the meeting is done
  std::shared_ptr<void> leave(std::uint64_t number, merge_meeting& from, std::uint32_t local);
  /// Takes all meetings away, for whoever destroys the arguments and functions without a lock.
  std::map<std::uint64_t, std::shared_ptr<merge_meeting>> take_all();

private:
  const std::uint32_t replicas_;
  std::map<std::uint64_t, std::shared_ptr<merge_meeting>> meetings_{};
};

} // namespace troupe
