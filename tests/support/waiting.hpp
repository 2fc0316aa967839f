#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>

#include <poll.h>

/// Real time, for tests of real threads and processes.
namespace troupe::testing {

/// More than any wait of a green test takes; a red one ends by it.
inline constexpr std::chrono::seconds patience{60};

/// The monotonic clock, which is the same in all processes of a machine.
inline std::int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

/// Looks until `holds`, which other threads make true, for `limit` at most; how the last look went.
template <class F>
[[nodiscard]] bool comes_true(F holds, std::chrono::nanoseconds limit = patience) {
  for (const auto end = now_ns() + limit.count(); !holds(); std::this_thread::yield())
    if (now_ns() > end)
      return holds();
  return true;
}

/// `comes_true` for what other processes make true: a millisecond between looks.
template <class F>
bool eventually(F holds, std::chrono::nanoseconds limit = patience) {
  for (const auto end = now_ns() + limit.count(); !holds(); ::poll(nullptr, 0, 1))
    if (now_ns() > end)
      return holds();
  return true;
}

/// Keeps the processor busy.
inline void spin_for(std::chrono::nanoseconds duration) {
  for (const auto end = now_ns() + duration.count(); now_ns() < end;) {
  }
}

/// Knuth's linear congruential generator: the same numbers for the same `state` everywhere.
inline std::uint64_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return state >> 33;
}

} // namespace troupe::testing
