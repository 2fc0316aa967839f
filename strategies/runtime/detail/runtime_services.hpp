#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/fwd.hpp>

#include <troupe/actors/devices/device_plane.hpp>
#include <troupe/actors/replicas/worker_meeting.hpp>
#include <troupe/core/environment.hpp>

namespace troupe::detail {

/// The services of a runtime that strategies use, and how a runtime that ends tells them.
struct runtime_services {
  runtime_services(const environment& e, caf::actor_system& s, std::shared_ptr<device_plane> d)
    : env{e}, system{s}, devices{std::move(d)} {}

  const environment& env;
  caf::actor_system& system;
  const std::shared_ptr<device_plane> devices;
  std::shared_ptr<worker_meeting> meeting{}; ///< with peer workers; null: there are none
  /// Lines for people, from any thread: to stderr, unless a host brought the environment.
  std::function<void(const std::string& line)> say{[](const std::string&) {}};

  /// `close(deadline)` is called when the runtime shuts down, before its actors and ports go;
  /// false: something of it was left behind. Not called for what has ended before: give a weak
  /// pointer.
  void at_shutdown(std::function<bool(time_point)> close) {
    std::lock_guard lock{mutex_};
    closers_.push_back(std::move(close));
  }
  bool close(time_point deadline) {
    std::vector<std::function<bool(time_point)>> all;
    {
      std::lock_guard lock{mutex_};
      closed_ = true;
      all = std::exchange(closers_, {});
    }
    bool clean = true;
    for (auto& each : all)
      clean = each(deadline) && clean;
    if (meeting)
      meeting->close(deadline);
    return clean;
  }
  bool closed() const {
    std::lock_guard lock{mutex_};
    return closed_;
  }

private:
  mutable std::mutex mutex_{};
  std::vector<std::function<bool(time_point)>> closers_{};
  bool closed_ = false;
};

} // namespace troupe::detail
