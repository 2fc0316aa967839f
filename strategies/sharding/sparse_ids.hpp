#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/core/result.hpp>
#include <troupe/core/tensor.hpp>

/// Bags of ids for sparse look-ups. Plain values.
namespace troupe {

/// How the rows of one bag become one: sum of w * e; divided by the sum of w; divided by the root
/// of the sum of w * w.
enum class combiner : std::uint8_t { sum = 0, mean = 1, sqrtn = 2 };

/// The combiner called "sum", "mean" or "sqrtn"; `invalid_argument` quotes another name.
result<combiner> combiner_from_name(std::string_view name);

/// Bags of ids: entry i says that the bag at `indices[i]` (all but the last coordinate) contains
/// `values[i]`.
struct sparse_ids {
  tensor indices{};      ///< i64 [n, r], r = dense_shape.size() >= 2; any order
  tensor values{};       ///< i64 [n]
  shape_t dense_shape{}; ///< [..., longest bag]

  /// Bag b holds values[splits[b]] ... values[splits[b + 1] - 1]. Throws `invalid_argument` for
  /// splits that don't ascend from 0 to the number of values.
  static sparse_ids from_row_splits(std::span<const std::int64_t> splits,
                                    std::span<const std::int64_t> values);
};

} // namespace troupe
