#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/device/tensor.hpp>
#include <troupe/strategies/replicas/distributed_values.hpp>
#include <troupe/strategies/replicas/gradient_reducer.hpp>
#include <troupe/strategies/replicas/input_context.hpp>
#include <troupe/strategies/replicas/step_range.hpp>
#include <troupe/strategies/runtime/fwd.hpp>
#include <troupe/transport/collective_types.hpp>

namespace troupe {

class device_context;
class device_tensor;
class distributed_variable;
class replica_context;
class strategy;
class strategy_extended;
struct reduction;
struct replica_call;

namespace detail {
class placed_input;
class sync_state;
struct mode_frame;
class device_operation;
using merge_values = std::vector<std::shared_ptr<void>>;
using merge_body = std::function<merge_values(const merge_values&)>;
} // namespace detail

/// A scope of a strategy that is open: variables are made with it. Ends with the object or by
/// `exit`. Used on the thread that opened it.
class strategy_scope {
public:
  /// Throws `wrong_state` inside a replica's function, and while another strategy's scope is open,
  /// naming both. Scopes of one strategy nest.
  explicit strategy_scope(const strategy& of);
  /// A scope that is not the innermost one is left all the same: `exit` tells.
  ~strategy_scope();
  strategy_scope(const strategy_scope&) = delete;
  strategy_scope& operator=(const strategy_scope&) = delete;
  /// Throws `wrong_state` naming what is still open inside (a device, name or variable-creator
  /// scope); the scope then stays open and can be left later.
  void exit();

private:
  std::unique_ptr<detail::mode_frame> frame_;
};

/// How a computation is spread over replicas: the base of all synchronous strategies, and by itself
/// the default one, which has one replica and spreads nothing. A handle; copies are the same
/// strategy. Called on threads of the program, in cross-replica context or outside any. Calls that
/// concern all replicas (run, reduce, gather, distribute) throw `wrong_state` inside a replica's
/// function and while another strategy is active.
class strategy {
public:
  /// The default strategy.
  strategy();
  explicit strategy(std::shared_ptr<detail::sync_state> state) : state_{std::move(state)} {}

  /// Number of replicas in all processes.
  std::uint32_t num_replicas_in_sync() const;
  /// Number of replicas in this process.
  std::uint32_t num_local_replicas() const;
  /// "mirrored_strategy(cpu:0, cpu:1)".
  std::string to_string() const;
  friend bool operator==(const strategy& a, const strategy& b) { return a.state_ == b.state_; }

  /// Runs `f` in cross-replica context with this as the ambient strategy.
  template <class F>
  std::invoke_result_t<F> scope(F&& f) const {
    strategy_scope open{*this};
    return std::forward<F>(f)();
  }

  /// Calls `f` once for each local replica, concurrently, on the replica's device. `f` takes a
  /// `replica_context&` first, or none. Of distributed values anywhere in `args` (nests of tuples,
  /// vectors, maps, ...) each replica gets its own component; all else is copied to all. The result
  /// is a `per_replica` of what the replicas returned: `regroup` turns a distributed nest into a
  /// nest of distributed values. An exception of a replica is thrown here with its own type, once
  /// the other replicas have ended. Replicas that do not end within `grace_ms` are left behind and
  /// still use what `f` captured: capture by value what may end before them.
  template <class F, class... Args>
  auto run(F f, Args... args) const;

  /// Reduces element by element over the replicas that have a value. `op`: `reduce_op`, or its name
  /// in any letter case ("sum", "MEAN"). Over several workers all of them call it, and all get the
  /// result. With `axis` each component is reduced along it first, and a mean divides by the number
  /// of elements over all replicas. A component without elements along the axis counts for nothing;
  /// where none has any, a sum is 0, a product 1, an extreme the other end of the type, a mean NaN.
  /// A mean of integers is f64, and its sum does not wrap. Axes may count from the end:
  /// `out_of_range` for one that is not there. `invalid_argument` for one that is given twice, the
  /// sum of a mirrored value, another number of components than replicas, no component with a
  /// value, a name that is no operator; `shape_mismatch`, `dtype_mismatch` name the component.
  tensor reduce(const reduction& op, const per_replica<tensor>& value,
                std::optional<std::vector<std::int64_t>> axis = {}) const;
  /// `reduce` along one axis.
  tensor reduce(const reduction& op, const per_replica<tensor>& value, std::int64_t axis) const;
  /// Reduces a value that is not distributed. Within one process a mean, minimum or maximum is the
  /// value itself, and so is what consists of zeros; a sum over several replicas throws
  /// `invalid_argument`. Over several workers the workers' values are reduced, and all of them call
  /// it.
  tensor reduce(const reduction& op, const tensor& value,
                std::optional<std::vector<std::int64_t>> axis = {}) const;
  template <class T>
  requires std::is_arithmetic_v<T> tensor reduce(const reduction& op, const per_replica<T>& value)
  const;
  template <class T>
  requires std::is_arithmetic_v<T> tensor reduce(const reduction& op, T value)
  const;
  /// Reduces each value of a nest for itself.
  template <class... Ts>
  auto reduce(const reduction& op, const std::tuple<per_replica<Ts>...>& nest) const {
    return std::apply([&](const auto&... each) { return std::tuple{reduce(op, each)...}; }, nest);
  }

  /// Concatenates the components along `axis`, in replica order. `axis` counts from 0; the
  /// components have one dtype and rank, and agree in all other extents (on a TPU in all). Over
  /// several workers all of them call it, and all get the whole. `invalid_argument` for scalars,
  /// and while no component has a value; `out_of_range` for an axis that is not there;
  /// `shape_mismatch`, `dtype_mismatch` name the component. A value that is not distributed is
  /// returned as it is.
  tensor gather(const per_replica<tensor>& value, std::int64_t axis) const;
  tensor gather(const tensor& value, std::int64_t axis) const;

  /// The components of this process's replicas, in replica order; of a nest one nest for each local
  /// replica. A value that is not distributed is the only element.
  template <class X>
  auto local_results(const X& x) const;

  /// Calls `f(value_context)` once for each local replica, in order, and returns the results as
  /// distributed values, also when they are equal. Throws `wrong_state` inside a replica.
  template <class F>
  auto distribute_values_from_function(F f) const;

  /// The steps from the committed one to `n`, without `n`, for a loop; see `step_range`.
  /// `invalid_argument` when `n` is negative.
  step_range steps(std::int64_t n) const;
  /// Number of committed steps; 0 at first. Any thread.
  std::int64_t committed_steps() const;
  /// Sets the step at which the next loop begins, for what restores a checkpoint.
  /// `invalid_argument` when `k` is negative.
  void set_committed_steps(std::int64_t k) const;

  /// The calls for authors of optimizers and layers; include strategy_extended.hpp.
  strategy_extended extended() const;

  /// The resolver that the strategy was given; null without one.
  std::shared_ptr<const class cluster_resolver> cluster_resolver() const;

  /// A text on what the replicas wait for now: "op 12 all_reduce sum f32[2] waits for {1}". Any
  /// thread, never waits.
  std::string status() const;

  const std::shared_ptr<detail::sync_state>& state() const { return state_; }

protected:
  std::shared_ptr<detail::sync_state> state_;
};

// --- the ambient strategy and context of the calling thread

/// The innermost scope's strategy, that of the running replica, the chosen one, or the default.
strategy get_strategy();
/// False where `get_strategy` is the default one.
bool has_strategy();
/// Whether calls that concern all replicas are made here: in a scope, a merge function, or with a
/// chosen strategy; not inside a replica's function, nor where nothing is active.
bool in_cross_replica_context();
/// The context of the running replica; null in cross-replica context. With nothing active: that of
/// the default strategy, id 0.
replica_context* get_replica_context();
/// The strategy whose cross-replica context is active; none in replica context.
std::optional<strategy> get_cross_replica_context();
/// Chooses the strategy for the rest of the calling thread; none: the default one again.
/// `wrong_state` inside a scope.
void experimental_set_strategy(std::optional<strategy> to);

/// A replica's view while its function runs. Used on the function's thread only, `wrong_state`
/// elsewhere. All replicas make the same collective calls in the same order, with the same options,
/// dtypes and shapes. A replica that makes another call gets `mismatch`, and so do the others, with
/// both calls quoted. A call that waits in vain ends with `deadline` or `peer_lost`, naming the
/// missing replicas; the strategy is good for the next run.
class replica_context {
public:
  /// The constructor for the strategy.
  replica_context(std::shared_ptr<detail::sync_state> state, std::uint32_t local);
  replica_context(const replica_context&) = delete;
  replica_context& operator=(const replica_context&) = delete;

  /// This replica's number, below `num_replicas_in_sync`, in order of workers and then of their
  /// devices.
  std::uint32_t replica_id_in_sync_group() const;
  /// Number of replicas in all processes.
  std::uint32_t num_replicas_in_sync() const;
  /// The strategy that runs the function.
  troupe::strategy strategy() const;
  /// The name of this replica's device, alone.
  std::vector<std::string> devices() const;
  /// Streams, tensors and kernels of the replica's device. Throws `device_unavailable`.
  device_context& device();
  /// `x` in the memory of the replica's device, for its stream, not to be written to. A part of the
  /// input that lies there is not copied again, so clone what you change in place; on a CPU it is
  /// `x` itself. Throws `device_unavailable`, `device_memory`.
  device_tensor on_device(const tensor& x);

  /// Reduces element by element over all replicas, in replica order: the same bits for each. `op`:
  /// `reduce_op`, or its name in any letter case. `x`: one dtype and shape on all replicas; the
  /// result has them too. A deadline that is not given is the strategy's `collective_timeout`. The
  /// mean of integers is an f64 tensor; of plain integers `invalid_argument`, as is a tensor
  /// without a value.
  tensor all_reduce(const reduction& op, const tensor& x, const collective_options& options = {});
  /// `all_reduce` of each tensor of `xs`, the small ones together. All replicas give as many, in
  /// the same order.
  std::vector<tensor> all_reduce(const reduction& op, const std::vector<tensor>& xs,
                                 const collective_options& options = {});
  template <class T>
  requires std::is_arithmetic_v<T> T all_reduce(const reduction& op, T x);
  template <class... Ts>
  std::tuple<Ts...> all_reduce(const reduction& op, const std::tuple<Ts...>& xs) {
    return std::apply([&](const Ts&... each) { return std::tuple<Ts...>{all_reduce(op, each)...}; },
                      xs);
  }
  /// Concatenates the rows of all replicas in replica order, duplicates kept; a mean divides the
  /// values by the number of replicas. `invalid_argument` for other operations than sum and mean.
  sparse_gradient all_reduce(const reduction& op, const sparse_gradient& x);
  /// Concatenates the replicas' tensors along `axis`, which counts from 0; extents may differ along
  /// it, except on a TPU. `invalid_argument` for scalars and tensors without a value,
  /// `out_of_range`; `shape_mismatch`, `dtype_mismatch` on all for tensors that don't go together.
  tensor all_gather(const tensor& x, std::int64_t axis = 0, const collective_options& options = {});

  /// Collectives of tensors on the replica's device; the result is there too, for its stream to
  /// use. Sums and means of f32 and sums of bf16 stay on the devices where all replicas' devices
  /// have collectives in common: GPUs with NCCL, CPUs of one process; the rest goes through the
  /// host. Each call waits until it is done. A device tensor where another replica has a host
  /// tensor is a `mismatch`. Sums are formed in replica order, except by NCCL, which has its own
  /// order. `invalid_argument` for a tensor of another device or without a value;
  /// `collective_failed` when the devices' group breaks.
  device_tensor all_reduce(const reduction& op, const device_tensor& x,
                           const collective_options& options = {});
  device_tensor all_gather(const device_tensor& x, std::int64_t axis = 0,
                           const collective_options& options = {});
  device_tensor broadcast(const device_tensor& x, std::uint32_t root = 0,
                          const collective_options& options = {});
  /// A reducer for gradients that are summed while later layers still compute.
  troupe::gradient_reducer gradient_reducer(const gradient_reducer_options& options = {});

  /// Waits until all replicas have called it.
  void barrier();
  /// The tensor `x` of replica `root`. `x`: one dtype and shape on all replicas. `out_of_range` for
  /// a `root` that is no replica, `invalid_argument` for a tensor without a value.
  tensor broadcast(const tensor& x, std::uint32_t root = 0, const collective_options& options = {});
  /// Brings the replicas' gradients together by `op`, in buckets, and has each copy's optimizer
  /// apply the result once. Gradients are summed unless `op` says otherwise: scale losses by the
  /// global batch. `gradients[i]`: host tensor of the dtype and shape of `variables[i]`.
  /// `invalid_argument` when the counts differ or a gradient has no value, `wrong_state` for a
  /// variable without an optimizer, `shape_mismatch`, `dtype_mismatch` naming the variable: all
  /// before anything is sent or changed.
  void apply(const std::vector<distributed_variable>& variables,
             const std::vector<tensor>& gradients, reduce_op op = reduce_op::sum);

  /// Waits until every replica of this process has called it; then `f(strategy, args...)` runs
  /// once, in cross-replica context, with the replicas' arguments regrouped; each replica gets its
  /// component of the result. Calls in loops and branches are allowed as long as all replicas do
  /// the same.
  template <class F, class... Args>
  auto merge_call(F f, Args... args);

  /// `extended().update` in a merge call: `f(v, args...)` once for each copy, with the replica's
  /// own arguments: where these differ between replicas, so may the copies afterwards. Include
  /// strategy_extended.hpp.
  template <class F, class... Args>
  auto update(const distributed_variable& v, F f, Args... args);

  /// For the strategy: the number of replicas that have data, by which means divide.
  void set_live(std::uint32_t replicas) { live_ = replicas; }
  /// For the strategy: hands over the step's input that lies on devices.
  void set_placed(std::vector<std::shared_ptr<const detail::placed_input>> inputs);
  /// For variables: runs `f`, which the replicas with data have just run, on those without data
  /// too. Costs nothing in steps where all have data.
  void tell_silent(std::function<void()> f);
  /// For the strategy: makes the calls that the other replicas make, with no data of its own.
  void stand_in(const std::vector<bool>& silent);

private:
  friend class troupe::gradient_reducer;
  bool stand_in_once(const std::vector<bool>& silent);
  bool stand_in_on_device(const replica_call& next);
  std::shared_ptr<void> merge(std::string what, std::shared_ptr<void> arguments,
                              detail::merge_body body);
  void check_current(const char* what) const;
  void check_place(const char* what, const device_tensor& x);
  /// The collectives in host memory; `of_devices`: of what was copied from there.
  std::vector<tensor> reduce_here(const reduction& op, const std::vector<tensor>& xs,
                                  const collective_options& options, bool of_devices);
  std::vector<tensor> reduce_alike(const reduction& op, std::span<const tensor> xs,
                                   const collective_options& options, bool of_devices);
  /// `any_extent`: the axis is as long as each replica has it.
  tensor gather_here(const tensor& x, std::int64_t axis, const collective_options& options,
                     bool of_devices, bool any_extent);
  bool gathers_any_extent() const;
  tensor broadcast_here(const tensor& x, std::uint32_t root, const collective_options& options,
                        bool of_devices);
  void reduce_bucket(const std::vector<device_tensor>& bucket,
                     const gradient_reducer_options& options);
  void finish_buckets(const gradient_reducer_options& options);
  /// The number that a mean divides by.
  std::uint32_t divisor() const { return live_ == 0 ? num_replicas_in_sync() : live_; }
  template <class T>
  T arithmetic(const reduction& op, const tensor& x);
  const std::shared_ptr<detail::sync_state> state_;
  const std::uint32_t local_;
  std::uint32_t live_ = 0; ///< 0: all
  /// Digest of the buckets that went in this run, which other processes must have sent as well.
  std::uint64_t buckets_digest_ = 0;
  std::shared_ptr<device_context> device_{};
  std::vector<std::shared_ptr<const detail::placed_input>> placed_{};
};

} // namespace troupe

#include <troupe/strategies/replicas/strategy_inline.hpp>
