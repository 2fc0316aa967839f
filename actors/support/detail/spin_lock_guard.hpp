#pragma once

#include <mutex>

namespace troupe::detail {

/// Takes a lock that is held for tens of microseconds at most. Going to sleep for it and being
/// woken costs more than that, so it looks for a while first; then it sleeps like any other. For
/// compute threads and threads of the program, never in an actor's handler.
class spin_lock_guard {
public:
  explicit spin_lock_guard(std::mutex& m) : lock_{m, std::defer_lock} {
    constexpr int looks_max = 2'000; // about 100 us
    for (int i = 0; i < looks_max; ++i) {
      if (lock_.try_lock())
        return;
      pause();
    }
    lock_.lock();
  }

  /// The lock, for waits.
  std::unique_lock<std::mutex>& owner() { return lock_; }

private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  std::unique_lock<std::mutex> lock_;
};

} // namespace troupe::detail
