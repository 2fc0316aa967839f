#include <troupe/strategies/runtime/detail/peer_role.hpp>

namespace troupe::detail {

void peer_role::start(process_devices&, runtime_services& services) {
  const auto& options = context_.options;
  if (options.peers.size() > 1)
    services.meeting = worker_meeting::make(context_.host.env(), options.peers, options.peer,
                                            options.token, options.peer_tasks)
                         .value_or_throw();
}

} // namespace troupe::detail
