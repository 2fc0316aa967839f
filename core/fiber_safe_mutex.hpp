#pragma once

#include <memory>
#include <mutex>

#include <troupe/core/environment.hpp>

namespace troupe {

/// A mutex that its holder may keep while it calls a port: there a thread of a simulation may lose
/// the processor, and whoever came for a `std::mutex` meanwhile would stop all of them. For
/// `std::lock_guard`. On compute threads and threads of the program, never in an actor's handler.
class fiber_safe_mutex {
public:
  explicit fiber_safe_mutex(wait_port& waits) : freed_{waits.make_point()} {}
  fiber_safe_mutex(const fiber_safe_mutex&) = delete;
  fiber_safe_mutex& operator=(const fiber_safe_mutex&) = delete;

  void lock() {
    std::unique_lock lock{mutex_};
    while (taken_)
      if (!freed_->wait_until(lock, never)) // a torn down process, where nobody runs any more
        break;
    taken_ = true;
  }
  void unlock() {
    const std::lock_guard lock{mutex_};
    taken_ = false;
    freed_->notify_one();
  }

private:
  std::mutex mutex_{};
  const std::unique_ptr<wait_point> freed_;
  bool taken_ = false;
};

} // namespace troupe
