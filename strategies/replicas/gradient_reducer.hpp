#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/device/bucket_reducer.hpp>
#include <troupe/device/tensor.hpp>
#include <troupe/transport/collective_types.hpp>

namespace troupe {

class replica_context;

/// Options of a gradient reducer: the same on all replicas, except the deadline.
struct gradient_reducer_options {
  reduce_op op = reduce_op::sum; ///< or mean: the sum times 1 / replicas
  /// Bytes of f32 in a bucket; a larger gradient has a bucket of its own.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  bool bf16 = false; ///< half the bytes on the way; the sum is of rounded numbers
  /// Deadline of each wait; one that is not given is the strategy's `collective_timeout`.
  duration deadline = no_deadline_given;
};

/// Sums the replicas' gradients bucket by bucket while later layers still compute: a bucket that is
/// full goes at once, on the replica's stream for collectives, behind what its compute stream holds
/// by then. From `replica_context::gradient_reducer`; for the replica's thread and the run that it
/// was made in. All replicas hand in gradients of the same shapes in the same order and have the
/// same options: each bucket is one call of the replica, compared with the others' before it goes
/// (`mismatch` quotes both). Where the devices have no collectives in common the buckets go through
/// the host, one after the other. Sums are formed in replica order, but by NCCL: in its own. What
/// gradients hold after an error is undefined, and the run has failed.
class gradient_reducer {
public:
  /// A reducer of a replica, for `replica_context::gradient_reducer`. `invalid_argument` for other
  /// operators than sum and mean.
  gradient_reducer(replica_context& ctx, gradient_reducer_options options);

  /// Hands in a gradient: f32, on the replica's device, enqueued on `ctx.device().stream()` or
  /// waited for by that stream. The gradient becomes the replicas' sum in place; it may be read
  /// after `finish`. `dtype_mismatch` for another dtype, `invalid_argument` for another device and
  /// a tensor without a value.
  void add(const device_tensor& gradient);
  /// Sends the last bucket and waits until all sums are there. Then the next step's gradients may
  /// come. `deadline`, `peer_lost`, `mismatch`, `collective_failed`.
  void finish();
  /// Number of buckets sent since the reducer was made.
  std::uint64_t bucket_count() const { return buckets_; }

private:
  void send(const std::vector<device_tensor>& bucket);
  replica_context* const ctx_;
  const gradient_reducer_options options_;
  bucket_filler filler_;
  std::uint64_t buckets_ = 0;
};

} // namespace troupe
