#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <memory>
#include <string>

#include <troupe/core/production_ports.hpp>
#include <troupe/device/comm_set.hpp>
#include <troupe/device/cuda_backend.hpp>
#include <troupe/device/device.hpp>
#include <troupe/transport/memory_transport.hpp>

/// What the tests on a GPU share. Where there is none they are skipped, with one line that says
/// why.
namespace gpu_test {

using namespace troupe;
using namespace std::chrono_literals;

/// This machine, to the end of the process.
struct machine {
  machine() {
    auto found = make_cuda_backend(env);
    if (found)
      backend = std::move(*found);
    else
      std::printf("skipped: %s\n", to_string(found.error()).c_str());
  }
  std::unique_ptr<production_ports> ports = make_production_ports();
  std::unique_ptr<data_transport> transport = make_memory_transport(ports->waits());
  environment env{ports->clock(),   ports->random(), ports->storage(),
                  ports->threads(), ports->waits(),  *transport};
  std::shared_ptr<device_backend> backend{};
};

inline machine& here() {
  static auto& all = *new machine;
  return all;
}

inline bool no_gpu() { return here().backend == nullptr; }

inline std::shared_ptr<device> open_gpu() {
  return device::open(here().env, here().backend, 0).value_or_throw();
}

inline void closes_well(const std::shared_ptr<device>& d) {
  auto closed = d->close(20s);
  CHECK_MESSAGE(closed, (closed ? std::string{} : to_string(closed.error())));
}

} // namespace gpu_test

#define GPU_TEST(title) TEST_CASE(title* doctest::skip(gpu_test::no_gpu()))
