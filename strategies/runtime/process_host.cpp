#include <troupe/strategies/runtime/detail/process_host.hpp>

#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include <troupe/core/caf_compat.hpp>
#include <troupe/transport/host_transport.hpp>

namespace troupe::detail {

process_host::process_host(const runtime_options& options, caf::actor_system* system)
  : ports_{make_production_ports()},
    transport_{make_host_transport(
      ports_->clock(), {.shared_memory = options.shared_memory, .trace = options.trace})},
    own_env_{std::make_unique<environment>(
      environment{ports_->clock(), ports_->random(), ports_->storage(), ports_->threads(),
                  ports_->waits(), *transport_, options.trace})},
    env_{own_env_.get()},
    own_ports_{true} {
  const bool networked = options.task.has_value();
  take_system(system, networked);
  if (networked)
    network_ = network_of(*system_);
}

process_host::process_host(const runtime_options& options, const runtime_host& host)
  : env_{&host.env},
    own_ports_{false},
    system_{&host.system},
    network_{options.task ? host.network : caf::actor{}} {
  if (options.task && !network_)
    throw_failure(errc::bad_config, "runtime: the host has no network layer");
}

void process_host::take_system(caf::actor_system* system, bool networked) {
  if (system) {
    if (networked && !system->has_middleman())
      throw_failure(errc::bad_config,
                    "runtime: the host's actor system has no network layer; call "
                    "troupe::configure(config, true) before it is built");
    system_ = system;
    return;
  }
  configure(config_, networked);
  own_system_ = std::make_unique<caf::actor_system>(config_);
  system_ = own_system_.get();
}

std::function<void(const std::string&)> process_host::notices(
  const runtime_options& options) const {
  if (options.on_notice || !own_ports_)
    return options.on_notice;
  return [](const std::string& line) {
    std::fprintf(stderr, "troupe: %s\n", line.c_str());
    std::fflush(stderr); // the process may be about to leave without its last steps
  };
}

namespace {

/// Never destroyed, so reachable to the end.
void keep_for_ever(std::shared_ptr<const void> what) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<const void>>;
  std::lock_guard lock{mutex};
  kept.push_back(std::move(what));
}

} // namespace

void process_host::keep_ports() {
  keep_for_ever(std::move(ports_));
  keep_for_ever(std::move(transport_));
  keep_for_ever(std::move(own_env_));
}

} // namespace troupe::detail
