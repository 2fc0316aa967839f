#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/sharding/partitioner.hpp>

/// Checks and arithmetic of variables' values. Pure functions; any thread. Source: TensorFlow's
/// ShardedVariable.
namespace troupe {

/// Element type and shape of one part of a sharded variable.
struct shard_form {
  troupe::dtype type = dtype::f32;
  shape_t shape{};
};

/// Element type and shape of the parts together.
struct container_form {
  troupe::dtype type = dtype::f32;
  shape_t shape{};
  std::vector<row_range> rows{}; ///< of each part
};

/// Form of a sharded variable with these parts in row order, which may have any row counts.
/// `invalid_argument` for no parts, `dtype_mismatch` and `shape_mismatch` name the part and both
/// values.
result<container_form> container_of(std::span<const shard_form> parts);

/// The parts one after the other along axis 0; a single part is shared, not copied.
/// `dtype_mismatch` when the parts differ or aren't of the `asked` type; `shape_mismatch`;
/// `invalid_argument` for no parts.
result<tensor> concatenate_shards(std::span<const tensor> parts, std::optional<dtype> asked = {});

/// Whether `value` fits the variable as a whole: `dtype_mismatch`, `shape_mismatch` naming the
/// variable and both sides, also for too many rows.
result<void> check_value(const tensor& value, const variable_spec& variable);

/// `value` as one view per shard. Errors as `check_value`.
result<std::vector<tensor>> split_by_shards(const tensor& value, const variable_spec& variable);

enum class binary_op : std::uint8_t {
  add = 0,
  sub = 1,
  mul = 2,
  div = 3,
  equal = 4,
  not_equal = 5,
  less = 6,
  less_equal = 7,
  greater = 8,
  greater_equal = 9,
};

/// "add" ...; "binary_op(77)" for a value outside the enum.
std::string to_string(binary_op op);

/// Applies `op` element by element; the first four give the operands' type, comparisons u8 of 0 and
/// 1. Types: f32, f64, i32, i64, both alike. Shapes are equal, or one side is a scalar. Integers
/// wrap and division truncates. Throws `dtype_mismatch`, `shape_mismatch` naming both sides,
/// `invalid_argument` for an integer divided by 0.
tensor apply_binary(binary_op op, const tensor& a, const tensor& b);

} // namespace troupe
