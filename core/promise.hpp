#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <troupe/core/environment.hpp>

namespace troupe {

/// A value that an actor gives and a user thread or compute thread waits for. `set` from any
/// thread, once; later calls are ignored.
template <class T>
class promise_slot {
public:
  explicit promise_slot(const environment& env) : changed_{env.waits.make_point()} {}

  void set(result<T> value) { (void)try_set(std::move(value)); }

  /// Sets the value. False when it was set before, or whoever waited has given up.
  bool try_set(result<T> value) {
    std::lock_guard lock{mutex_};
    if (value_ || given_up_)
      return false;
    value_ = std::move(value);
    changed_->notify_all();
    return true;
  }

  /// Whether whoever waited went away without a value: nobody will look at one.
  bool given_up() const {
    std::lock_guard lock{mutex_};
    return given_up_;
  }

  /// Waits for the value and takes it: wait once. When nothing came in time, the failure is
  /// `deadline`, naming `what`, and nothing comes any more.
  result<T> wait(time_point deadline, std::string_view what) {
    std::unique_lock lock{mutex_};
    auto out = take(lock, deadline, what);
    given_up_ = !out && !value_;
    return out;
  }

  /// `wait` that may be called again after a deadline.
  result<T> poll_until(time_point deadline, std::string_view what) {
    std::unique_lock lock{mutex_};
    return take(lock, deadline, what);
  }

private:
  result<T> take(std::unique_lock<std::mutex>& lock, time_point deadline, std::string_view what) {
    if (!wait_for(*changed_, lock, deadline, [this] { return value_.has_value(); }))
      return make_failure(errc::deadline, std::string{what} + ": deadline exceeded");
    return std::move(*value_);
  }

  mutable std::mutex mutex_;
  std::unique_ptr<wait_point> changed_;
  std::optional<result<T>> value_{};
  bool given_up_ = false;
};

} // namespace troupe
