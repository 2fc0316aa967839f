#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/device/comm_set.hpp>
#include <troupe/device/device.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

struct replica_comms_options {
  std::uint32_t first_id = 0; ///< of the first local replica
  std::uint32_t local = 1;
  /// All members are replicas of this process. CPU devices have collectives within one process
  /// alone.
  bool one_process = true;
};

/// The places of a process's replicas among their devices: one communicator a replica, for each
/// epoch of their group, opened when the first collective of device tensors comes. `join` on the
/// replicas' threads, each its own; the rest on any thread, without waiting.
class replica_comms {
public:
  replica_comms(const environment& env, replica_comms_options options);
  replica_comms(const replica_comms&) = delete;
  replica_comms& operator=(const replica_comms&) = delete;

  /// The replica's communicator in the epoch that `group`, its own member, is in; none when the
  /// members' devices have no collectives in common, or two members use one and the same device,
  /// be it from two processes, which all find alike: then what they have goes through the host. All
  /// members call it at the same place in their sequence of operations; the first time in an epoch
  /// it waits for them, until `with.deadline`. `stream`: where the replica's collectives run; what
  /// it was told of earlier epochs' end is forgotten. Errors are those of the group and of
  /// `comm_set::open`; `bad_frame`: rank 0's key breaks the grammar.
  result<device_comm> join(std::uint32_t local, collective_group& group,
                           const std::shared_ptr<device>& on, const device_stream& stream,
                           const collective_options& with);
  /// Ends the replica's communicator of this epoch and of those before; whoever opens one for them
  /// is told so. Takes no lock that is held while somebody waits.
  void revoke(std::uint32_t local, group_epoch epoch, const std::string& why);
  /// Ends all communicators, for good.
  void close();

private:
  struct place {
    group_epoch epoch{};          ///< that `comm` is for, or that has none; 0: none yet
    device_comm comm{};           ///< of the replica's thread
    std::shared_ptr<device> on{}; ///< where communicators may be open
  };
  result<bool> agree(std::uint32_t local, collective_group& group, device& on,
                     const collective_options& with) const;
  struct replica_identity;
  replica_identity identity_of(std::uint32_t local, device& on) const;

  const environment& env_;
  const replica_comms_options options_;
  const comm_epochs epochs_{};
  mutable std::mutex mutex_{};
  std::vector<place> places_;
};

} // namespace troupe
