#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/strategies/synchronous/mirrored_strategy.hpp>
#include <troupe/strategies/topology/device_assignment.hpp>
#include <troupe/strategies/variables/strategy_extended.hpp>

namespace troupe {

/// Devices and input of a `tpu_strategy`.
struct tpu_options {
  replica_options replicas{};
  /// A partitioner owns the placement on logical devices: nothing is put there by hand.
  bool spmd = false;
  /// Devices that stand for the cores, in the order of their numbers. Empty: all GPUs, else all CPU
  /// devices.
  std::vector<std::string> devices{};
  /// Pieces of input go to the devices in the order of their numbers: a replica gets what is its
  /// device's, whatever its place in the assignment. False: in the order of replicas.
  bool input_follows_devices = true;
  /// The resolver that `cluster_resolver` returns; null: none.
  std::shared_ptr<const class cluster_resolver> resolver{};
};

/// An accelerator slice: replicas in the order of a device assignment, each on one or more cores.
/// Here a core is a device of the runtime: core number d of the slice, "tpu:d", is its d-th one.
/// Row counts may not differ between replicas in `gather` and `all_gather`; rows of a variable are
/// changed with aggregation none only.
class tpu_strategy : public strategy {
public:
  /// A strategy with one replica on each device of the runtime.
  explicit tpu_strategy(runtime& rt, tpu_options options = {});
  /// A strategy with one replica on each core of the slice. Throws as the next constructor.
  tpu_strategy(runtime& rt, const topology& slice, tpu_options options = {});
  /// A strategy with the replicas of an assignment. `invalid_argument` for a slice of several
  /// tasks, and one with more cores than there are devices, naming both numbers.
  tpu_strategy(runtime& rt, device_assignment assignment, tpu_options options = {});

  /// The cores of each replica.
  const device_assignment& assignment() const { return *assignment_; }
  /// Number n of devices of one replica; they are logical devices 0 to n - 1.
  std::uint32_t num_logical_devices() const { return assignment_->cores_per_replica(); }

  // Inside a replica's function, for its own devices; `wrong_state` elsewhere. Values don't change.

  /// `x` on logical device `index`. `invalid_argument` past the devices, and with `spmd`.
  placed_tensor assign_to_logical_device(const tensor& x, std::uint32_t index) const;
  /// Cuts `x` in `dims[i]` equal parts along each axis i: tile j, in row-major order, is on logical
  /// device j. `invalid_argument` as troupe::split_to_logical_devices.
  std::vector<placed_tensor> split_to_logical_devices(const tensor& x,
                                                      std::span<const std::int64_t> dims) const;
  std::vector<placed_tensor> split_to_logical_devices(
    const tensor& x, std::initializer_list<std::int64_t> dims) const {
    return split_to_logical_devices(x, std::span{dims.begin(), dims.size()});
  }
  /// `x` on all logical devices.
  placed_tensor replicate_to_logical_devices(const tensor& x) const;
  /// Streams, tensors and kernels of logical device `index` of the replica. `device_unavailable`.
  device_context& logical_device(std::uint32_t index) const;

private:
  /// Local number of the replica of this strategy whose function runs on this thread.
  std::uint32_t here(const char* what) const;
  std::shared_ptr<const device_assignment> assignment_;
  bool spmd_;
};

} // namespace troupe
