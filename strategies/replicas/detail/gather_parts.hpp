#pragma once

#include <cstddef>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe::detail {

/// The members' `x` in rank order, of one type and of shapes that agree but along `axis`, or there
/// too unless `any_extent`: else `dtype_mismatch`, `shape_mismatch` naming a member, on all
/// members.
result<void> gather_parts(collective_group& group, const tensor& x, std::size_t axis,
                          bool any_extent, const collective_options& with,
                          std::vector<tensor>& parts);

} // namespace troupe::detail
