#pragma once

#include <cstdint>
#include <vector>

#include <troupe/troupe.hpp>

#include "train_step.hpp"

/// A replica's part of a step under a synchronous strategy.
namespace tool {

/// The result of a replica's piece of a batch.
struct piece_result {
  double loss_sum = 0; ///< over the piece's rows
  std::int64_t rows = 0;
};

/// The place where a replica computes its gradients.
enum class step_place : std::uint8_t {
  host = 0,  ///< plain CPU code
  device = 1 ///< kernels of the replica's device, and its collectives
};

/// The model's gradients and their update, step after step. Each replica has memory of its own, so
/// that they call it at once, each on its thread. It outlives the runs that call it.
class replica_step {
public:
  /// `weights`: w0, b0, w1, b1 of the perceptron, of a strategy with `local_replicas` here.
  replica_step(troupe::distributed_variables weights, std::uint32_t local_replicas,
               step_place where);

  /// Gradients of the piece's rows, as parts of the mean over the whole batch, their sum over the
  /// replicas, and one update of each variable by it. On a device a later layer's gradients are
  /// summed while earlier ones compute; the sums come to the host, where the variables are.
  piece_result operator()(troupe::replica_context& ctx, const troupe::element& batch);

private:
  using tensors = std::vector<troupe::tensor>;
  /// A piece, and its share of the whole batch.
  struct work {
    const troupe::element& batch;
    std::int64_t rows = 0;
    float share = 1; ///< of all replicas' rows
  };
  double on_host(troupe::replica_context& ctx, step_memory& memory, const work& piece,
                 tensors& gradients) const;
  double on_device(troupe::replica_context& ctx, step_memory& memory, const work& piece,
                   tensors& gradients) const;

  const troupe::distributed_variables weights_;
  const step_place where_;
  std::vector<step_memory> memory_; ///< of each local replica
};

} // namespace tool
