#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/device/comm_set.hpp>
#include <troupe/device/ops.hpp>

namespace troupe {

struct bucket_options {
  std::size_t bucket_bytes = std::size_t{4} << 20; ///< of f32; a larger gradient has one of its own
  bool bf16 = false; ///< half the bytes on the way; the sum is of rounded numbers
  float scale = 1;   ///< of the sum: 1 / members for the mean
};

/// Puts gradients into buckets, in the order in which they come. Plain.
class bucket_filler {
public:
  explicit bucket_filler(std::size_t bucket_bytes) : bytes_max_{bucket_bytes} {}
  /// Adds a gradient; returns the buckets that are full now: the one that has no room for the
  /// gradient, and the one that the gradient fills.
  std::vector<std::vector<device_tensor>> add(const device_tensor& gradient);
  /// The bucket that is not full; may be empty.
  std::vector<device_tensor> rest();

private:
  const std::size_t bytes_max_;
  std::vector<device_tensor> waiting_{};
  std::size_t bytes_ = 0;
};

/// Sums gradients over a group while later ones are still computed: each bucket that is full is
/// packed, summed and unpacked on a communication stream, behind the event at which its last
/// gradient was enqueued. All members hand in the same gradients in the same order. One thread at a
/// time.
class bucket_reducer {
public:
  /// `comm_stream`: of the same device, for the group alone.
  bucket_reducer(std::shared_ptr<device> on, device_comm comm, device_stream comm_stream,
                 bucket_options options = {});

  /// Hands in a gradient (f32) that is enqueued on `compute`. The gradient becomes the group's sum,
  /// in place, by `finish`.
  result<void> add(const device_tensor& gradient, const device_stream& compute);
  /// Sends these gradients (f32) as one bucket, now.
  result<void> reduce(std::span<const device_tensor> gradients, const device_stream& compute);
  /// Sends the last bucket. Work that `compute` gets from now on runs once all sums are there; the
  /// event passes then.
  result<stream_event> finish(const device_stream& compute);

  /// Buckets that went since the reducer was made.
  std::uint64_t bucket_count() const { return buckets_; }

private:
  const std::shared_ptr<device> on_;
  const device_comm comm_;
  const device_stream comm_stream_;
  const bucket_options options_;
  device_ops ops_;
  bucket_filler filler_;
  std::uint64_t buckets_ = 0;
};

} // namespace troupe
