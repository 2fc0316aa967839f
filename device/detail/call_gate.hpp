#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <troupe/core/environment.hpp>

namespace troupe::detail {

/// Counts the calls that are under way, so that whoever takes away what they work on can wait for
/// them. Any thread.
class call_gate {
public:
  explicit call_gate(const environment& env) : changed_{env.waits.make_point()} {}
  /// Enters the gate. False once it was shut; else `leave` follows.
  bool enter() {
    std::lock_guard lock{mutex_};
    inside_ += shut_ ? 0 : 1;
    return !shut_;
  }
  void leave() {
    std::lock_guard lock{mutex_};
    if (--inside_ == 0)
      changed_->notify_all();
  }
  /// Nobody enters any more. False when it was shut before. Does not wait.
  bool shut() {
    std::lock_guard lock{mutex_};
    return !std::exchange(shut_, true);
  }
  bool is_shut() const {
    std::lock_guard lock{mutex_};
    return shut_;
  }
  /// Waits until nobody is inside. False when somebody still is at the deadline.
  bool await_empty(time_point deadline) {
    std::unique_lock lock{mutex_};
    return wait_for(*changed_, lock, deadline, [this] { return inside_ == 0; });
  }

private:
  mutable std::mutex mutex_{};
  const std::unique_ptr<wait_point> changed_;
  std::uint64_t inside_ = 0;
  bool shut_ = false;
};

/// A call's time inside a gate.
class call_pass {
public:
  explicit call_pass(call_gate& gate) : gate_{gate.enter() ? &gate : nullptr} {}
  ~call_pass() {
    if (gate_)
      gate_->leave();
  }
  call_pass(const call_pass&) = delete;
  call_pass& operator=(const call_pass&) = delete;
  explicit operator bool() const { return gate_ != nullptr; }

private:
  call_gate* const gate_;
};

} // namespace troupe::detail
