#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <troupe/strategies/synchronous/mirrored_strategy.hpp>
#include <troupe/troupe.hpp>

#include "../../../support/failures.hpp"
#include "../../../support/waiting.hpp"

/// What the tests of synchronous strategies share.
namespace replicas_test {

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

/// A runtime of this process with four CPU devices.
inline runtime_options four_cpus() {
  runtime_options out;
  out.workers = 1;
  out.servers = 1;
  out.cpu_devices = 4;
  return out;
}

inline std::vector<std::string> cpus(std::uint32_t n) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < n; ++i)
    out.push_back("cpu:" + std::to_string(i));
  return out;
}

/// Never destroyed: CAF 0.17's actor systems can't be, once main has returned.
inline runtime& shared_runtime() {
  static auto& rt = *new runtime{four_cpus()};
  return rt;
}

/// n replicas of the shared runtime.
inline mirrored_strategy mirrored_over(std::uint32_t n, replica_options options = {}) {
  return mirrored_strategy{shared_runtime(), cpus(n), options};
}

/// The same with one copy of each variable.
inline central_storage_strategy central(std::uint32_t n) {
  return central_storage_strategy{shared_runtime(), cpus(n)};
}

template <class T>
tensor vec(std::initializer_list<T> xs) {
  return tensor::vector<T>(xs);
}

/// {a|b|...} of whole tensors.
inline per_replica<tensor> parts(std::vector<tensor> xs) {
  return per_replica<tensor>{std::move(xs)};
}

inline std::int64_t id_of(replica_context& ctx) {
  return static_cast<std::int64_t>(ctx.replica_id_in_sync_group());
}

} // namespace replicas_test
