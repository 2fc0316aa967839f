#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <troupe/core/environment.hpp>

namespace troupe {

/// Makes a host's configuration fit for Troupe, before its actor system is built: message types and
/// scheduler settings, with `network` also CAF's network layer and a random node id. Without it a
/// host's system works within one process only; over processes `runtime` refuses a system without
/// the network layer, but cannot see whether the message types are registered.
void configure(caf::actor_system_config& config, bool network = false);

/// Ports and network that a host brings: a simulator, or a program with a network of its own. All
/// of it outlives the runtime.
struct runtime_host {
  /// Made from a configuration that went through `configure`.
  caf::actor_system& system;
  /// Ports of the host. The tracer of this environment is used, `runtime_options::trace` is not.
  const environment& env;
  /// An actor that speaks the protocol of CAF's middleman (publish, connect). Used only over
  /// processes.
  caf::actor network;
};

} // namespace troupe
