#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/transport/collective_types.hpp>

/// What the replicas of a run do together in one call. Plain values; any thread.
namespace troupe {

enum class operation_kind : std::uint8_t {
  other = 0, ///< a merge call: no replica without data takes part
  barrier = 1,
  all_reduce = 2,
  all_gather = 3,
  broadcast = 4,
  reduce_gradients = 5, ///< a bucket of gradients
  finish_gradients = 6  ///< waits for all buckets
};

/// A collective operation with its parameters; of those that its kind does not have nothing is
/// told.
struct replica_operation {
  operation_kind kind = operation_kind::other;
  reduce_op op = reduce_op::sum; ///< of all_reduce and the gradients
  std::string user{};            ///< the name of a user's own reduction
  std::int64_t axis = 0;         ///< of all_gather; not negative
  std::uint32_t root = 0;        ///< of broadcast: a replica's number in the whole group

  friend bool operator==(const replica_operation&, const replica_operation&) = default;
};

/// "all_reduce"; empty for `other`.
std::string_view to_string(operation_kind kind);
/// The parameters in words: "sum", a user's name, "axis 1", "from 2"; empty where there are none.
/// Processes compare these words with each other's.
std::string parameters_of(const replica_operation& of);

} // namespace troupe
