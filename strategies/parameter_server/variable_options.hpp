#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/cluster/cluster_resolver.hpp>
#include <troupe/strategies/optimizer/optimizer.hpp>
#include <troupe/strategies/parameter_server/variable.hpp>
#include <troupe/strategies/sharding/partitioner.hpp>
#include <troupe/strategies/sharding/placement.hpp>

/// What a parameter server strategy and its variables are asked to be. Plain values.
namespace troupe {

/// How variables are divided and placed.
struct parameter_server_options {
  /// How variables are cut into shards along axis 0; none: they stay whole.
  troupe::partitioner partitioner{};
  /// How shards are spread over the servers.
  troupe::placement placement = troupe::placement::round_robin;
  /// The resolver that `cluster_resolver` returns; null: none.
  std::shared_ptr<const cluster_resolver> resolver{};
};

/// Initial values of one shard: called once for each shard, with the shard's shape and its first
/// row in the whole variable. Must return a tensor of that shape and of the variable's dtype.
using shard_initializer = std::function<tensor(const shape_t& shape, std::int64_t row_begin)>;

/// Options of a new variable. `initial` is a rule that the servers follow, a whole value, or a
/// function called here once for each shard.
struct variable_options {
  std::string name{}; ///< empty: "variable_N"
  shape_t shape{};    ///< may be empty when `initial` is a tensor
  troupe::dtype type = dtype::f32;
  std::variant<initializer_spec, tensor, shard_initializer> initial{initializer_spec{}};
  troupe::optimizer optimizer{};
  /// The new variable goes to the server of this one's first shard and stays whole.
  variable colocate_with{};
};

} // namespace troupe
