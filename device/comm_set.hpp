#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <troupe/device/device.hpp>
#include <troupe/transport/collective_types.hpp>

/// A device's places in groups of devices that sum together.
namespace troupe {

namespace detail {
struct comm_table;
struct comm_state;
} // namespace detail

/// A device's place in a group, for one epoch of it. A handle.
class device_comm {
public:
  device_comm() = default;
  explicit operator bool() const { return state_ != nullptr; }
  group_epoch epoch() const;
  std::uint32_t rank() const;
  std::uint32_t size() const;
  /// Why it can't be used any more, if so.
  std::optional<failure> broken() const;

private:
  friend class comm_set;
  std::shared_ptr<detail::comm_state> state_{};
};

/// The epochs of one group, counted apart from those of other groups on the same devices. A handle:
/// copies are the same group's, and may be used on all of its devices. Any thread.
class comm_epochs {
public:
  comm_epochs() : ended_{std::make_shared<std::atomic<std::uint64_t>>(0)} {}
  /// No communicator is opened any more for this epoch and those before it. Those that are open
  /// stay: `comm_set::revoke` ends them, on each device.
  void end(group_epoch epoch) const;

private:
  friend class comm_set;
  friend struct detail::comm_state;
  bool has_ended(group_epoch epoch) const { return static_cast<std::uint64_t>(epoch) < *ended_; }
  std::shared_ptr<std::atomic<std::uint64_t>> ended_; ///< those below it
};

/// The communicators of one device. Any thread. Each belongs to one epoch of its group; when that
/// is revoked, or the communicator reports an error of its own, it is aborted on a thread of its
/// own, since an abort may hang: past `device_options::abort_max` the device is given up. What
/// waits for an event behind a collective of such a group is told `revoked` or `collective_failed`,
/// and what the collective wrote to is undefined. That goes for each stream that waited for it by
/// `wait_event`: its events are told until one was. A collective that has not ended after
/// `device_options::hang_after` ends its group: a member may be missing.
class comm_set {
public:
  explicit comm_set(std::shared_ptr<detail::device_core> core);
  ~comm_set();
  comm_set(const comm_set&) = delete;
  comm_set& operator=(const comm_set&) = delete;

  /// Why this kind of device has no collectives, if so.
  std::optional<failure> why_none() const;
  /// The key that one member draws and tells the others.
  result<unique_id> get_unique_id();
  /// Joins the group; all members call it. Waits on the calling thread. `deadline` names the
  /// members' number; `revoked` when the epoch ends meanwhile; `device_unavailable` without
  /// collectives.
  result<device_comm> open(group_epoch epoch, const unique_id& key, std::uint32_t size,
                           std::uint32_t rank, duration timeout);
  /// `open` for a group that counts its own epochs: several groups may be on one device.
  result<device_comm> open(group_epoch epoch, const unique_id& key, std::uint32_t size,
                           std::uint32_t rank, duration timeout, const comm_epochs& of);
  /// Sums `count` elements in place over all members, in rank order on CPUs, in an order of the
  /// library's on GPUs. All members call the same in the same order.
  result<stream_event> all_reduce(const device_comm& comm, const device_stream& stream, void* data,
                                  std::uint64_t count, dtype type = dtype::f32);
  /// An event behind all that the stream holds now, collectives of `comm` among it: what waits for
  /// it is told when the group broke.
  result<stream_event> record_event(const device_comm& comm, const device_stream& stream);
  /// Ends all communicators of this epoch and of earlier ones, of the group that was opened without
  /// `comm_epochs`. Does not wait.
  void revoke(group_epoch epoch, const std::string& reason);
  /// `revoke` for the communicators of group `of` on this device.
  void revoke(group_epoch epoch, const std::string& reason, const comm_epochs& of);
  /// Number of communicators in use or being ended.
  std::uint32_t open_count() const;

private:
  friend class device;
  /// Ends all communicators, until the deadline. False when an abort did not come back.
  bool close(time_point deadline);
  /// Leaves all communicators behind, without waiting.
  void abandon();
  const std::shared_ptr<detail::comm_table> table_;
};

} // namespace troupe
