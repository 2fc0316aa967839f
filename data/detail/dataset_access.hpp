#pragma once

#include <utility>

#include <troupe/data/dataset.hpp>
#include <troupe/data/detail/node.hpp>

namespace troupe::detail {

/// Access of the other files of data/ to a dataset's node.
struct dataset_access {
  static const node_ptr& node(const dataset& x) { return x.node_; }
  static dataset make(node_ptr node) { return dataset{std::move(node)}; }
};

} // namespace troupe::detail
