#pragma once

#include <cstdint>
#include <memory>

#include <troupe/core/device_port.hpp>
#include <troupe/core/environment.hpp>

namespace troupe {

struct cpu_backend_options {
  std::uint32_t devices = 1;
  /// Operations that a stream holds; one more waits.
  std::uint32_t queue_len_max = 1'024;
  /// How long it waits before the device counts as failed.
  duration full_max = std::chrono::seconds{60};
  std::uint64_t memory_bytes = 0; ///< of each device, 0: no limit of its own
};

/// CPUs as devices: a stream is a thread that runs what is queued, in order, so that copies,
/// computing and collectives overlap as they do on a GPU. Memory is the host's. Collectives are the
/// in-process reduction of `transport/collective_group.hpp`. The ports outlive the backend.
std::shared_ptr<device_backend> make_cpu_backend(const environment& env,
                                                 cpu_backend_options options = {});

} // namespace troupe
