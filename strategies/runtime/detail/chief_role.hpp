#pragma once

#include <memory>
#include <string>

#include <troupe/actors/control_plane/control_plane.hpp>
#include <troupe/actors/server/data_server.hpp>
#include <troupe/strategies/runtime/detail/coordinator_seat.hpp>
#include <troupe/strategies/runtime/detail/server_dialer.hpp>

namespace troupe::detail {

/// The coordinator of a cluster of processes: the program runs here, the members elsewhere. Listens
/// three times: for members at the coordinator's address, for workers' links and for blobs at the
/// data address.
class chief_role final : public process_role {
public:
  explicit chief_role(const process_context& context);

  step_needs needs() const override;
  void start(process_devices& devices, runtime_services& services) override;
  bool end(time_point deadline, const cluster_end& how) override;
  void close() override;
  void release() override { seat_.release(); }
  bool members_can_stay() const override { return true; }
  std::shared_ptr<coordinator_client> owner() const override { return seat_.program(); }
  const std::string& address() const override { return address_; }

private:
  membership_actor_options published_membership();
  coordinator_seat::ways ways_to_servers();

  const process_context context_;
  const server_dialer dialer_;
  std::unique_ptr<data_server> data_{};
  std::shared_ptr<control_plane> control_{};
  coordinator_seat seat_;
  std::string address_{};
};

} // namespace troupe::detail
