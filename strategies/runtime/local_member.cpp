#include <troupe/strategies/runtime/detail/local_member.hpp>

#include <utility>

namespace troupe::detail {

local_member::local_member(const environment& env, const task_id& task)
  : task_{task},
    ended_{std::make_shared<promise_slot<bool>>(env)},
    admitted_{std::make_shared<promise_slot<incarnation>>(env)} {}

member_options local_member::settings(const runtime_options& options) const {
  return {.task = task_,
          .cluster = options.cluster_name,
          .token = options.token,
          .coordinator_lost_ms_max = options.coordinator_lost_ms_max,
          .ended = ended_,
          .admitted = admitted_};
}

std::shared_ptr<std::shared_ptr<worker_executor>> local_member::take_threads() {
  threads_ = std::make_shared<std::shared_ptr<worker_executor>>();
  return threads_;
}

void local_member::end(time_point deadline) {
  if (leave_) // it may have ended already, or have been asked to
    std::exchange(leave_, nullptr)();
  (void)ended_->poll_until(deadline, "shutdown");
}

bool local_member::join_threads(time_point deadline) {
  return !threads_ || !*threads_ || (*threads_)->join(deadline);
}

} // namespace troupe::detail
