#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/lane_context.hpp>
#include <troupe/device/detail/event_poller.hpp>
#include <troupe/device/device.hpp>
#include <troupe/device/health.hpp>

/// What the handles of one device share. It outlives the device object with the last of them.
namespace troupe::detail {

struct stream_state {
  std::string name{};
  native_stream native{};
};

struct device_core : std::enable_shared_from_this<device_core> {
  device_core(const environment& e, std::shared_ptr<device_table> t, std::uint32_t index,
              device_options o);
  ~device_core();

  /// Why nothing can be done any more, if so. `what` names the call.
  std::optional<failure> refuse(const char* what) const;
  /// The failure that `answer` means; sticky when it is final.
  failure fail(const std::string& stream, const char* operation, const device_answer& answer);
  device_answer take_event(native_event& out);
  void return_event(native_event event);
  void bind() { (void)table->bind(id.index); }
  /// Gives all that is known back to the device.
  void release_all();
  /// Leaves all of it behind, and says so.
  void abandon_all();

  const environment env;
  const std::shared_ptr<device_table> table;
  const device_id id;
  const device_options options;
  device_facts facts{};
  const std::shared_ptr<device_health> health{std::make_shared<device_health>()};
  caching_pool pool;
  caching_pool host_pool;
  const std::shared_ptr<event_poller> poller;
  std::unique_ptr<lane> poller_lane{};

  std::atomic<std::uint64_t> operations{0};
  std::atomic<bool> closed{false};
  mutable std::mutex mutex{};
  std::vector<std::shared_ptr<stream_state>> streams{};
  std::vector<native_event> spare_events{};
  std::uint64_t events_made = 0;
};

/// A wait that began at `begin` brought nothing and took no time: a simulated process is over, and
/// its destructors wait in vain.
inline bool waits_in_vain(const environment& env, time_point begin) {
  return current_context().destructors > 0 && env.clock.now() == begin;
}

/// Whose end makes an event mean nothing.
struct event_guard {
  virtual ~event_guard() = default;
  virtual std::optional<failure> broken() const = 0;
};

struct event_state {
  event_state(std::shared_ptr<device_core> c, std::shared_ptr<stream_state> s, const char* op)
    : core{std::move(c)}, stream{std::move(s)}, operation{op} {}
  ~event_state() {
    if (native.handle)
      core->return_event(native);
  }
  event_state(const event_state&) = delete;
  event_state& operator=(const event_state&) = delete;

  const std::shared_ptr<device_core> core;
  const std::shared_ptr<stream_state> stream;
  const char* operation;
  native_event native{};
  time_point since{};
  std::shared_ptr<const event_guard> guard{};
};

struct memory_state {
  memory_state(std::shared_ptr<device_core> c, bool on_host, pool_block b)
    : core{std::move(c)}, host{on_host}, block{b} {}
  ~memory_state();
  memory_state(const memory_state&) = delete;
  memory_state& operator=(const memory_state&) = delete;

  const std::shared_ptr<device_core> core;
  const bool host;
  const pool_block block;
  std::mutex mutex{};
  std::vector<native_stream> used_on{};
};

} // namespace troupe::detail
