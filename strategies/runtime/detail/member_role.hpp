#pragma once

#include <memory>
#include <optional>
#include <string>

#include <troupe/actors/control_plane/control_plane.hpp>
#include <troupe/actors/server/data_server.hpp>
#include <troupe/actors/worker/worker.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/strategies/runtime/detail/local_member.hpp>
#include <troupe/strategies/runtime/detail/process_role.hpp>
#include <troupe/strategies/runtime/detail/server_dialer.hpp>

namespace troupe::detail {

/// A worker or a parameter server in a process of its own, which joins its cluster over the network
/// and serves until that ends.
class member_role : public process_role {
public:
  explicit member_role(const process_context& context) : context_{context} {}

  bool runs_program() const final { return false; }
  result<bool> serve() final;
  bool end(time_point deadline, const cluster_end& how) final;

protected:
  const process_context& context() const { return context_; }
  const task_id& task() const { return *context_.options.task; }
  /// The member of this process, made now: it counts as started.
  local_member& make_local();
  /// The settings of its actor: how it finds the coordinator, and where it listens itself.
  member_options networked_settings() const;
  /// `serve` and `end` ask this actor to leave.
  template <class Actor>
  void leave_by(const Actor& actor) {
    local_->on_leave([actor] { tell_from_outside(actor, leave_cluster{}); });
  }

private:
  const process_context context_;
  std::optional<local_member> local_{};
};

/// A parameter server: shards, and the data plane that serves them.
class server_role final : public member_role {
public:
  using member_role::member_role;

  step_needs needs() const override;
  void start(process_devices& devices, runtime_services& services) override;
  void close() override;

private:
  std::unique_ptr<data_server> data_{};
};

/// A worker: threads of steps, a link to the coordinator, and ways to the servers.
class worker_role final : public member_role {
public:
  explicit worker_role(const process_context& context);

  step_needs needs() const override;
  void start(process_devices& devices, runtime_services& services) override;
  void close() override;

private:
  worker_actor_options settings(const process_devices& devices);
  worker_routes routes(std::shared_ptr<const std::function<view()>> current,
                       const std::string& data_address) const;

  const server_dialer dialer_;
  std::shared_ptr<control_plane> control_{};
};

} // namespace troupe::detail
