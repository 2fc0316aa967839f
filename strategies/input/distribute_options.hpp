#pragma once

#include <cstdint>
#include <vector>

#include <troupe/data/distributed_input.hpp>
#include <troupe/strategies/replicas/input_context.hpp>

namespace troupe {

/// The treatment of a replica in a step that has no data for it.
enum class empty_pieces : std::uint8_t {
  /// The replica's function is not called: the replica adds nothing to sums and counts, and a mean
  /// is that of the others. The replica takes part in the others' collective calls with no data; in
  /// a merge call it can't. Where none of a worker's replicas has data while another worker's has,
  /// its functions are called with zero rows.
  skip = 0,
  /// The replica's function is called with tensors of zero rows.
  call = 1
};

/// How a dataset is divided over workers and replicas.
struct distribute_options {
  autoshard_policy policy = autoshard_policy::automatic;
  split rule = split::stream;
  /// Weights of all replicas of the whole group, in rank order: pieces are in proportion to them.
  /// Empty: all alike.
  std::vector<std::uint32_t> weights{};
  /// False: elements are not divided; each replica takes one in turn.
  bool rebatch = true;
  empty_pieces empties = empty_pieces::skip;
  /// Seed for shuffles that have none, the same on all workers; 0: drawn by the first worker.
  std::uint64_t shared_seed = 0;
  input_options input{};
};

} // namespace troupe
