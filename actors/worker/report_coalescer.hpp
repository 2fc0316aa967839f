#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <troupe/messages/closures.hpp>
#include <troupe/messages/resources.hpp>

namespace troupe {

/// What a worker's threads have to report to the coordinator.
struct worker_outbox {
  std::vector<attempt_ended> ended{};
  std::vector<resource_made> resources{};
  std::vector<attempt_begun> begun{}; ///< these wait until they are allowed to begin
  bool empty() const { return ended.empty() && resources.empty() && begun.empty(); }
};

/// How many ends of short steps are reported together. 1: each by itself.
struct report_limits {
  /// Ends that make a report worth its message. Fewer wait for more while at least
  /// `report_queue_min` closures are queued, or the next one calls the same function and that was
  /// very short just now: a message to another process costs as much as ten of those.
  std::size_t report_batch = 1;
  std::size_t report_queue_min = 8;
  /// Ends of short steps that a thread keeps to itself while two more closures wait for it: waking
  /// the reporter costs the thread as much as a percent or two of such a step.
  std::size_t quiet_batch = 1;
};

/// Collects reports and decides when whoever sends them has to act: short steps are reported
/// together, everything else at once. The *reporter* is woken when something was added that it has
/// to look at; it asks whether to wait for more, and takes what there is. Plain; its owner locks.
class report_coalescer {
public:
  /// The closures that wait for a thread.
  struct queue_state {
    std::size_t length = 0; ///< with resources to be built
    /// The function of the next closure; none: nothing waits, or a resource is next.
    std::optional<function_index> next{};
  };

  explicit report_coalescer(const report_limits& limits) : limits_{limits} {}

  /// Notes the function of the step that ended last, whether or not its end is reported.
  void note_function(function_index function) { last_function_ = function; }

  // Each adds to the outbox and returns whether to wake the reporter.

  /// The end of a step, which it may be left to the next report to tell.
  bool add_step_end(attempt_ended end, const queue_state& queue);
  /// Ends of attempts that did not run to their end: cancelled, recalled.
  bool add_ends(std::vector<attempt_ended> ends, const queue_state& queue);
  bool add_resource(resource_made made, const queue_state& queue);
  bool add_begun(const attempt_begun& begun, const queue_state& queue);
  /// The end of an attempt, or a resource, of a thread that was given up. The caller wakes the
  /// reporter in any case.
  void add_given_up(attempt_ended end) { out_.ended.push_back(std::move(end)); }
  void add_given_up(resource_made made) { out_.resources.push_back(std::move(made)); }

  bool has_ends() const { return !out_.ended.empty(); }
  /// Asked by the reporter: whether to wait for more. If so, it is woken again when what is there
  /// no longer waits; it sees to it that it does not wait for a long step.
  bool waits_for_more(const queue_state& queue);
  /// Takes everything.
  worker_outbox take();
  /// Forgets what was collected. A reporter that was woken, or waits, is still woken as before.
  void drop() { out_ = {}; }

private:
  bool should_wait(const queue_state& queue) const;
  bool is_next_alike(const queue_state& queue) const;
  bool stays_unreported(const queue_state& queue) const;
  bool must_wake(bool was_empty, const queue_state& queue);

  const report_limits limits_;
  worker_outbox out_{};
  function_index last_function_{};
  bool unreported_ = false;     ///< the reporter has not heard of what is in the outbox
  bool reporter_waits_ = false; ///< for more in the outbox
};

} // namespace troupe
