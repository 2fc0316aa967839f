#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/transport/collective_types.hpp>

/// Reductions of whole host tensors. Pure functions; any thread.
namespace troupe::detail {

inline bool is_integer(dtype type) { return type <= dtype::i64; }

/// Element-wise reduction in the order given. A mean of integers is f64. Throws `shape_mismatch`,
/// `dtype_mismatch` naming `what` and the component.
tensor reduce_tensors(const char* what, const reduction& op, std::span<const tensor> parts);
/// `x` reduced along `axes`; negative ones count from the end. Where an axis has no elements: the
/// operation's neutral element. Throws `out_of_range`, and `invalid_argument` for an axis that is
/// given twice. For a mean: the sum as `mean_summand` has it, and `elements` is the number that
/// went into each.
tensor reduce_axes(const char* what, const reduction& op, const tensor& x,
                   std::vector<std::int64_t> axes, std::int64_t& elements);
/// The summand of `x` for a mean, in a type where no sum of 2^31 replicas wraps, and none of a
/// narrow type overflows: f16 as f32, bf16 as f64; integers as i64 [2] + shape, their upper and
/// lower words. Other types stay as they are.
tensor mean_summand(const tensor& x);
/// The shape of the elements, of type `type`, that `summand` stands for.
shape_t shape_of_summand(const tensor& summand, dtype type);
/// The mean of elements of `type` from the sum of their summands: f64 for integers, else `type`.
/// Of none: a quiet NaN.
tensor mean_of(const tensor& sum, dtype type, std::int64_t by);
/// Throws `dtype_mismatch` naming `what` and the component.
void require_one_type(const char* what, std::span<const tensor> parts);
/// The numerator over the denominator, true division: f64 for integers.
tensor divide(const tensor& x, std::int64_t by);
/// The neutral element of `op`, in the given shape. @pre `op` is not a user's.
tensor neutral(dtype type, const shape_t& shape, reduce_op op);

} // namespace troupe::detail
