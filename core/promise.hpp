#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <troupe/core/environment.hpp>

namespace troupe {

/// A value that an actor gives and a user thread or lane waits for. `set` from any thread, once;
/// later calls are ignored.
template <class T>
class promise_slot {
public:
  explicit promise_slot(const environment& env) : changed_{env.waits.make_point()} {}

  void set(result<T> value) {
    std::lock_guard lock{mutex_};
    if (value_)
      return;
    value_ = std::move(value);
    changed_->notify_all();
  }

  /// `deadline` as a failure, naming `what`, when nothing came in time. Takes the value: wait once.
  result<T> wait(time_point deadline, std::string_view what) {
    std::unique_lock lock{mutex_};
    if (!wait_for(*changed_, lock, deadline, [this] { return value_.has_value(); }))
      return make_failure(errc::deadline, std::string{what} + ": no answer in time");
    return std::move(*value_);
  }

private:
  std::mutex mutex_;
  std::unique_ptr<wait_point> changed_;
  std::optional<result<T>> value_{};
};

} // namespace troupe
