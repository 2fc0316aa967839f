#pragma once

#include <optional>

#include <troupe/actors/worker/detail/worker_step_host.hpp>

namespace troupe {

/// Runs the jobs of one compute thread of a worker: the registered function between the arguments
/// on their way in, and the acknowledgements and the result on their way out. That thread only.
class step_runner {
public:
  /// @param device_of outlives this
  step_runner(const environment& env, const task_id& task, const step_device_maker& device_of)
    : env_{env}, task_{task}, device_of_{device_of} {}

  /// Runs a closure; how it ended. Does not throw: whatever of it runs out of memory, the closure
  /// fails and the thread goes on.
  attempt_ended run(const worker_job& what, parameter_client& client, running_step& step);
  /// Builds a resource; what was made, or why not.
  worker_session::built build(const worker_job& what, parameter_client& client, running_step& step);
  /// The end of a closure that was cancelled before it began.
  static attempt_ended not_begun(const worker_job& what);

private:
  attempt_ended run_with_memory(const worker_job& what, parameter_client& client,
                                running_step& step);
  std::optional<failure> call(const worker_job& what, parameter_client& client, running_step& step,
                              payload& value);
  result<void> hand_over(const worker_job& what, payload value, attempt_ended& end);
  result<payload> arguments_of(const worker_job& what);

  const environment& env_;
  const task_id task_;
  const step_device_maker& device_of_;
};

} // namespace troupe
