#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <cereal/types/map.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>

#include <troupe/core/environment.hpp>
#include <troupe/core/payload.hpp>
#include <troupe/strategies/runtime/fwd.hpp>

namespace troupe {

/// Waits for a result on a user thread. Part of every remote value; any thread.
class remote_handle {
public:
  remote_handle() = default;
  remote_handle(std::shared_ptr<remote_state> state, std::shared_ptr<coordinator_client> cluster)
    : state_{std::move(state)}, cluster_{std::move(cluster)} {}
  /// The value's bytes; waits for them. Throws the closure's own error; `cancelled` when it was
  /// cancelled; `aborted` when the value went with its worker; `unavailable` when the runtime has
  /// ended or no worker lives for too long; `wrong_state` for an empty handle.
  const payload& wait() const;
  /// `wait` that returns null when `deadline` passes first.
  const payload* wait_until(time_point deadline) const;
  /// Whether the closure has ended, in whatever way.
  bool ended() const;
  const std::shared_ptr<remote_state>& state() const { return state_; }
  /// now + `d` on the cluster's clock. Throws `wrong_state` for an empty handle.
  time_point deadline_in(duration d) const;

private:
  std::shared_ptr<remote_state> state_{};
  std::shared_ptr<coordinator_client> cluster_{};
};

/// The result of a scheduled closure, at the coordinator. Copies share it. When the last copy goes
/// before the closure ended, no result is sent. A `remote_value<T>` is also an argument of later
/// closures, where the step takes a T: they run once the value has arrived, and fail as
/// `input_failed` when its closure failed. Any of the program's threads.
template <class T>
class remote_value {
public:
  remote_value() = default;
  explicit remote_value(remote_handle handle) : handle_{std::move(handle)} {}

  /// Waits for the value. May be called again, also after the worker has died: the value is at the
  /// coordinator. Throws as `remote_handle::wait`. An error that it throws is still raised by the
  /// next `schedule`, `join` or `done`.
  T fetch() const { return decode(handle_.wait()); }
  /// `fetch` that returns nothing when `timeout` passes first.
  std::optional<T> try_fetch(duration timeout) const {
    const auto* got = handle_.wait_until(handle_.deadline_in(timeout));
    return got ? std::optional<T>{decode(*got)} : std::nullopt;
  }
  /// Whether the closure has ended, in whatever way. Never waits.
  bool ready() const { return handle_.ended(); }
  const remote_handle& handle() const { return handle_; }

private:
  static T decode(const payload& bytes) {
    T out{};
    checked_reader in{bytes};
    in(out);
    return out;
  }
  remote_handle handle_{};
};

/// The end of a closure that returns nothing: `fetch` waits for it and gives no value.
template <>
class remote_value<void> {
public:
  remote_value() = default;
  explicit remote_value(remote_handle handle) : handle_{std::move(handle)} {}
  /// Waits until the closure has ended. Throws as `remote_handle::wait`.
  void fetch() const { handle_.wait(); }
  /// `fetch` that returns false when `timeout` passes first.
  bool try_fetch(duration timeout) const {
    return handle_.wait_until(handle_.deadline_in(timeout)) != nullptr;
  }
  bool ready() const { return handle_.ended(); }
  const remote_handle& handle() const { return handle_; }

private:
  remote_handle handle_{};
};

} // namespace troupe
