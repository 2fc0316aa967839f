#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include <troupe/actors/coordinator/closure_queue.hpp>
#include <troupe/actors/coordinator/function_times.hpp>

namespace troupe {

/// A closure on a worker.
struct flight {
  closure_ptr what{};
  attempt_no attempt{};
  time_point sent{};
  bool announced = false; ///< its worker says so before it begins (`closure_order::announce`)
  bool begun = false;     ///< its worker has said that it began
};

/// The blame of a closure that was on a worker when that was lost.
enum class blame : std::uint8_t {
  none = 0,    ///< it had not begun
  doubted = 1, ///< nobody knows whether it had
  begun = 2,   ///< it was known to run there: a failed attempt
};

/// The blame of a worker's flights in the order sent, one each. What had not said that it begins
/// may have all the same, as far as the flights before it can have ended without a word: those that
/// announce nothing are so short that many end between two reports.
std::vector<blame> blame_of(const std::deque<flight>& flights, std::uint32_t threads);

/// Whether a worker shall say that a closure begins before it does. It costs the thread a message,
/// so not for steps that are known to be short; always where it decides: for what runs alone, and
/// where the next failed attempt is the last.
/// @param median_ns  of the function; 0: never seen to end
/// @param failed_attempts_max  as `closure_queue::failed_attempts_max`
bool announces(const closure& c, std::uint64_t median_ns, std::uint32_t failed_attempts_max);

/// The assignment of closures to workers: the coordinator's decisions about workers, without CAF,
/// clocks or the queue. One thread. A worker runs its flights in the order sent, one a thread, so
/// its oldest `threads` flights are the running ones.
class dispatch_core {
public:
  struct worker {
    incarnation inc{};
    std::uint32_t threads = 1;
    std::deque<flight> flights{};
    std::uint32_t recalls = 0; ///< asked back and not answered
    bool stuck = false;   ///< its threads have been silent for very long: nothing is sent there
    bool leaving = false; ///< it is given up, or lost and not yet taken down: nothing is sent there
  };

  /// Adds a worker. @pre the worker is not up.
  void worker_up(std::uint32_t index, incarnation inc, std::uint32_t threads);
  /// Removes a worker; returns its flights in the order sent, empty when it was not up.
  std::deque<flight> worker_down(std::uint32_t index);
  bool is_up(std::uint32_t index, const incarnation& inc) const;
  const std::map<std::uint32_t, worker>& workers() const { return workers_; }
  std::size_t live() const { return workers_.size(); }
  std::size_t in_flight() const { return in_flight_; }
  /// Whether the servers should get a completion watermark after so many ends, at least `every`: a
  /// list names all that is in flight, so several times as many ends share its cost.
  bool list_is_due(std::uint64_t ends, std::uint64_t every) const;

  /// Number of flights that a worker may take now, one running per thread and the credits for
  /// `function` ahead.
  std::size_t room(std::uint32_t index, function_index function, const function_times& times) const;
  /// Whether to send it `count` more now, of the `room` that it has. Not a few to one that has work
  /// waiting: a message costs as much as many short closures, and more come together until its next
  /// report.
  bool worth_sending(std::uint32_t index, std::size_t count, std::size_t room) const;
  /// Workers in the order in which they should be offered work: fewest flights first.
  std::vector<std::uint32_t> by_load() const;
  void sent(std::uint32_t index, flight what);
  /// Notes that an attempt has begun there. Does nothing when the attempt is not there.
  void begun(std::uint32_t index, closure_id id, attempt_no attempt);
  /// The flight that ended, removed; none when that attempt is not there (a late or doubled
  /// report).
  std::optional<flight> ended(std::uint32_t index, closure_id id, attempt_no attempt);

  struct recall {
    std::uint32_t worker = 0;
    std::uint32_t count = 0;
  };
  /// The recall by which idle workers get work: half of the waiting flights of the fullest worker,
  /// once its oldest waiting flight has waited `min_wait`. None while every worker is busy.
  std::optional<recall> plan_recall(time_point now, duration min_wait) const;
  /// The recall from a worker whose waiting flights are of a lower priority than `top`, which waits
  /// in the queue, or whose threads are stuck: all that wait there.
  std::optional<recall> plan_recall_for(std::uint32_t index, std::optional<int> top) const;
  void set_stuck(std::uint32_t index, bool stuck) { workers_.at(index).stuck = stuck; }
  void set_leaving(std::uint32_t index) { workers_.at(index).leaving = true; }
  void recall_sent(std::uint32_t index, std::uint32_t count);
  void recall_answered(std::uint32_t index, std::uint32_t count);

private:
  std::map<std::uint32_t, worker> workers_{};
  std::size_t in_flight_ = 0;
};

} // namespace troupe
