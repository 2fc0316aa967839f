#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <troupe/core/device_port.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/device/pool.hpp>

/// Streams, events and memory of a device, for compute threads. Nothing here is an actor and
/// nothing sends a message; `actors/devices/device.hpp` owns one of these and tells who watches
/// when it fails.
namespace troupe {

class device;
class comm_set;

namespace detail {
struct device_core;
struct stream_state;
struct event_state;
struct memory_state;
class call_gate;
} // namespace detail

/// A queue of operations that run one after the other. A handle; the stream lives as long as its
/// device, or goes to another user once it was retired. Any thread may submit; two threads on one
/// stream have no order between them.
class device_stream {
public:
  device_stream() = default;
  const std::string& name() const;
  native_stream native() const;
  explicit operator bool() const { return state_ != nullptr; }

private:
  friend class device;
  friend class comm_set;
  friend class device_memory;
  std::shared_ptr<detail::stream_state> state_{};
};

/// A point in a stream: passes when all that was submitted before it has ended. A handle.
class stream_event {
public:
  stream_event() = default;
  explicit operator bool() const { return state_ != nullptr; }
  /// Name of the submission that the event stands behind.
  const char* operation() const;

private:
  friend class device;
  friend class comm_set;
  std::shared_ptr<detail::event_state> state_{};
};

/// Memory of a device, or pinned memory of the host for its copies. A handle: the memory goes back
/// to the pool with the last one, in stream order, also when operations that use it still run on
/// the stream it was taken for. May outlive the device object; not usable once that is closed.
class device_memory {
public:
  device_memory() = default;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }
  /// Tells that another stream uses the memory too: it is not handed out again before that stream
  /// got past this use.
  void used_on(const device_stream& stream) const;
  /// Keeps the memory alive, for who wraps it.
  std::shared_ptr<void> owner() const;

private:
  friend class device;
  std::shared_ptr<detail::memory_state> state_{};
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct device_options {
  pool_options pool{};
  pool_options host_pool{.bytes_max = std::uint64_t{4} << 30};
  std::uint32_t streams_max = 32;
  std::uint32_t notify_max = 4'096; ///< events that somebody waits to be told of
  /// Work that is not done after this long counts as hung: the device is given up.
  duration hang_after = std::chrono::seconds{60};
  duration poll_every = std::chrono::milliseconds{1};
  /// Interval at which each stream is probed: work that hangs there is found `hang_after` later,
  /// also when nobody waits for it.
  duration check_every = std::chrono::seconds{1};
  /// How long the abort of a communicator may take before the device is given up.
  duration abort_max = std::chrono::seconds{10};
  std::uint32_t comms_max = 64;
};

struct device_statistics {
  pool_statistics memory{};
  pool_statistics host_memory{};
  std::uint64_t operations = 0;
  std::uint64_t events_open = 0; ///< that somebody waits to be told of
  std::uint32_t streams = 0;
};

/// A device of this process. Any thread. Errors name the device, the stream and the operation;
/// those that end the device (`launch_failed`, `device_lost`, `device_timeout` of work that hangs)
/// are sticky: every later call repeats the first. `device_memory`, `invalid_argument` and
/// `wrong_state` end nothing.
class device {
public:
  /// Takes the device into use. `device_unavailable`: there is no such device.
  static result<std::shared_ptr<device>> open(const environment& env,
                                              std::shared_ptr<device_backend> backend,
                                              std::uint32_t index, device_options options = {});
  /// Leaves behind what nobody closed, as after a failure.
  ~device();
  device(const device&) = delete;
  device& operator=(const device&) = delete;

  const device_id& id() const;
  const device_facts& facts() const;

  // --- work

  /// A stream. `out_of_range` when there are `streams_max`. Takes over a retired stream, if there
  /// is one: then what that one still holds runs first.
  result<device_stream> make_stream(std::string name);
  /// Gives a stream back for the next `make_stream`: the caller puts nothing on it any more. What
  /// the stream holds still runs; its events and memory stay valid. Does not wait.
  void retire(const device_stream& stream);
  /// Puts `op` at the end of the stream. May wait while the stream is full.
  result<stream_event> submit(const device_stream& stream, device_op op);
  /// `submit` for an operation that nobody waits for: costs no event.
  result<void> enqueue(const device_stream& stream, const device_op& op);
  result<stream_event> copy(const device_stream& stream, void* to, const void* from,
                            std::size_t bytes, copy_kind kind);
  /// An event behind all that the stream holds now.
  result<stream_event> record_event(const device_stream& stream);
  /// Makes `stream` wait: work that it gets from now on runs once `event`, of any device of the
  /// same backend, passed.
  result<void> wait_event(const device_stream& stream, const stream_event& event);
  /// Whether the event has passed.
  result<bool> passed(const stream_event& event);
  /// Waits for the event on the calling thread. `device_timeout` after `timeout`; `revoked` when it
  /// stands behind a collective whose group ended.
  result<void> wait(const stream_event& event, duration timeout);
  /// Has `call` called once, on the poller's thread, when the event passed or never will. It must
  /// not wait. `try_again` when `notify_max` are open.
  result<void> notify(const stream_event& event, std::function<void(const result<void>&)> call);

  // --- memory

  /// Uninitialised memory for work on `stream`. `device_memory` names the sizes.
  result<device_memory> allocate(std::size_t bytes, const device_stream& stream);
  result<device_memory> allocate_host(std::size_t bytes, const device_stream& stream);
  /// Memory that `owner` keeps alive, as a handle: with the last one the owner goes, once the
  /// streams that were told to use it got past that.
  device_memory adopt(std::shared_ptr<void> owner, void* data, std::size_t bytes);
  /// Gives the device what is cached and not in use.
  void trim();

  // --- collectives
  comm_set& comms();

  // --- life

  /// The first failure of the device.
  std::optional<failure> why_failed() const;
  /// Has `call` called with the device's failure, at once if there was one already; on whatever
  /// thread saw it.
  void on_failure(std::function<void(const failure&)> call);
  /// Ends the device for a reason of the caller's.
  void give_up(failure why);
  device_statistics statistics() const;
  /// The poller's rounds so far. While it is open the number grows ten times a second; when it
  /// does not, a call of the driver hangs there. Does not wait.
  std::uint64_t heartbeats() const;
  /// Takes no more work; what runs may finish until `timeout` has passed. Gives all back, unless
  /// the device failed: then nothing of it is touched any more and `device.abandoned` is traced
  /// with what is left behind. A later call changes nothing, and repeats what failed.
  result<void> close(duration timeout);

private:
  explicit device(std::shared_ptr<detail::device_core> core);
  result<device_memory> allocate_from(bool host, std::size_t bytes, const device_stream& stream);
  void drain(time_point deadline, bool must);
  void stop_poller(time_point deadline);
  void await_nobody(detail::call_gate& gate, time_point deadline, const char* who);
  stream_event event_for(const device_stream& stream, const char* operation, device_answer& answer);
  const std::shared_ptr<detail::device_core> core_;
  const std::unique_ptr<comm_set> comms_;
};

} // namespace troupe
