#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <troupe/device/fake_backend.hpp>

#include "../../../support/gpu_machine.hpp"
#include "support.hpp"

/// What the tests of replicas on devices share.
namespace replicas_test {

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
