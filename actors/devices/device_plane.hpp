#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/devices/device.hpp>
#include <troupe/device/device.hpp>

namespace troupe {

struct device_plane_options {
  std::uint32_t cpu_devices = 1; ///< where the environment brings no devices of its own
  device_options device{};
  std::uint64_t check_ms = 1'000;
  duration open_max = std::chrono::seconds{60};
};

/// The devices of a process: what there is, and an actor for each that is in use. Threads of the
/// program and compute threads call it; it waits.
class device_plane : public std::enable_shared_from_this<device_plane> {
public:
  /// @pre owned by a shared_ptr: actors tell it when devices are open.
  device_plane(const environment& env, caf::actor_system& system, device_plane_options options);
  ~device_plane();
  device_plane(const device_plane&) = delete;
  device_plane& operator=(const device_plane&) = delete;

  /// All devices, CPUs first, by number.
  std::vector<device_info> list();
  /// The device of that id, in use: opened, with its actor, when it is first asked for.
  /// `device_unavailable` says what there is instead, and why there is no GPU.
  result<std::shared_ptr<device>> open(const device_id& id);
  /// Has `by` told when that device fails, whenever it comes into use.
  void watch(const device_id& id, std::shared_ptr<device_watcher> by);
  /// Ends all devices. False when one was left behind.
  bool close(time_point deadline);

private:
  struct entry {
    device_actor actor{};
    std::shared_ptr<promise_slot<bool>> closed{};
    std::optional<result<std::shared_ptr<device>>> made{};
  };
  const std::vector<std::shared_ptr<device_backend>>& backends();
  failure not_there(const device_id& id);
  void start(const device_id& id, std::shared_ptr<device_backend> backend);

  const environment& env_;
  caf::actor_system& system_;
  const device_plane_options options_;
  std::mutex mutex_{};
  const std::unique_ptr<wait_point> changed_;
  std::vector<std::shared_ptr<device_backend>> backends_{};
  std::string why_no_gpu_{};
  std::map<device_id, std::shared_ptr<entry>> entries_{};
  std::map<device_id, std::vector<std::shared_ptr<device_watcher>>> watchers_{};
  bool closed_ = false;
};

} // namespace troupe
