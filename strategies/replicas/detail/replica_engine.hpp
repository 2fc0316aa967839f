#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/replicas/replica.hpp>
#include <troupe/actors/replicas/replica_comms.hpp>
#include <troupe/actors/replicas/replica_executor.hpp>
#include <troupe/actors/replicas/replica_group.hpp>
#include <troupe/strategies/replicas/detail/strategy_policy.hpp>
#include <troupe/strategies/replicas/replica_types.hpp>
#include <troupe/strategies/runtime/detail/runtime_services.hpp>
#include <troupe/strategies/runtime/fwd.hpp>
#include <troupe/transport/collective_types.hpp>

namespace troupe {
class cluster_resolver;
class device_context;
} // namespace troupe

namespace troupe::detail {

// parameter_server/detail/parameter_server_strategy_state.hpp
class parameter_server_strategy_state;

/// A part of a strategy that has a thread of its own beside the replicas' and ends with the
/// strategy. Any thread.
class strategy_part {
public:
  virtual ~strategy_part() = default;
  /// Ends the thread; false: it still ran at the deadline.
  virtual bool close(time_point deadline) = 0;
};

struct sync_options {
  strategy_kind kind = strategy_kind::standard;
  std::string name{};                 ///< "mirrored_strategy"
  std::vector<std::string> devices{}; ///< of the local replicas, in order
  /// Where the one copy of a variable lives; empty: with each replica.
  std::string parameter_device{};
  /// All devices of each local replica, the first one as in `devices`; empty: only that.
  std::vector<std::vector<std::string>> logical_devices{};
  /// The devices' names on this machine, "cpu:1"; empty: as in `logical_devices`.
  std::vector<std::vector<std::string>> hardware{};
  std::vector<std::string> server_devices{}; ///< of parameter servers
  /// The local replica that gets each of a worker's pieces of input; empty: in their order.
  std::vector<std::uint32_t> input_order{};
  /// Where variables are on servers; else null.
  std::shared_ptr<parameter_server_strategy_state> servers{};
  std::uint32_t workers = 1;
  std::uint32_t worker = 0;
  duration collective_timeout = limits::replica_call;
  std::uint64_t grace_ms = 10'000;
  /// Other workers' members, for groups over processes; null within one.
  std::shared_ptr<worker_rendezvous> links{};
  /// Called while the replicas here wait for those of other workers.
  std::function<void(const std::string& text)> on_wait{};
  std::shared_ptr<const cluster_resolver> resolver{}; ///< null: nobody gave one
};

/// A strategy behind its handles: replicas, their threads and their group. Any thread.
class replica_engine : public std::enable_shared_from_this<replica_engine> {
public:
  /// The constructor for the default strategy: no runtime, no threads.
  explicit replica_engine(sync_options options);
  replica_engine(std::shared_ptr<runtime_services> services, sync_options options);
  ~replica_engine();
  /// Ends with the runtime. @pre owned by a shared_ptr.
  void follow_runtime();

  const sync_options& options() const { return options_; }
  std::string text() const;
  std::uint32_t local_count() const { return static_cast<std::uint32_t>(options_.devices.size()); }
  std::uint32_t first_id() const { return options_.worker * local_count(); }
  std::uint32_t count() const { return options_.workers * local_count(); }
  /// The rules of this kind of strategy.
  const strategy_policy& policy() const { return policy_of(options_.kind); }
  bool is_standard() const { return policy().is_default; }
  /// Whether there is one replica in all, which runs on the caller's own thread.
  bool is_inline() const { return count() == 1; }
  const std::shared_ptr<runtime_services>& services() const { return services_; }
  const environment& env() const;

  /// Calls `body` once for each local replica, on its thread, or here where there is one replica in
  /// all. `body` makes the replica's context.
  void run(const std::function<void(std::uint32_t local)>& body);
  std::shared_ptr<void> merge(std::uint32_t local, std::string what,
                              std::shared_ptr<void> arguments, const merge_body& body);
  /// A collective operation of replica `local`, described and driven; throws what it ends with.
  void collective(std::uint32_t local, replica_call call,
                  const std::function<result<void>(collective_group&)>& drive);
  /// A deadline that the caller did not set is the strategy's.
  collective_options own_deadline(collective_options options) const {
    if (options.deadline == no_deadline_given) {
      options.deadline = options_.collective_timeout;
      options.by_progress = true;
    }
    return options;
  }
  /// The replica's place among the devices, within a collective of device tensors: see
  /// `replica_comms::join`.
  result<device_comm> join_devices(std::uint32_t local, collective_group& group,
                                   const std::shared_ptr<device>& on, const device_stream& stream,
                                   const collective_options& with) {
    return comms_->join(local, group, on, stream, with);
  }
  /// See `replica_executor::await_call`.
  std::optional<replica_call> await_call(std::uint32_t local,
                                         const std::vector<bool>& empty_replicas) {
    return executor_ ? executor_->await_call(local, empty_replicas) : std::nullopt;
  }
  /// Devices of one replica, and how they are called.
  std::uint32_t logical_count() const {
    const auto& all = options_.logical_devices;
    return all.empty() ? 1 : static_cast<std::uint32_t>(all.front().size());
  }
  const std::string& logical_device(std::uint32_t local, std::uint32_t logical) const;
  device_id hardware(std::uint32_t local, std::uint32_t logical = 0) const;
  /// A context for each replica, or for each of its devices. A replica whose thread was left behind
  /// gets another: the old thread may still use the first.
  std::shared_ptr<device_context> device_of(std::uint32_t local, std::uint32_t logical = 0);
  /// See `replica_executor::why_not_in_place`.
  std::optional<failure> why_not_in_place(std::uint32_t local) const {
    return executor_ ? executor_->why_not_in_place(local) : std::nullopt;
  }
  /// The name of a call for the other processes: the caller's own, then the description. Within one
  /// process the caller's own only, since `collective_order_checker` compares the calls.
  std::string words_for(const replica_call& call, const std::string& what) const {
    if (!options_.links)
      return what;
    return (what.empty() ? "" : what + ": ") + troupe::to_string(call);
  }
  /// Ends the calls that other workers' replicas wait in, when the program has failed outside
  /// `run`.
  void interrupt(const failure& why);
  /// The origin for this worker's failures; unknown within one process.
  origin own_origin() const;
  /// `why` as it is told to other workers: with `self` as its origin, unless another one is known.
  static failure from(const origin& self, failure why);
  std::string status() const;
  /// Numbers for names.
  std::uint64_t next_variable() { return variables_++; }
  /// True the first time: for what is told once a strategy.
  bool warn_once() { return !warned_.exchange(true); }
  bool close(time_point deadline);
  /// `part` is closed before the strategy is, if it is still there.
  bool keep_track(const std::shared_ptr<strategy_part>& part);

  /// The number of steps that the group has committed.
  std::int64_t committed_steps() const { return steps_; }
  void set_committed_steps(std::int64_t k) { steps_ = k; }
  /// False when the counter is not at `step`.
  bool commit_step(std::int64_t step) { return steps_.compare_exchange_strong(step, step + 1); }

  /// Throws `wrong_state` unless this thread may make the cross-replica call `what`: in this
  /// strategy's cross-replica context, or with nothing active.
  void require_cross_replica(const char* what) const;
  /// Throws `wrong_state` unless the thread is in a scope of this strategy.
  void require_scope(const char* what) const;

private:
  void start();
  std::vector<device_id> hardware_in_use() const;
  bool close_parts(time_point deadline);

  const sync_options options_;
  const std::shared_ptr<runtime_services> services_;
  std::shared_ptr<replica_group> group_{};
  std::shared_ptr<replica_comms> comms_{}; ///< of the group's epochs, among the devices
  std::shared_ptr<replica_executor> executor_{};
  std::vector<replica_actor> actors_{};
  std::atomic<std::uint64_t> variables_{0};
  std::atomic<std::int64_t> steps_{0};
  std::atomic<bool> warned_{false};
  std::mutex device_mutex_{};
  struct device_slot {
    std::shared_ptr<device_context> context{};
    std::uint64_t generation = 0; ///< of the replica's thread
  };
  std::vector<device_slot> devices_{};
  std::mutex parts_mutex_{};
  std::vector<std::weak_ptr<strategy_part>> parts_{};
  bool parts_closed_ = false;
};

/// The default strategy, one in a process.
const std::shared_ptr<replica_engine>& standard_state();

} // namespace troupe::detail
