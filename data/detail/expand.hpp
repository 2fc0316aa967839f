#pragma once

#include <cstdint>

#include <troupe/data/detail/node.hpp>

/// Datasets made from elements: interleave, of which flat_map is the case of one at a time.
namespace troupe::detail {

/// `block` elements in turn from each of `cycle` inputs that are open at once; one that ends makes
/// room for the next when its turn comes. @pre both are over 0
node_ptr make_expand_node(node_ptr input, dataset_function function, std::uint64_t cycle,
                          std::uint64_t block, std::string label);

} // namespace troupe::detail
