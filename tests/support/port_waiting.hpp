#pragma once

#include <chrono>
#include <mutex>

#include <troupe/core/environment.hpp>

namespace troupe::testing {

/// Waits on the ports of `env` for what other threads make true; how the last look went.
template <class Pred>
[[nodiscard]] bool comes_true(const environment& env, Pred holds,
                              duration limit = std::chrono::seconds{20}) {
  auto point = env.waits.make_point();
  std::mutex mutex;
  const auto deadline = after(env.clock.now(), limit);
  while (!holds() && env.clock.now() < deadline) {
    std::unique_lock lock{mutex};
    (void)point->wait_until(lock, after(env.clock.now(), std::chrono::milliseconds{1}));
  }
  return holds();
}

} // namespace troupe::testing
