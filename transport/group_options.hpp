#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <troupe/core/time.hpp>
#include <troupe/transport/collective_table.hpp>
#include <troupe/transport/collective_types.hpp>

namespace troupe {

/// How a group's member listens, proves itself and waits.
struct group_options {
  std::string name = "group";         ///< members of a group of another name are strangers
  std::string listen = "127.0.0.1:0"; ///< where the others call
  /// Shared by all members. With one, callers prove that they know it, and so do those who answer;
  /// without, others than this machine's processes can't be let in.
  std::string token{};
  /// The lists of members were written by people, for each member by itself: where they differ,
  /// both sides that meet get `mismatch` at once, with the first difference. Else only the caller
  /// does, since members that go from epoch to epoch may differ for a while.
  bool lists_are_given = false;
  /// Every member listened before its address was told, as where members exchange addresses: one
  /// that refuses a call while an epoch forms has ended, and forming ends with `peer_lost` instead
  /// of waiting for it until the deadline.
  bool members_listen = false;
  /// Nobody else is on this network, as in a simulation: addresses need no token.
  bool network_is_private = false;
  /// The memory that this member may share, and with whom. None: what the environment's transport
  /// says, that is `this_locality()` in production unless shared memory is off, and nothing in a
  /// simulation.
  std::optional<group_locality> locality{};
  collective_table table{};
  duration spin = std::chrono::microseconds{200}; ///< how long a wait yields before it sleeps
  /// Memory for `allocate`, of each member, in groups of processes of one host; the same on all.
  std::size_t arena_bytes = 0;
  /// Called every five seconds while an epoch is formed or an operation waits, with those who are
  /// missing, and the operation. On the thread that waits: it must not wait itself.
  std::function<void(const std::string& missing)> on_wait{};
};

} // namespace troupe
