#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/replicas/replica.hpp>
#include <troupe/actors/replicas/replica_comms.hpp>
#include <troupe/actors/replicas/replica_group.hpp>
#include <troupe/actors/replicas/replica_lanes.hpp>
#include <troupe/strategies/replicas/detail/mode_stack.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/runtime/detail/runtime_services.hpp>

namespace troupe::detail {

enum class strategy_kind : std::uint8_t {
  standard = 0,
  one_device = 1,
  mirrored = 2,
  central_storage = 3,
  multi_worker_mirrored = 4,
  tpu = 5,
  parameter_server = 6 ///< its variables live on servers; one replica, here
};

/// A part of a strategy that has a lane of its own beside the replicas' and ends with the strategy.
/// Any thread.
class strategy_part {
public:
  virtual ~strategy_part() = default;
  /// Ends the lane; false: it still ran at the deadline.
  virtual bool close(time_point deadline) = 0;
};

struct sync_options {
  strategy_kind kind = strategy_kind::standard;
  std::string name{};                 ///< "mirrored_strategy"
  std::vector<std::string> devices{}; ///< of the local replicas, in order
  std::string
    parameter_device{}; ///< where the one copy of a variable lives; empty: with each replica
  /// All devices of each local replica, the first one as in `devices`; empty: only that.
  std::vector<std::vector<std::string>> logical_devices{};
  /// The devices' names on this machine, "cpu:1"; empty: as in `logical_devices`.
  std::vector<std::vector<std::string>> hardware{};
  std::vector<std::string> server_devices{}; ///< of parameter servers
  /// The local replica that gets each of a worker's pieces of input; empty: in their order.
  std::vector<std::uint32_t> input_order{};
  std::shared_ptr<void> servers{}; ///< a strategy_state, where variables are on servers; else null
  std::uint32_t workers = 1;
  std::uint32_t worker = 0;
  duration collective_timeout = limits::replica_call;
  std::uint64_t grace_ms = 10'000;
  /// Other workers' members, for groups over processes; null within one.
  std::shared_ptr<worker_links> links{};
  /// Called while the replicas here wait for those of other workers.
  std::function<void(const std::string& text)> on_wait{};
  std::shared_ptr<const cluster_resolver> resolver{}; ///< null: nobody gave one
};

/// A strategy behind its handles: replicas, their lanes and their group. Any thread.
class sync_state : public std::enable_shared_from_this<sync_state> {
public:
  /// The constructor for the default strategy: no runtime, no lanes.
  explicit sync_state(sync_options options);
  sync_state(std::shared_ptr<runtime_services> services, sync_options options);
  ~sync_state();
  /// Ends with the runtime. @pre owned by a shared_ptr.
  void follow_runtime();

  const sync_options& options() const { return options_; }
  std::string text() const;
  std::uint32_t local_count() const { return static_cast<std::uint32_t>(options_.devices.size()); }
  std::uint32_t first_id() const { return options_.worker * local_count(); }
  std::uint32_t count() const { return options_.workers * local_count(); }
  bool is_standard() const { return options_.kind == strategy_kind::standard; }
  /// Whether there is one replica in all, which runs on the caller's own lane.
  bool is_inline() const { return count() == 1; }
  const std::shared_ptr<runtime_services>& services() const { return services_; }
  const environment& env() const;

  void run(const std::function<void(replica_context&, std::uint32_t local)>& body);
  std::shared_ptr<void> merge(replica_context& ctx, std::uint32_t local, std::string what,
                              std::shared_ptr<void> arguments, merge_body body);
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
  /// See `replica_lanes::await_call`.
  std::optional<replica_call> await_call(std::uint32_t local, const std::vector<bool>& silent) {
    return lanes_ ? lanes_->await_call(local, silent) : std::nullopt;
  }
  /// Devices of one replica, and how they are called.
  std::uint32_t logical_count() const {
    const auto& all = options_.logical_devices;
    return all.empty() ? 1 : static_cast<std::uint32_t>(all.front().size());
  }
  const std::string& logical_device(std::uint32_t local, std::uint32_t logical) const;
  device_id hardware(std::uint32_t local, std::uint32_t logical = 0) const;
  /// A context for each replica, or for each of its devices. A replica whose lane was left behind
  /// gets another: the old lane may still use the first.
  std::shared_ptr<device_context> device_of(std::uint32_t local, std::uint32_t logical = 0);
  /// See `replica_lanes::why_not_in_place`.
  std::optional<failure> why_not_in_place(std::uint32_t local) const {
    return lanes_ ? lanes_->why_not_in_place(local) : std::nullopt;
  }
  /// The name of a call for the other processes: the caller's own, then the description. Within one
  /// process the caller's own only, since `lockstep` compares the calls.
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

  /// Throws `wrong_state` unless this lane may make the cross-replica call `what`: in this
  /// strategy's cross-replica context, or with nothing active.
  void require_cross_replica(const char* what) const;
  /// Throws `wrong_state` unless the lane is in a scope of this strategy.
  void require_scope(const char* what) const;

private:
  void start();
  std::vector<device_id> hardware_in_use() const;
  bool close_parts(time_point deadline);
  void run_inline(const std::function<void(replica_context&, std::uint32_t local)>& body);

  const sync_options options_;
  const std::shared_ptr<runtime_services> services_;
  std::shared_ptr<replica_group> group_{};
  std::shared_ptr<replica_comms> comms_{}; ///< of the group's epochs, among the devices
  std::shared_ptr<replica_lanes> lanes_{};
  std::vector<replica_actor> actors_{};
  std::atomic<std::uint64_t> variables_{0};
  std::atomic<std::int64_t> steps_{0};
  std::atomic<bool> warned_{false};
  std::mutex device_mutex_{};
  struct device_slot {
    std::shared_ptr<device_context> context{};
    std::uint64_t life = 0; ///< of the replica's lane
  };
  std::vector<device_slot> devices_{};
  std::mutex parts_mutex_{};
  std::vector<std::weak_ptr<strategy_part>> parts_{};
  bool parts_closed_ = false;
};

/// Reduces host tensors, one of each worker, to one. All workers call it.
tensor reduce_over_workers(const sync_state& of, const reduction& op, const tensor& value,
                           std::optional<std::vector<std::int64_t>> axis);

/// The short name of a device of this process: "cpu:1" for "/cpu:1" and for the name in full;
/// `device_unavailable` for another process's. `name`: of the strategy.
std::string own_device(const char* name, const std::string& text);
/// `own_device` of each name; `invalid_argument` for a device that is named twice.
std::vector<std::string> own_devices(const char* name, std::vector<std::string> devices);

/// The default strategy, one in a process.
const std::shared_ptr<sync_state>& standard_state();

/// Element-wise reduction in the order given. A mean of integers is f64. Throws `shape_mismatch`,
/// `dtype_mismatch` naming `what` and the component.
tensor reduce_tensors(const char* what, const reduction& op, std::span<const tensor> parts);
/// `x` reduced along `axes`; negative ones count from the end. Where an axis has no elements: the
/// operation's neutral element. Throws `out_of_range`, and `invalid_argument` for an axis that is
/// given twice. For a mean: the sum as `mean_summand` has it, and `elements` is the number that
/// went into each.
tensor reduce_axes(const char* what, const reduction& op, const tensor& x,
                   std::vector<std::int64_t> axes, std::int64_t& elements);
/// The summand of `x` for a mean, in a type where no sum of 2^31 replicas wraps, and none of a
/// narrow type overflows: f16 as f32, bf16 as f64; integers as i64 [2] + shape, their upper and
/// lower words. Other types stay as they are.
tensor mean_summand(const tensor& x);
/// The shape of the elements, of type `type`, that `summand` stands for.
shape_t shape_of_summand(const tensor& summand, dtype type);
/// The mean of elements of `type` from the sum of their summands: f64 for integers, else `type`.
/// Of none: a quiet NaN.
tensor mean_of(const tensor& sum, dtype type, std::int64_t by);
/// Throws `dtype_mismatch` naming `what` and the component.
void require_one_type(const char* what, std::span<const tensor> parts);
/// The numerator over the denominator, true division: f64 for integers.
tensor divide(const tensor& x, std::int64_t by);
/// Concatenates `parts` along `axis`; throws `shape_mismatch` naming the dimension or rank that
/// differs, `out_of_range` for the axis, `invalid_argument` for scalars.
tensor concatenate_along(const char* what, std::span<const tensor> parts, std::int64_t axis);
/// The members' `x` in rank order, of one type and of shapes that agree but along `axis`, or there
/// too unless `any_extent`: else `dtype_mismatch`, `shape_mismatch` naming a member, on all
/// members.
result<void> gather_parts(collective_group& group, const tensor& x, std::size_t axis,
                          bool any_extent, const collective_options& with,
                          std::vector<tensor>& parts);
/// The neutral element of `op`, in the given shape. @pre `op` is not a user's.
tensor neutral(dtype type, const shape_t& shape, reduce_op op);

} // namespace troupe::detail
