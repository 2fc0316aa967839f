#pragma once

#include <cstdint>
#include <optional>

#include <troupe/data/detail/node.hpp>

/// The operations as nodes; arguments are checked before. Any thread.
namespace troupe::detail {

node_ptr make_map_node(node_ptr input, element_function function);
node_ptr make_shuffle_node(node_ptr input, std::uint64_t buffer, std::optional<std::uint64_t> seed,
                           bool reshuffle);
node_ptr make_repeat_node(node_ptr input, std::optional<std::uint64_t> rounds);
/// @pre size > 0
node_ptr make_batch_node(node_ptr input, std::uint64_t size, bool drop_remainder);
/// @pre index < count
node_ptr make_shard_node(node_ptr input, std::uint64_t count, std::uint64_t index);
/// `make_shard_node` that fails where there is no element for every shard. @pre index < count
node_ptr make_full_shard_node(node_ptr input, std::uint64_t count, std::uint64_t index);
/// Stands for a shard whose numbers the policy HINT fills in; cannot be opened.
node_ptr make_shard_hint_node(node_ptr input);
node_ptr make_skip_node(node_ptr input, std::uint64_t count);
node_ptr make_take_node(node_ptr input, std::uint64_t count);
node_ptr make_prefetch_node(node_ptr input, std::uint64_t count);
node_ptr make_concatenate_node(node_ptr a, node_ptr b);
node_ptr make_zip_node(node_ptr a, node_ptr b);

} // namespace troupe::detail
