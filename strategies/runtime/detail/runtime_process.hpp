#pragma once

#include <exception>
#include <memory>

#include <troupe/strategies/runtime/detail/process_role.hpp>
#include <troupe/strategies/runtime/runtime_host.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

namespace troupe::detail {

/// All that a runtime owns, whatever the process is: the ports and actor system, the devices, and
/// the role; and the order in which they start and end. The program's threads.
class runtime_process {
public:
  /// Starts the process. Throws what hinders it; what was started by then has ended.
  runtime_process(runtime_options options, caf::actor_system* system);
  runtime_process(runtime_options options, const runtime_host& host);
  ~runtime_process();
  runtime_process(const runtime_process&) = delete;
  runtime_process& operator=(const runtime_process&) = delete;

  const runtime_options& options() const { return options_; }
  const environment& env() const { return host_.env(); }
  const process_role& role() const { return *role_; }
  device_plane& devices() const { return *devices_->plane(); }
  const std::shared_ptr<runtime_services>& services() const { return services_; }

  /// See runtime.
  int serve();
  void shutdown(duration timeout, const cluster_end& how);

private:
  void start_or_end();
  void start();
  void let_go();

  const int exceptions_ = std::uncaught_exceptions(); ///< when it was made
  const runtime_options options_;
  // in the order in which it must go: actors before the system
  process_host host_;
  actor_ends ends_{host_.env()};
  std::unique_ptr<process_devices> devices_{};
  std::shared_ptr<runtime_services> services_{};
  std::unique_ptr<process_role> role_;
  bool ended_ = false;
  bool left_behind_ = false; ///< a thread, or an actor that didn't end in time
};

} // namespace troupe::detail
