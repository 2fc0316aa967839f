#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <troupe/actors/shards/shard_store.hpp>
#include <troupe/strategies/runtime/detail/coordinator_seat.hpp>
#include <troupe/strategies/runtime/detail/local_member.hpp>

namespace troupe::detail {

/// The whole cluster in this process: coordinator, servers and workers are actors that reach each
/// other, and threads of steps work on the servers' shards where they are.
class embedded_role final : public process_role {
public:
  explicit embedded_role(const process_context& context) : context_{context}, seat_{context} {}

  step_needs needs() const override;
  void start(process_devices& devices, runtime_services& services) override;
  bool end(time_point deadline, const cluster_end& how) override;
  void release() override { seat_.release(); }
  std::shared_ptr<coordinator_client> owner() const override { return seat_.program(); }

private:
  using stores = std::vector<std::shared_ptr<shard_store>>;

  std::uint32_t first_thread(std::uint32_t worker) const;
  member_options settings_of(const local_member& local) const;
  void start_servers();
  void start_workers(const process_devices& devices);
  void start_worker(std::uint32_t index, const process_devices& devices,
                    const std::shared_ptr<std::atomic<std::uint32_t>>& alive);
  void follow_worker(const worker_actor& actor, const local_member& local,
                     const std::shared_ptr<std::atomic<std::uint32_t>>& alive);

  const process_context context_;
  stores stores_{};
  std::vector<local_member> members_{};
  coordinator_seat seat_;
};

} // namespace troupe::detail
