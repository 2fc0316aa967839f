#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <troupe/core/production_ports.hpp>
#include <troupe/core/tracers.hpp>
#include <troupe/device/cpu_table.hpp>
#include <troupe/device/fake_table.hpp>
#include <troupe/transport/memory_transport.hpp>

#include "support.hpp"

/// What the tests of replicas on devices share.
namespace replicas_test {

/// A host whose devices are made-up GPUs, and CPUs beside them.
struct gpu_machine {
  explicit gpu_machine(std::uint32_t gpus = 2) : gpu_machine{{.devices = gpus}, nullptr} {}
  /// `over`: null for hosts that talk to nobody.
  gpu_machine(fake_options gpus, std::unique_ptr<data_transport> over)
    : transport{over ? std::move(over) : make_memory_transport(ports->waits())} {
    configure(config);
    system = std::make_unique<caf::actor_system>(config);
    port.gpus = std::make_shared<fake_table>(env, gpus);
    port.cpus = make_cpu_table(env, {.devices = 2});
    env.devices = &port;
  }
  fake_table& table() { return *port.gpus; }
  const fake_table& table() const { return *port.gpus; }
  runtime_host here() { return {*system, env, {}}; }

  struct both final : device_port {
    std::vector<std::shared_ptr<device_table>> tables() override { return {cpus, gpus}; }
    std::shared_ptr<device_table> cpus{};
    std::shared_ptr<fake_table> gpus{};
  };
  std::unique_ptr<production_ports> ports = make_production_ports();
  const std::unique_ptr<data_transport> transport;
  counting_tracer traced{};
  environment env{ports->clock(), ports->random(), ports->storage(), ports->lanes(),
                  ports->waits(), *transport,      &traced};
  caf::actor_system_config config{};
  std::unique_ptr<caf::actor_system> system;
  both port{};
};

/// With a runtime of its own.
struct gpu_host : gpu_machine {
  explicit gpu_host(std::uint32_t gpus = 2) : gpu_machine{gpus} {
    rt = std::make_unique<runtime>(runtime_options{.workers = 1, .servers = 1}, here());
  }
  ~gpu_host() {
    port.gpus->release_hangs();
    rt = nullptr;
  }
  mirrored_strategy over(std::vector<std::string> devices, replica_options options = {}) {
    return mirrored_strategy{*rt, std::move(devices), options};
  }
  std::unique_ptr<runtime> rt;
};

/// Numbers whose sum depends on the order, other ones for each replica.
inline tensor uneven(std::int64_t replica, std::int64_t n) {
  tensor out{dtype::f32, {n}};
  for (std::int64_t i = 0; auto& each : out.mutable_as<float>()) {
    each = std::ldexp(static_cast<float>((i * 37 + replica * 101) % 113 - 56) / 7.0f,
                      static_cast<int>((i + 3 * replica) % 24) - 12);
    ++i;
  }
  return out;
}

inline bool same_bits(const tensor& a, const tensor& b) {
  return a.type() == b.type() && a.shape() == b.shape()
         && std::memcmp(a.bytes().data(), b.bytes().data(), a.size_bytes()) == 0;
}

/// The sum of one number of each replica, on the devices.
inline float device_sum(replica_context& ctx, float x) {
  auto& d = ctx.device();
  return d.get(ctx.all_reduce(reduce_op::sum, d.put(tensor::scalar(x)))).item<float>();
}

inline device_op nothing(const char* name) {
  return {.name = name, .run = [](const launch_site&) { return device_answer{}; }};
}

} // namespace replicas_test
