#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <troupe/core/promise.hpp>
#include <troupe/device/device.hpp>
#include <troupe/messages/interfaces.hpp>

namespace troupe {

struct device_actor_options {
  std::shared_ptr<device_backend> backend{};
  std::uint32_t index = 0;
  device_options how{};
  /// How often the actor looks whether the device's poller, which probes the streams, goes on; one
  /// that hangs in the driver for `device_options::hang_after` ends the device.
  std::uint64_t check_ms = 1'000;
  std::uint32_t watchers_max = 4'096;
  /// Called once, on the actor's thread: the device is in use, or the failure that it could not be.
  std::function<void(result<std::shared_ptr<device>>)> opened{};
  /// Set when the actor has ended: true when nothing of the device was left behind.
  std::shared_ptr<promise_slot<bool>> closed{};
};

/// The owner of one device: takes it into use and gives it back, each on a thread of its own since
/// a driver may take its time; watches over its poller; and when it fails tells who watches. No
/// handler calls the driver. Work does not pass here: threads use the `device` itself.
class device_state {
public:
  using interface = device_actor;
  static constexpr const char* name = "troupe.device";

  device_state(interface::pointer self, const environment& env, device_actor_options options);
  ~device_state();
  interface::behavior_type make_behavior();

private:
  enum timer : std::uint8_t { opened_timer = 1, check_timer = 2, closed_timer = 3 };
  /// The result of a thread, which may outlive the actor.
  struct outcome {
    std::mutex mutex{};
    std::shared_ptr<device> made{};
    failure why{};
    bool unwanted = false; ///< the actor has ended meanwhile
  };

  void on_failed(device_failed& msg);
  void on_watch(watch_device& msg);
  device_report on_query();
  void on_close(const close_device& msg);
  void on_tick(const tick& msg);
  void on_opened();
  void on_closed();
  void look_at_poller();
  void tell_opened(result<std::shared_ptr<device>> what);
  void run_on_thread(const std::string& what, std::uint8_t then,
                     std::function<void(outcome&)> body);
  std::string text() const;

  interface::pointer self_;
  const environment& env_;
  device_actor_options options_;
  std::shared_ptr<outcome> outcome_{std::make_shared<outcome>()};
  std::unique_ptr<thread_handle> thread_{};
  std::shared_ptr<device> device_{};
  std::uint64_t heartbeats_ = 0; ///< of the poller, when last looked at
  std::uint64_t silent_ms_ = 0;  ///< that it stood still, by our own looks
  bool closing_ = false;
  std::unique_ptr<device_failed> failed_{}; ///< null: it is well
  std::vector<std::shared_ptr<device_watcher>> watchers_{};
};

device_actor spawn_device(caf::actor_system& system, const environment& env,
                          device_actor_options options);

} // namespace troupe
