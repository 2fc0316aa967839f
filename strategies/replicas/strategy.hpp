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
/// `exit`. On the lane that opened it.
class strategy_scope {
public:
  explicit strategy_scope(const strategy& of);
  /// A scope that is not the innermost one is left all the same: `exit` tells.
  ~strategy_scope();
  strategy_scope(const strategy_scope&) = delete;
  strategy_scope& operator=(const strategy_scope&) = delete;
  /// Throws `wrong_state` naming what is still open inside; the scope then stays open (rows
  /// SYNC-CTX-10 to CTX-12).
  void exit();

private:
  std::unique_ptr<detail::mode_frame> frame_;
};

/// How a computation is spread over replicas: the base of all synchronous strategies, and by itself
/// the default one, which spreads nothing (rows SYNC-DEF). A handle; copies are the same strategy.
/// Called on threads of the program, in cross-replica context or outside any; what has no place
/// inside a replica says so with `wrong_state` (rows SYNC-CTX-21 to CTX-24).
class strategy {
public:
  /// The default strategy.
  strategy();
  explicit strategy(std::shared_ptr<detail::sync_state> state) : state_{std::move(state)} {}

  /// Replicas of all processes.
  std::uint32_t num_replicas_in_sync() const;
  /// Replicas of this process.
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

  /// Calls `f` once for each local replica, concurrently, on the replica's device (rows SYNC-RUN).
  /// `f` takes a `replica_context&` first, or none. Of distributed values anywhere in `args` (nests
  /// of tuples, vectors, maps, ...) each replica gets its own component; all else is copied to all.
  /// The result is a `per_replica` of what the replicas returned: `regroup` turns a distributed
  /// nest into a nest of distributed values. What a replica throws comes through with its type,
  /// once the others have ended too; those that do not end in time are left behind, and go on with
  /// what `f` captured: by value what may end before them.
  template <class F, class... Args>
  auto run(F f, Args... args) const;

  /// Element-wise over replicas that have a value; `op` by name too: "sum", "MEAN" (row
  /// SYNC-RED-2). With `axis` each component is reduced along it first, and a mean divides by the
  /// number of elements over all replicas (rows SYNC-RED). A component without elements along the
  /// axis counts for nothing; where none has any, a sum is 0, a product 1, an extreme the other end
  /// of the type, a mean NaN. A mean of integers is f64, and its sum does not wrap. Axes may count
  /// from the end: `out_of_range` for one that is not there. `invalid_argument` for one that is
  /// given twice, the sum of a mirrored value, another number of components than replicas, no
  /// component with a value, a name that is no operator; `shape_mismatch`, `dtype_mismatch` name
  /// the component.
  tensor reduce(const reduction& op, const per_replica<tensor>& value,
                std::optional<std::vector<std::int64_t>> axis = {}) const;
  tensor reduce(const reduction& op, const per_replica<tensor>& value, std::int64_t axis) const;
  /// A value that is not distributed: a mean is itself, a sum over several replicas is refused;
  /// over several workers it is that of the workers' values (rows SYNC-RTO-6 to RTO-9).
  tensor reduce(const reduction& op, const tensor& value,
                std::optional<std::vector<std::int64_t>> axis = {}) const;
  template <class T>
  requires std::is_arithmetic_v<T> tensor reduce(const reduction& op, const per_replica<T>& value)
  const;
  template <class T>
  requires std::is_arithmetic_v<T> tensor reduce(const reduction& op, T value)
  const;
  /// Each value of a nest for itself (row SYNC-RED-13).
  template <class... Ts>
  auto reduce(const reduction& op, const std::tuple<per_replica<Ts>...>& nest) const {
    return std::apply([&](const auto&... each) { return std::tuple{reduce(op, each)...}; }, nest);
  }

  /// The components one after the other along `axis`, in replica order (rows SYNC-GAT). `axis`
  /// counts from 0. `invalid_argument` for scalars, and while no component has a value;
  /// `out_of_range` for an axis that is not there; `shape_mismatch`, `dtype_mismatch` name the
  /// component. A value that is not distributed is returned as it is.
  tensor gather(const per_replica<tensor>& value, std::int64_t axis) const;
  tensor gather(const tensor& value, std::int64_t axis) const;

  /// Of this process, in replica order (rows SYNC-LOC).
  template <class X>
  auto local_results(const X& x) const;

  /// `f(value_context)` once for each local replica, in order (rows SYNC-VFF).
  template <class F>
  auto distribute_values_from_function(F f) const;

  /// For a loop over the steps from the committed one to `n`, without it; see `step_range`.
  step_range steps(std::int64_t n) const;
  /// Steps that are done for good; 0 at first. Any thread.
  std::int64_t committed_steps() const;
  /// For what restores a checkpoint: the next loop begins at step `k`. `invalid_argument` when it
  /// is negative.
  void set_committed_steps(std::int64_t k) const;

  /// What authors of optimizers and layers ask for; include strategy_extended.hpp.
  strategy_extended extended() const;

  /// Who is in the cluster, where the strategy was told; else null (row SYNC-CTX-29).
  std::shared_ptr<const class cluster_resolver> cluster_resolver() const;

  /// What the replicas wait for: "op 12 all_reduce sum f32[2] waits for {1}". Any thread, at once.
  std::string status() const;

  const std::shared_ptr<detail::sync_state>& state() const { return state_; }

protected:
  std::shared_ptr<detail::sync_state> state_;
};

// --- what is ambient on this lane (rows SYNC-CTX)

/// The innermost scope's strategy, that of the running replica, the chosen one, or the default.
strategy get_strategy();
/// False where `get_strategy` is the default one.
bool has_strategy();
/// Whether calls that concern all replicas are made here: in a scope, a merge function, or with a
/// chosen strategy; not inside a replica's function, nor where nothing is active (rows SYNC-CTX-1
/// to CTX-6).
bool in_cross_replica_context();
/// Null in cross-replica context. With nothing active: that of the default strategy, id 0.
replica_context* get_replica_context();
/// None in replica context.
std::optional<strategy> get_cross_replica_context();
/// For the rest of the lane; without an argument the default one again. `wrong_state` inside a
/// scope.
void experimental_set_strategy(std::optional<strategy> to);

/// A replica's view while its function runs (rows SYNC-RCX). The function's lane only. All replicas
/// make the same calls in the same order; whoever makes another is told `mismatch`, and so are the
/// others, with both calls quoted. A call that waits in vain ends with `deadline` or `peer_lost`,
/// naming who is missing; the strategy is good for the next run.
class replica_context {
public:
  /// For the strategy.
  replica_context(std::shared_ptr<detail::sync_state> state, std::uint32_t local);
  replica_context(const replica_context&) = delete;
  replica_context& operator=(const replica_context&) = delete;

  /// Below `num_replicas_in_sync`, in order of workers and then of their devices.
  std::uint32_t replica_id_in_sync_group() const;
  std::uint32_t num_replicas_in_sync() const;
  troupe::strategy strategy() const;
  /// This replica's device: one name.
  std::vector<std::string> devices() const;
  /// Streams, tensors and kernels of the replica's device. Throws `device_unavailable`.
  device_context& device();
  /// `x` in the memory of the replica's device, for its stream, not to be written to. A part of the
  /// input that lies there is not copied again (row SYNC-INP-7), so clone what you change in place;
  /// on a CPU it is `x` itself. Throws `device_unavailable`, `device_memory`.
  device_tensor on_device(const tensor& x);

  /// The element-wise reduction over all replicas, the same bits for each, in replica order. `op`
  /// by name too. A deadline that is not given is the strategy's `collective_timeout`. The mean of
  /// integers is an f64 tensor; of plain integers `invalid_argument`.
  tensor all_reduce(const reduction& op, const tensor& x, const collective_options& options = {});
  std::vector<tensor> all_reduce(const reduction& op, const std::vector<tensor>& xs,
                                 const collective_options& options = {});
  template <class T>
  requires std::is_arithmetic_v<T> T all_reduce(const reduction& op, T x);
  template <class... Ts>
  std::tuple<Ts...> all_reduce(const reduction& op, const std::tuple<Ts...>& xs) {
    return std::apply([&](const Ts&... each) { return std::tuple<Ts...>{all_reduce(op, each)...}; },
                      xs);
  }
  /// Rows of all replicas, one after the other in replica order, duplicates kept; a mean divides
  /// the values by the number of replicas (rows SYNC-ARD-7 to ARD-9, COL-E).
  sparse_gradient all_reduce(const reduction& op, const sparse_gradient& x);
  /// The replicas' tensors one after the other along `axis`, from 0 (rows SYNC-AGA).
  /// `invalid_argument` for scalars, `out_of_range`; `shape_mismatch`, `dtype_mismatch` on all for
  /// tensors that don't go together.
  tensor all_gather(const tensor& x, std::int64_t axis = 0, const collective_options& options = {});

  /// The same for tensors on the replica's device; the result is there too, for its stream to use.
  /// Sums and means of f32 and sums of bf16 stay on the devices where all replicas' have
  /// collectives in common: GPUs with NCCL, CPUs of one process; the rest goes through the host.
  /// Each waits until it is done. A device tensor where another replica has a host tensor is a
  /// `mismatch`. Sums are formed in replica order, but by NCCL: in its own. `invalid_argument` for
  /// a tensor of another device, or of none; `collective_failed` when the devices' group breaks.
  device_tensor all_reduce(const reduction& op, const device_tensor& x,
                           const collective_options& options = {});
  device_tensor all_gather(const device_tensor& x, std::int64_t axis = 0,
                           const collective_options& options = {});
  device_tensor broadcast(const device_tensor& x, std::uint32_t root = 0,
                          const collective_options& options = {});
  /// For gradients that are summed while later layers still compute.
  troupe::gradient_reducer gradient_reducer(const gradient_reducer_options& options = {});

  /// Waits until all replicas have called it.
  void barrier();
  /// What replica `root` of all has.
  tensor broadcast(const tensor& x, std::uint32_t root = 0, const collective_options& options = {});
  /// Brings the replicas' gradients together by `op`, in buckets, and has each copy's optimizer
  /// apply the result once. They are summed unless told otherwise: scale losses by the global
  /// batch. `invalid_argument` when there are more of one than of the other; `shape_mismatch`,
  /// `dtype_mismatch` naming the variable, before anything is sent or changed.
  void apply(const std::vector<distributed_variable>& variables,
             const std::vector<tensor>& gradients, reduce_op op = reduce_op::sum);

  /// Waits until every replica of this process has called it; then `f(strategy, args...)` runs
  /// once, in cross-replica context, with the replicas' arguments regrouped; each replica gets its
  /// component of the result (rows SYNC-MRG). In loops and branches too, while all do the same.
  template <class F, class... Args>
  auto merge_call(F f, Args... args);

  /// `extended().update` in a merge call: `f(v, args...)` once for each copy, with the replica's
  /// own arguments (rows SYNC-UPD-R1 to R3). Include strategy_extended.hpp.
  template <class F, class... Args>
  auto update(const distributed_variable& v, F f, Args... args);

  /// For the strategy: a mean is that of so many replicas, those that have data.
  void set_live(std::uint32_t replicas) { live_ = replicas; }
  /// For the strategy: the step's input that lies on devices.
  void set_placed(std::vector<std::shared_ptr<const detail::placed_input>> inputs);
  /// For variables: has replicas without data do `f` too, which all others have done just now.
  /// Costs nothing in steps where all have data.
  void tell_silent(std::function<void(replica_context&)> f);
  /// For the strategy: makes the calls that the others make, with nothing of its own.
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
  /// What a mean divides by.
  std::uint32_t divisor() const { return live_ == 0 ? num_replicas_in_sync() : live_; }
  template <class T>
  T arithmetic(const reduction& op, const tensor& x);
  const std::shared_ptr<detail::sync_state> state_;
  const std::uint32_t local_;
  std::uint32_t live_ = 0; ///< 0: all
  /// Of the buckets that went in this run: what other processes must have sent as well.
  std::uint64_t buckets_digest_ = 0;
  std::shared_ptr<device_context> device_{};
  std::vector<std::shared_ptr<const detail::placed_input>> placed_{};
};

} // namespace troupe

#include <troupe/strategies/replicas/strategy_inline.hpp>
