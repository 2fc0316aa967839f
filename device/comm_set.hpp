#pragma once

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

/// One device's place in a group, for one epoch of it. A handle.
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

/// The communicators of one device. Any thread. Each belongs to one epoch of its group; when that
/// is revoked, or the communicator reports an error of its own, it is aborted on a lane of its own,
/// since an abort may hang: past `device_options::abort_max` the device is given up. What waits for
/// an event behind a collective of such a group is told `revoked` or `collective_failed`, and what
/// the collective wrote to is undefined. That goes for each stream that waited for it by `depends`:
/// its events are told until one was. A collective that has not ended after
/// `device_options::hang_after` ends its group: a member may be missing.
class comm_set {
public:
  explicit comm_set(std::shared_ptr<detail::device_core> core);
  ~comm_set();
  comm_set(const comm_set&) = delete;
  comm_set& operator=(const comm_set&) = delete;

  /// The key that one member draws and tells the others.
  result<comm_key> draw_key();
  /// Joins; all members call it. Waits on the calling lane. `deadline` names the members' number;
  /// `revoked` when the epoch ends meanwhile; `device_unavailable` without collectives.
  result<device_comm> open(group_epoch epoch, const comm_key& key, std::uint32_t size,
                           std::uint32_t rank, duration timeout);
  /// Sums `count` elements in place over all members, in rank order on CPUs, in an order of the
  /// library's on GPUs. All members call the same in the same order.
  result<stream_event> all_reduce(const device_comm& comm, const device_stream& stream, void* data,
                                  std::uint64_t count, dtype type = dtype::f32);
  /// An event behind all that the stream holds now, collectives of `comm` among it: what waits for
  /// it is told when the group broke.
  result<stream_event> mark(const device_comm& comm, const device_stream& stream);
  /// Ends all communicators of this epoch and of earlier ones. Does not wait.
  void revoke(group_epoch epoch, const std::string& reason);
  /// Those that are in use or being ended.
  std::uint32_t open_count() const;

private:
  friend class device;
  /// Ends all, until the deadline. False when an abort did not come back.
  bool close(time_point deadline);
  /// Leaves all behind, without waiting.
  void abandon();
  const std::shared_ptr<detail::comm_table> table_;
};

} // namespace troupe
