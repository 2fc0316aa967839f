#pragma once

#include <functional>
#include <memory>

#include <troupe/actors/membership/member_client.hpp>
#include <troupe/actors/worker/worker_executor.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

namespace troupe::detail {

/// A member of the cluster, worker or server, that runs in this process. The program's thread.
class local_member {
public:
  local_member(const environment& env, const task_id& task);

  /// The settings of its actor that do not depend on the way to the coordinator.
  member_options settings(const runtime_options& options) const;
  /// Where its actor puts its threads of steps, for `join_threads`. Of a worker only.
  std::shared_ptr<std::shared_ptr<worker_executor>> take_threads();
  /// `leave` asks the actor to leave the cluster. Not set within one process, where the coordinator
  /// ends every member.
  void on_leave(std::function<void()> leave) { leave_ = std::move(leave); }

  /// Asks it to leave; it ends a while after. @pre `on_leave`
  void leave() { leave_(); }
  /// Asks it to leave, where it can be asked, and waits until it has ended.
  void end(time_point deadline);
  /// Waits for its threads of steps; false when one was abandoned at `deadline`.
  bool join_threads(time_point deadline);
  /// Set when it has ended, with a failure when that was not by order.
  const std::shared_ptr<promise_slot<bool>>& ended() const { return ended_; }

private:
  const task_id task_;
  std::shared_ptr<promise_slot<bool>> ended_;
  std::shared_ptr<promise_slot<incarnation>> admitted_;
  std::shared_ptr<std::shared_ptr<worker_executor>> threads_{};
  std::function<void()> leave_{};
};

} // namespace troupe::detail
