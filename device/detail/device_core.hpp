#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/execution_context.hpp>
#include <troupe/device/detail/call_gate.hpp>
#include <troupe/device/detail/event_poller.hpp>
#include <troupe/device/device.hpp>
#include <troupe/device/health.hpp>

/// The state that the handles of one device share. It outlives the device object with the last of
/// them.
namespace troupe::detail {

/// A group whose end makes an event mean nothing. Any thread.
struct event_guard {
  virtual ~event_guard() = default;
  virtual std::optional<failure> broken() const = 0;
  /// `broken` once the event has passed: asks the device, since what passed may have broken.
  virtual std::optional<failure> settled() = 0;
  /// Ends the group because the event does not pass in time.
  virtual void end(failure why) = 0;
};

using event_guards = std::vector<std::shared_ptr<event_guard>>;
struct event_state;

/// Events that are made on a stream stand behind the groups whose collectives its work waited for,
/// until one of them was found to be well, or somebody was told that it is not.
struct stream_state {
  std::string name{};
  native_stream native{};

  void stand_behind(const event_guards& some);
  /// The guards of an event that is made now, and the event's place among them.
  event_guards guards(std::uint64_t& place) const;
  /// Notes that the outcome of an event with that place is known.
  void settled(std::uint64_t place);

  std::weak_ptr<event_state> probe{}; ///< under way; the poller's
  bool retired = false;               ///< under the device's lock: the next user may have `native`

private:
  struct guarded {
    std::shared_ptr<event_guard> by{};
    std::uint64_t place = 0;
  };
  mutable std::mutex mutex_{};
  std::vector<guarded> behind_{}; ///< each that is not broken, and one that is
  std::uint64_t last_ = 0;
};

struct device_core : std::enable_shared_from_this<device_core> {
  device_core(const environment& e, std::shared_ptr<device_backend> t, std::uint32_t index,
              device_options o);
  ~device_core();

  /// Why nothing can be done any more, if so. `what` names the call.
  std::optional<failure> refuse(const char* what) const;
  /// `refuse` for a call that submits: `pass`, into `calls`, is held until it is over.
  std::optional<failure> refuse(const char* what, const call_pass& pass) const;
  /// The failure that `answer` means; sticky when it is final.
  failure fail(const std::string& stream, const char* operation, device_answer answer);
  device_answer take_event(native_event& out);
  void return_event(native_event event);
  /// Lets go of `what` once these streams have done what they hold now. Does not wait.
  void let_go(std::shared_ptr<void> what, const std::vector<std::shared_ptr<stream_state>>& after);
  /// Called by the poller: every `check_every` an event behind what each stream holds, so that what
  /// hangs is found though nobody waits for it.
  void probe_streams(time_point now);
  void bind() { (void)backend->bind(id.index); }
  /// Gives all that is known back to the device. @pre nothing runs, and both gates are shut
  void release_all();
  /// Leaves everything behind and traces it.
  void abandon_all();

  const environment env;
  const std::shared_ptr<device_backend> backend;
  const device_id id;
  const device_options options;
  device_facts facts{};
  const std::shared_ptr<device_health> health{std::make_shared<device_health>()};
  caching_pool pool;
  caching_pool host_pool;
  const std::shared_ptr<event_poller> poller;
  std::unique_ptr<thread_handle> poller_thread{};

  std::atomic<std::uint64_t> operations{0};
  // The end comes in two steps, each of which waits for who is inside. Once `calls` is shut nothing
  // is submitted any more, and streams run out; once `returns` is shut all have, and they go.
  call_gate calls;   ///< whoever puts something on a stream, or makes one
  call_gate returns; ///< memory that comes back, which marks the streams that used it
  mutable std::mutex mutex{};
  std::vector<std::shared_ptr<stream_state>> streams{};
  std::vector<native_event> spare_events{};
  std::uint64_t events_made = 0;
  time_point next_probe{};                   ///< the poller's
  std::vector<std::shared_ptr<void>> kept{}; ///< to the end: no event could be had for them
  bool ended = false;                        ///< under `mutex`: events are not kept any more
};

/// A wait that began at `begin` brought nothing and took no time: a simulated process is over, and
/// its destructors wait in vain.
inline bool waits_in_vain(const environment& env, time_point begin) {
  return current_context().destructors > 0 && env.clock.now() == begin;
}

struct event_state {
  event_state(std::shared_ptr<device_core> c, std::shared_ptr<stream_state> s, const char* op)
    : core{std::move(c)}, stream{std::move(s)}, operation{op} {
    guards = stream->guards(place);
  }
  ~event_state() {
    if (native.handle)
      core->return_event(native);
  }
  event_state(const event_state&) = delete;
  event_state& operator=(const event_state&) = delete;

  /// Takes an event of the device and records it.
  device_answer record();
  /// The failure that makes the event meaningless, if there is one.
  std::optional<failure> broken();
  /// The outcome of the work before the event, once it has passed.
  result<void> settled();
  /// Ends the groups that the event stands behind, or the device, because it has not passed in
  /// `hang_after`. Returns the failure.
  failure hangs();

  const std::shared_ptr<device_core> core;
  const std::shared_ptr<stream_state> stream;
  const char* operation;
  native_event native{};
  event_guards guards{};
  std::uint64_t place = 0;   ///< in the stream
  bool tells_nobody = false; ///< who is told that a group broke is somebody else
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
  std::vector<std::shared_ptr<stream_state>> used_on{};
  std::shared_ptr<void> foreign{}; ///< whose memory it is, if not the pool's
};

} // namespace troupe::detail
