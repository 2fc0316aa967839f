#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/actors/devices/device_plane.hpp>
#include <troupe/actors/worker/worker.hpp>
#include <troupe/strategies/runtime/detail/process_host.hpp>

namespace troupe::detail {

/// The steps that a process runs, for the devices that they run on.
struct step_needs {
  std::uint32_t threads = 1;   ///< that run steps, of all workers here
  bool runs_steps_here = true; ///< named devices are opened at start only where steps run
};

/// The devices of a process, and which of them each thread of steps takes: the threads of all
/// workers, counted through, take turns over them. The program's thread.
class process_devices {
public:
  /// Looks for no device yet. GPUs that nobody named are never looked for here.
  process_devices(const process_host& host, const runtime_options& options,
                  const step_needs& needs);

  const std::shared_ptr<device_plane>& plane() const { return plane_; }
  /// Opens the named devices, so that a wrong name ends the start and not a step. Throws
  /// `device_unavailable`.
  void open_named();
  /// Settings of the threads of a worker. `first`: the number of its first thread in this process.
  worker_executor_options threads_of(const task_id& task, std::uint32_t first) const;
  /// Has the worker told when a device of its threads fails: it is of no use without it. `first` as
  /// above.
  void watch(std::uint32_t first, const worker_actor& worker) const;

private:
  const runtime_options& options_;
  const bool runs_steps_here_;
  std::shared_ptr<device_plane> plane_;
  std::vector<device_id> for_steps_{};
};

} // namespace troupe::detail
