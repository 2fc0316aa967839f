#pragma once

#include <functional>
#include <memory>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <troupe/core/environment.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/strategies/runtime/runtime_host.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

namespace troupe::detail {

/// What a process stands on: ports, an actor system and a network, its own or a host's. Made and
/// ended on the program's thread; the accessors are for any thread.
class process_host {
public:
  /// Ports of its own, and an actor system of its own unless `system` is one that outlives it. The
  /// network layer is loaded, or looked for, only for a process of a cluster (`options.task`).
  /// Throws `bad_config` for a host's system without it.
  process_host(const runtime_options& options, caf::actor_system* system);
  /// The host's ports, system and network. Throws `bad_config` for a process of a cluster without a
  /// network.
  process_host(const runtime_options& options, const runtime_host& host);
  process_host(const process_host&) = delete;
  process_host& operator=(const process_host&) = delete;

  const environment& env() const { return *env_; }
  caf::actor_system& system() const { return *system_; }
  /// Speaks the protocol of CAF's middleman; null within one process.
  const caf::actor& network() const { return network_; }
  /// False where a host brought the ports: it says itself, on its own terms, what people should
  /// read.
  bool has_own_ports() const { return own_ports_; }
  /// Takes lines about problems: `options.on_notice`, else stderr; null for a host that brought the
  /// ports and gave no function.
  std::function<void(const std::string& line)> notices(const runtime_options& options) const;
  /// Keeps its own ports until the process ends: threads that were given up, or actors, may still
  /// use them. What comes back from a hung step asks for the time on its way out.
  void keep_ports();

private:
  void take_system(caf::actor_system* system, bool networked);

  // in the order in which it must go: the system before the ports
  std::unique_ptr<production_ports> ports_{};
  std::unique_ptr<data_transport> transport_{};
  std::unique_ptr<environment> own_env_{};
  const environment* env_ = nullptr;
  const bool own_ports_;
  caf::actor_system_config config_{};
  std::unique_ptr<caf::actor_system> own_system_{};
  caf::actor_system* system_ = nullptr;
  caf::actor network_{};
};

} // namespace troupe::detail
