#pragma once

#include <cstdint>
#include <span>

#include <troupe/core/tensor.hpp>
#include <troupe/transport/collective_types.hpp>

/// Host tensors one behind the other. Pure functions; any thread.
namespace troupe::detail {

/// Concatenates `parts` along `axis`; throws `shape_mismatch` naming the dimension or rank that
/// differs, `out_of_range` for the axis, `invalid_argument` for scalars.
tensor concatenate_along(const char* what, std::span<const tensor> parts, std::int64_t axis);

/// `x` as one row: [1] + its shape.
tensor row_of(const tensor& x);
/// No row of such: [0] + the shape of `x`.
tensor no_row_like(const tensor& x);
/// A user's reduction has nothing that stands for no value: the rows of those that have one are
/// brought together, and reduced in order. `invalid_argument` when there is none.
tensor reduce_rows(const reduction& op, const tensor& rows);

} // namespace troupe::detail
