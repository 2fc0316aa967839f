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

struct tpu_options {
  replica_options replicas{};
  /// A partitioner owns the placement on logical devices: nothing is put there by hand.
  bool spmd = false;
  /// What the cores are, in the order of their numbers. Empty: all GPUs, else all CPU devices.
  std::vector<std::string> devices{};
  /// Pieces of input go to the devices in the order of their numbers: a replica gets what is its
  /// device's, whatever its place in the assignment. False: in the order of replicas (row
  /// SYNC-ITR-18).
  bool input_follows_devices = true;
  /// What `cluster_resolver` tells; null: nothing (row SYNC-CTX-29).
  std::shared_ptr<const class cluster_resolver> resolver{};
};

/// An accelerator slice: replicas in the order of a device assignment, each on one or more cores.
/// Here a core is a device of the runtime: core number d of the slice, "tpu:d", is its d-th one
/// (rows SYNC-TPU, LOG). Row counts may not differ between replicas in `gather` and `all_gather`;
/// rows of a variable are changed with aggregation none only.
class tpu_strategy : public strategy {
public:
  /// One replica on each device of the runtime.
  explicit tpu_strategy(runtime& rt, tpu_options options = {});
  /// One replica on each core of the slice.
  tpu_strategy(runtime& rt, const topology& slice, tpu_options options = {});
  /// `invalid_argument` for a slice of several tasks, and one with more cores than there are
  /// devices, naming both numbers.
  tpu_strategy(runtime& rt, device_assignment assignment, tpu_options options = {});

  const device_assignment& assignment() const { return *assignment_; }
  /// Devices of one replica: 0 to n - 1 (row SYNC-LOG-1).
  std::uint32_t num_logical_devices() const { return assignment_->cores_per_replica(); }

  // Inside a replica's function, for its own devices; `wrong_state` elsewhere. Values don't change.

  /// `invalid_argument` past the devices, and with `spmd` (row SYNC-LOG-5).
  placed_tensor assign_to_logical_device(const tensor& x, std::uint32_t index) const;
  /// Tile j, in row-major order, on logical device j; `invalid_argument` as
  /// troupe::split_to_logical_devices (row SYNC-LOG-6).
  std::vector<placed_tensor> split_to_logical_devices(const tensor& x,
                                                      std::span<const std::int64_t> dims) const;
  std::vector<placed_tensor> split_to_logical_devices(
    const tensor& x, std::initializer_list<std::int64_t> dims) const {
    return split_to_logical_devices(x, std::span{dims.begin(), dims.size()});
  }
  /// The same on all (row SYNC-LOG-7).
  placed_tensor replicate_to_logical_devices(const tensor& x) const;
  /// Streams, tensors and kernels of one of the replica's devices.
  device_context& logical_device(std::uint32_t index) const;

private:
  /// This lane's replica of this strategy.
  std::uint32_t here(const char* what) const;
  std::shared_ptr<const device_assignment> assignment_;
  bool spmd_;
};

} // namespace troupe
