#include <troupe/strategies/runtime/runtime_host.hpp>

#include <troupe/core/caf_compat.hpp>
#include <troupe/messages/registration.hpp>

namespace troupe {

void configure(caf::actor_system_config& config, bool network) {
  configure_system(config, init_messages);
  if (network)
    load_network(config);
}

} // namespace troupe
