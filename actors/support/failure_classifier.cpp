#include <troupe/actors/support/failure_classifier.hpp>

#include <utility>

#include <troupe/core/planted.hpp>

namespace troupe {

bool is_fault_of_the_way(errc code) {
  return code == errc::unavailable || code == errc::aborted || code == errc::connection_lost
         || code == errc::connect_failed || code == errc::try_again
         || code == errc::wrong_shard_view;
}

bool is_fault_of_the_device(errc code) {
  return code == errc::device_lost || code == errc::device_timeout || code == errc::launch_failed;
}

bool failure_classifier::under(std::deque<time_point>& seen, std::uint32_t max, time_point now) {
  while (!seen.empty() && now - seen.front() > options_.window)
    seen.pop_front();
  if (seen.empty() || now - seen.back() >= options_.hiccup)
    seen.push_back(now);
  return seen.size() < max;
}

verdict failure_classifier::classify(const failure& why, const task_id& worker,
                                     bool batch_cancelled, bool server_lost, time_point now) {
  const auto& from = why.where.task;
  if (why.code == errc::cancelled && batch_cancelled)
    return verdict::cancelled;
  if (from.job == job_kind::ps && is_fault_of_the_way(why.code)) {
    if (batch_cancelled)
      return verdict::cancelled;
    if (server_lost || planted(planted_bug::passing_error_raised))
      return verdict::fatal;
    return under(server_faults_[from], options_.server_faults_max, now) ? verdict::put_back
                                                                        : verdict::fatal;
  }
  if (why.code == errc::deadline)
    return under(deadline_faults_, options_.deadline_faults_max, now) ? verdict::put_back
                                                                      : verdict::fatal;
  if (why.code == errc::cancelled && from != worker)
    return verdict::put_back;
  bool lost = is_fault_of_the_way(why.code) || is_fault_of_the_device(why.code)
              || why.code == errc::fenced || why.code == errc::cancelled;
  if (from == worker && lost)
    return batch_cancelled ? verdict::cancelled : verdict::worker_lost;
  return batch_cancelled && why.code == errc::fenced ? verdict::cancelled : verdict::fatal;
}

bool is_lost_connection(errc code) {
  return code == errc::connection_lost || code == errc::connect_failed || code == errc::bad_frame;
}

failure came_back_empty(failure why) {
  auto named = make_failure(
    errc::unavailable, to_string(why.where.task) + " was lost and restarted without its variables: "
                         + why.text + "; start a new cluster and restore() the last checkpoint");
  named.where = std::move(why.where);
  return named;
}

} // namespace troupe
