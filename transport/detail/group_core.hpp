#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/result.hpp>
#include <troupe/transport/detail/collective_engine.hpp>
#include <troupe/transport/detail/collective_plan.hpp>
#include <troupe/transport/detail/group_links.hpp>
#include <troupe/transport/detail/plan_runner.hpp>
#include <troupe/transport/group_options.hpp>

/// A group below its operations: epochs, and the drive of one operation after the other.
namespace troupe::detail {

class shm_segment;
class inproc_area;

class group_core {
public:
  group_core(environment& env, std::uint64_t id, group_options options,
             std::unique_ptr<channel_listener> listener);
  ~group_core();

  std::string address() const { return door_.address(); }
  result<void> form(group_epoch epoch, std::vector<collective_member> members, duration deadline);
  void revoke(failure why, std::span<const std::uint64_t> missing);

  std::uint32_t rank() const { return spec_.rank; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(spec_.members.size()); }
  group_epoch epoch() const { return spec_.epoch; }
  group_class carried_by() const { return class_; }
  const std::vector<collective_member>& members() const { return spec_.members; }
  const collective_counters& counters() const { return counters_; }
  const group_options& options() const { return options_; }
  /// The failure of operations of an epoch that ended or never began.
  failure why_ended() const;
  /// The failure that ended the epoch; none while it lasts, as far as this member knows.
  std::optional<failure> ended() const;
  std::vector<std::uint64_t> missing() const;
  group_epoch newest_epoch() const { return newest_; }
  time_point now() const { return env_.clock.now(); }

  tensor allocate(dtype type, shape_t shape);
  /// Does the task with all members. @pre the task's parts fit each other.
  result<void> run(collective_task& task);
  /// Memory of the thread's own, until the next call.
  std::byte* fusion(std::size_t bytes) { return fusion_.at_least(bytes); }

private:
  result<void> share_memory(time_point deadline);
  result<void> share_host_memory(time_point deadline);
  duration time_until(time_point deadline) const;
  result<void> run_alone(const collective_task& task);
  std::unique_ptr<collective_engine> engine_for(const collective_task& task,
                                                std::uint64_t description);
  const collective_plan& plan_for(const collective_task& task, std::uint64_t description);
  operation_data data_for(const collective_task& task, std::uint64_t description,
                          const collective_plan& plan);

  result<void> drive(collective_engine& engine, const collective_task& task);
  bool look_around(collective_engine& engine, const collective_task& task);
  bool sleep(collective_engine& engine, const collective_task& task, time_point deadline,
             wait_teller& teller);
  void end(const collective_task& task, failure why, std::vector<std::uint32_t> missing);
  void end_by_mismatch(const collective_task& task, failure why);
  std::string others_doings(const std::string& own);
  void end_epoch(failure why, std::vector<std::uint32_t> missing, std::string doing = {});
  std::vector<std::uint32_t> silent(const collective_engine& engine) const;
  std::string names(const std::vector<std::uint32_t>& ranks) const;
  std::string whole_name(const collective_task& task) const;
  std::string epoch_name() const;
  void close_epoch();

  environment& env_;
  std::uint64_t id_;
  group_options options_;
  std::unique_ptr<channel_poller> poller_;
  group_door door_;
  collective_counters counters_{};
  epoch_spec spec_{};
  group_epoch newest_{};
  group_class class_ = group_class::network;
  bool keeps_core_ = false; ///< while it waits, for a while; see `drive`
  std::uint32_t operation_ = 0;
  bool asked_ = false; ///< in this operation, who still drives it
  std::vector<data_link> links_{};
  scratch_memory scratch_{};
  scratch_memory fusion_{};
  std::shared_ptr<inproc_area> process_{};
  std::unique_ptr<shm_segment> host_;
  struct cached_plan {
    std::uint64_t description = 0;
    std::unique_ptr<collective_plan> plan{};
  };
  std::vector<cached_plan> plans_{};
  std::size_t next_plan_ = 0;

  mutable std::mutex mutex_{}; // of what follows, which `revoke` touches from elsewhere
  std::shared_ptr<group_links> channels_{};
  std::optional<failure> ended_why_{};
  std::vector<std::uint32_t> missing_{};
  std::atomic<bool> ended_{true};
};

} // namespace troupe::detail
