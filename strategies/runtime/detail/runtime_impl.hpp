#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <troupe/actors/control_plane/control_plane.hpp>
#include <troupe/actors/devices/device_plane.hpp>
#include <troupe/actors/membership/membership.hpp>
#include <troupe/actors/server/parameter_server.hpp>
#include <troupe/actors/worker/worker.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/strategies/runtime/detail/cluster.hpp>
#include <troupe/strategies/runtime/detail/runtime_services.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

namespace troupe {

/// The objects that a runtime owns, in the order in which it must go: actors before the system, the
/// system before the ports.
class runtime::impl {
public:
  impl(runtime_options options, caf::actor_system* host);
  impl(runtime_options options, const runtime_host& host);
  ~impl();

  int serve();
  void shutdown(duration timeout, cluster_end how);
  bool is_coordinator() const { return !options_.task || options_.task->job == job_kind::chief; }

  const runtime_options options_;

private:
  friend class runtime;
  /// A member that runs in this process.
  struct local_member {
    task_id task{};
    std::shared_ptr<promise_slot<bool>> ended{};
    std::shared_ptr<promise_slot<incarnation>> admitted{};
    std::shared_ptr<std::shared_ptr<worker_lanes>> lanes{};
    std::function<void()> leave{}; ///< asks it to leave the cluster and end
  };
  class data_lane;

  bool over_processes() const { return options_.task.has_value(); }
  bool is_synchronous() const { return !options_.peers.empty(); }
  void make_system(caf::actor_system* host);
  void start_or_end();
  void let_go();
  template <class Actor>
  void follow_end(const Actor& actor);
  void follow_worker(const worker_actor& actor, const local_member& local,
                     const std::shared_ptr<std::atomic<std::uint32_t>>& alive);
  void start();
  void start_coordinator();
  void start_embedded_members();
  void make_control(bool listen);
  void start_server();
  void start_worker();
  void make_devices();
  std::uint32_t lanes_here() const;
  worker_lanes_options lanes_of(const task_id& task) const;
  void watch_devices(const task_id& task, const worker_actor& actor);
  void wait_started();
  std::string whom_start_waits_for();
  std::string named(job_kind job, std::uint32_t index) const;
  result<bool> wait_served(local_member& local);
  membership_actor_options membership_settings();
  std::function<void(const std::string&)> notices() const;
  coordinator_options coordinator_settings();
  member_options member_settings(const task_id& task, local_member& local);
  worker_routes embedded_routes();
  worker_routes process_routes(std::shared_ptr<const std::function<view()>> current,
                               const std::string& data_address);
  result<std::unique_ptr<server_link>> link_from_program(std::uint32_t server, term_no term);
  result<std::unique_ptr<server_vault>> vault_from_program(std::uint32_t server, term_no term);
  member server_member(std::uint32_t server);

  std::unique_ptr<production_ports> ports_;
  std::unique_ptr<data_transport> transport_;
  std::unique_ptr<environment> own_env_; ///< null when the host brought one
  const environment* env_ = nullptr;
  caf::actor_system_config config_{};
  std::unique_ptr<caf::actor_system> own_system_;
  caf::actor_system* system_ = nullptr;
  caf::actor network_{}; ///< null within one process
  std::unique_ptr<data_lane> data_;
  std::shared_ptr<control_plane> control_; ///< null for servers and within one process
  std::shared_ptr<device_plane> devices_{};
  std::shared_ptr<detail::runtime_services> services_{};
  std::vector<device_id> step_devices_{}; ///< those that lanes take turns over
  std::vector<std::shared_ptr<shard_store>> stores_{};
  std::vector<local_member> members_{};
  membership_actor membership_{};
  std::shared_ptr<promise_slot<bool>> membership_ended_{};
  std::shared_ptr<coordinator_shared> shared_{};
  std::shared_ptr<cluster> cluster_{};
  std::string address_{};
  const int exceptions_ = std::uncaught_exceptions(); ///< when it was made
  bool ended_ = false;
  bool lanes_abandoned_ = false; ///< or an actor that didn't end in time
  std::vector<std::shared_ptr<promise_slot<bool>>> actors_gone_{};
};

} // namespace troupe
