#include <troupe/actors/worker/report_coalescer.hpp>

#include <iterator>
#include <utility>

namespace troupe {

namespace {

/// An end of a step that took longer is worth a message of its own.
constexpr std::uint64_t short_step_ns = 1'000'000;
/// The next step of a function that took no longer will not take long either.
constexpr std::uint64_t very_short_step_ns = 20'000;

bool is_short(const attempt_ended& end) {
  return end.outcome == attempt_outcome::finished && end.run_ns < short_step_ns;
}

} // namespace

bool report_coalescer::add_step_end(attempt_ended end, const queue_state& queue) {
  const bool was_empty = out_.empty();
  out_.ended.push_back(std::move(end));
  if (stays_unreported(queue)) {
    unreported_ = true;
    return false;
  }
  return must_wake(was_empty, queue);
}

bool report_coalescer::add_ends(std::vector<attempt_ended> ends, const queue_state& queue) {
  const bool was_empty = out_.empty();
  std::move(ends.begin(), ends.end(), std::back_inserter(out_.ended));
  return must_wake(was_empty, queue);
}

bool report_coalescer::add_resource(resource_made made, const queue_state& queue) {
  const bool was_empty = out_.empty();
  out_.resources.push_back(std::move(made));
  return must_wake(was_empty, queue);
}

bool report_coalescer::add_begun(const attempt_begun& begun, const queue_state& queue) {
  const bool was_empty = out_.empty();
  out_.begun.push_back(begun);
  return must_wake(was_empty, queue);
}

bool report_coalescer::waits_for_more(const queue_state& queue) {
  return reporter_waits_ = should_wait(queue);
}

worker_outbox report_coalescer::take() {
  reporter_waits_ = false;
  unreported_ = false;
  return std::exchange(out_, {});
}

/// Ends of steps, as far as they are no longer than a message is worth.
bool report_coalescer::should_wait(const queue_state& queue) const {
  return has_ends() && out_.ended.size() < limits_.report_batch
         && (queue.length >= limits_.report_queue_min || is_next_alike(queue))
         && out_.resources.empty() && out_.begun.empty() && is_short(out_.ended.back());
}

/// Whether what comes next will take no longer than what ended last, which took next to nothing.
bool report_coalescer::is_next_alike(const queue_state& queue) const {
  return queue.next == last_function_ && out_.ended.back().run_ns < very_short_step_ns;
}

/// After a step's end was added.
bool report_coalescer::stays_unreported(const queue_state& queue) const {
  constexpr std::size_t queue_min = 2; // one of them may be long
  return out_.ended.size() < limits_.quiet_batch && queue.length >= queue_min
         && out_.resources.empty() && out_.begun.empty() && is_short(out_.ended.back());
}

/// After something was added.
bool report_coalescer::must_wake(bool was_empty, const queue_state& queue) {
  if (std::exchange(unreported_, false))
    return true;
  return was_empty
         || (reporter_waits_ && !should_wait(queue) && std::exchange(reporter_waits_, false));
}

} // namespace troupe
