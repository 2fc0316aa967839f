#pragma once

namespace caf {
class actor_system_config;
}

namespace troupe {

/// Adds the types of all messages to the configuration of an actor system, before the system is
/// made.
void init_messages(caf::actor_system_config& config);

} // namespace troupe
