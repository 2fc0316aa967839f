#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <troupe/core/production_ports.hpp>
#include <troupe/core/tracers.hpp>
#include <troupe/device/cpu_backend.hpp>
#include <troupe/device/fake_backend.hpp>
#include <troupe/strategies/runtime/runtime.hpp>
#include <troupe/transport/memory_transport.hpp>

namespace troupe::testing {

/// A host whose devices are made-up GPUs, and CPUs beside them unless `cpus` is 0.
struct gpu_machine {
  explicit gpu_machine(std::uint32_t gpus = 2, std::uint32_t cpus = 2)
    : gpu_machine{{.devices = gpus}, nullptr, cpus} {}
  /// `over`: null for hosts that talk to nobody.
  gpu_machine(fake_options gpus, std::unique_ptr<data_transport> over, std::uint32_t cpus = 2)
    : transport{over ? std::move(over) : make_memory_transport(ports->waits())} {
    configure(config);
    system = std::make_unique<caf::actor_system>(config);
    port.gpus = std::make_shared<fake_backend>(env, gpus);
    if (cpus > 0)
      port.cpus = make_cpu_backend(env, {.devices = cpus});
    env.devices = &port;
  }
  fake_backend& backend() { return *port.gpus; }
  const fake_backend& backend() const { return *port.gpus; }
  runtime_host here() { return {*system, env, {}}; }

  struct both final : device_port {
    std::vector<std::shared_ptr<device_backend>> backends() override {
      if (!cpus)
        return {gpus};
      return {cpus, gpus};
    }
    std::shared_ptr<device_backend> cpus{};
    std::shared_ptr<fake_backend> gpus{};
  };
  std::unique_ptr<production_ports> ports = make_production_ports();
  const std::unique_ptr<data_transport> transport;
  counting_tracer traced{};
  environment env{ports->clock(), ports->random(), ports->storage(), ports->threads(),
                  ports->waits(), *transport,      &traced};
  caf::actor_system_config config{};
  std::unique_ptr<caf::actor_system> system;
  both port{};
};

} // namespace troupe::testing
