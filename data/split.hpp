#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <troupe/data/dataset.hpp>

/// How one global batch is divided among replicas: plain arithmetic, any thread. Names: G rows in a
/// global batch, W workers with R replicas each, n = W * R. Errors are `invalid_argument` naming
/// the argument and its value.
namespace troupe {

/// The rule that cuts a batch that is smaller than the others.
enum class split : std::uint8_t {
  /// Pieces have the sizes that a whole batch gives them and are filled one after the other, so
  /// that of 6 rows for two replicas of 4 the first has [0, 1, 2, 3] and the second [4, 5].
  stream,
  /// Each batch is cut into pieces of ceil(rows / n): [0, 1, 2] and [3, 4, 5].
  even
};

/// Replicas of each worker; throws when `replicas` is no multiple of `workers`.
std::int64_t replicas_per_worker(std::int64_t replicas, std::int64_t workers);

/// The stream rule: the sizes that worker `worker` takes from its stream, one for each of its
/// replicas in each step, over and over. W * R of them with the sum G. In every step all replicas
/// together take G, and no two sizes differ by more than 1.
std::vector<std::int64_t> stream_split_sizes(std::int64_t global_rows, std::int64_t workers,
                                             std::int64_t replicas_each, std::int64_t worker);

/// The per-batch rule: always `pieces` sizes with the sum `rows`; the last are smaller or 0.
std::vector<std::int64_t> even_split_sizes(std::int64_t rows, std::int64_t pieces);

/// A size for each weight, with the sum `rows`, in proportion to the weights; what rounding leaves
/// goes to the largest remainders, the first of equals first. Weights are at most 2^32 - 1 and not
/// all 0, rows below 2^31: the arithmetic is exact, so that every worker has the same result.
std::vector<std::int64_t> weighted_split_sizes(std::int64_t rows,
                                               std::span<const std::uint32_t> weights);

/// G as far as the description tells: the size of the batch operation that `data` comes from,
/// looked up through shuffle, repeat, shard, take, skip and prefetch, and through zip and
/// concatenate of equal sizes; -1 behind any other operation. Reads nothing. Source: TensorFlow,
/// core/kernels/data/experimental/compute_batch_size_op.cc.
std::int64_t static_batch_size(const dataset& data);

/// G as `data` is distributed by: first what every element has for certain, as after
/// `batch(n, true)`, also through a function that keeps it, and for elements that are rows of
/// arrays; else as above. May open sources and call functions, on their first element.
std::int64_t static_batch_size(const dataset& data, data_context context);

} // namespace troupe
