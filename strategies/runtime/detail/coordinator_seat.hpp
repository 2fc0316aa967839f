#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/coordinator/coordinator.hpp>
#include <troupe/actors/membership/membership.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/strategies/runtime/detail/coordinator_client.hpp>
#include <troupe/strategies/runtime/detail/process_role.hpp>

namespace troupe::detail {

/// The actors that coordinate a cluster, membership and coordinator, and the program's way to them.
/// Part of the roles that run the program; the order is theirs: settings, `start_membership`,
/// settings, `start_coordinator`, `wait_started`, `end`, `release`. The program's thread.
class coordinator_seat {
public:
  explicit coordinator_seat(const process_context& context) : context_{context} {}

  /// Settings within one process; a role over processes adds its network.
  membership_actor_options membership_settings();
  coordinator_options coordinator_settings() const;

  /// Starts the membership actor. Where it publishes itself, waits until it listens and returns its
  /// "host:port"; else empty. Throws `address_in_use`.
  std::string start_membership(membership_actor_options settings);
  /// How the program reaches the servers.
  struct ways {
    coordinator_client::link_maker connect{};
    coordinator_client::snapshot_reader_maker open_snapshot_reader{};
    bool others_join = false; ///< workers that were not described may come
  };
  /// Starts the coordinator actor and makes the program's way to it. @pre `start_membership`
  caf::strong_actor_ptr start_coordinator(coordinator_options settings, ways to);
  /// Waits until all servers and `start_workers` workers are there; every few seconds a notice
  /// names the missing ones. Throws `deadline` naming them, or what ended the start.
  void wait_started();

  /// Where a server is; without a data address when it is no member. Any thread but an actor's.
  member server_member(std::uint32_t server) const;
  const membership_actor& membership() const { return membership_; }
  coordinator_shared& shared() const { return *shared_; }
  const std::shared_ptr<coordinator_client>& program() const { return cluster_; }

  /// Ends the cluster, as far as it was started, and waits for its end.
  void end(time_point deadline, const cluster_end& how);
  void release() { membership_ = nullptr; }

private:
  std::string whom_start_waits_for() const;

  const process_context context_;
  membership_actor membership_{};
  std::shared_ptr<promise_slot<bool>> membership_ended_{};
  std::shared_ptr<coordinator_shared> shared_{};
  std::shared_ptr<coordinator_client> cluster_{};
};

} // namespace troupe::detail
