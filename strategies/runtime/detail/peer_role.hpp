#pragma once

#include <troupe/strategies/runtime/detail/process_role.hpp>

namespace troupe::detail {

/// One of peer workers, which all run the same program: devices, and a meeting with the others. No
/// parameter-server cluster.
class peer_role final : public process_role {
public:
  explicit peer_role(const process_context& context) : context_{context} {}

  step_needs needs() const override { return {.threads = 1}; }
  void start(process_devices& devices, runtime_services& services) override;
  /// The meeting is the services', which close it.
  bool end(time_point, const cluster_end&) override { return true; }

private:
  const process_context context_;
};

} // namespace troupe::detail
