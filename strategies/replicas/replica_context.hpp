#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/device/tensor.hpp>
#include <troupe/strategies/replicas/gradient_reducer.hpp>
#include <troupe/strategies/replicas/replica_types.hpp>
#include <troupe/strategies/sharding/embedding.hpp>
#include <troupe/transport/collective_types.hpp>

/// What a replica's function calls. `merge_call` is defined in strategy.hpp, `update` in
/// strategy_extended.hpp.
namespace troupe {

class device_context;
class distributed_variable;
struct replica_call;

/// A replica's view while its function runs. Used on the function's thread only, `wrong_state`
/// elsewhere. All replicas make the same collective calls in the same order, with the same options,
/// dtypes and shapes. A replica that makes another call gets `mismatch`, and so do the others, with
/// both calls quoted. A call that waits in vain ends with `deadline` or `peer_lost`, naming the
/// missing replicas; the strategy is good for the next run.
class replica_context {
public:
  /// The constructor for the strategy.
  replica_context(std::shared_ptr<detail::replica_engine> state, std::uint32_t local);
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
  void tell_empty_replicas(std::function<void()> f);
  /// For the strategy: makes the calls that the other replicas make, with no data of its own.
  void follow_as_empty_replica(const std::vector<bool>& empty_replicas);

private:
  friend class troupe::gradient_reducer;
  bool follow_one_call_as_empty_replica(const std::vector<bool>& empty_replicas);
  bool follow_on_device(const replica_call& next);
  void follow_on_host(const replica_call& next);
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
  const std::shared_ptr<detail::replica_engine> state_;
  const std::uint32_t local_;
  std::uint32_t live_ = 0; ///< 0: all
  /// Digest of the buckets that went in this run, which other processes must have sent as well.
  std::uint64_t buckets_digest_ = 0;
  std::shared_ptr<device_context> device_{};
  std::vector<std::shared_ptr<const detail::placed_input>> placed_{};
};

template <class T>
requires std::is_arithmetic_v<T> T replica_context::all_reduce(const reduction& op, T x) {
  if constexpr (std::is_integral_v<T>)
    if (op.op == reduce_op::mean)
      throw_failure(errc::invalid_argument,
                    "all_reduce mean: the mean of integers is not an integer; pass a double, or a "
                    "tensor, whose mean is f64");
  return all_reduce(op, tensor::scalar(x)).template item<T>();
}

} // namespace troupe
