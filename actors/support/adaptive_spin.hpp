#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include <troupe/core/time.hpp>

namespace troupe {

/// Whether the cores are free enough to wait awake. Who waits awake gives its core away at each
/// look; beside other work it gets it back a time slice later, while one who sleeps is let in when
/// it is woken. One slow look rules out looks for a while, twice as long each time in a row, so
/// that chance costs little and lasting work next to nothing. Any thread; plain arithmetic.
class adaptive_spin {
public:
  static constexpr duration slow_look = std::chrono::microseconds{100};
  static constexpr duration shortest = std::chrono::milliseconds{2};
  static constexpr duration longest = std::chrono::milliseconds{128};

  /// Whether to look rather than sleep.
  bool may_look(time_point now) const {
    return now.time_since_epoch() >= crowded_until_.load(std::memory_order_relaxed);
  }
  /// Notes a look that took `took` and ended at `now`. False: look no more.
  bool looked(time_point now, duration took) {
    if (took < slow_look)
      return true;
    const auto pause = next_.load(std::memory_order_relaxed);
    next_.store(std::min(2 * pause, longest), std::memory_order_relaxed);
    crowded_until_.store(after(now, pause).time_since_epoch(), std::memory_order_relaxed);
    return false;
  }
  /// Notes that a wait went by without a slow look.
  void went_well() {
    if (next_.load(std::memory_order_relaxed) != shortest)
      next_.store(shortest, std::memory_order_relaxed);
  }

private:
  std::atomic<duration> crowded_until_{duration{}};
  std::atomic<duration> next_{shortest};
};

} // namespace troupe
