// Reading and changing chosen rows of a row-major table.
//
// `table`: [table.size() / cols, cols]; `rows`: [n] row numbers within the table, in any order,
// repeats allowed; values: [n, cols], row i belonging to rows[i]. Disjoint memory. Element types:
// float, double, std::int32_t, std::int64_t, std::uint8_t (instantiated in the .cpp); arithmetic as
// in elementwise.hpp. A scatter applies rows[0], rows[1], ... in that order, so repeated rows
// accumulate (add, ...) or the last one stays (update), as on the elements one by one. Errors:
// std::invalid_argument naming the argument when a size or a row number is wrong; nothing is
// written then. Pure functions, any thread, no allocation; the rows 8 ahead are prefetched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace troupe::kernels {

/// The operation of a scatter on the old element o and the new one v.
enum class scatter_op : std::uint8_t {
  add,    ///< o + v
  sub,    ///< o - v
  mul,    ///< o * v
  div,    ///< o / v
  min,    ///< the smaller
  max,    ///< the larger
  update, ///< v
};

/// out row i = table row rows[i].
template <class T>
void gather_rows(std::span<const std::type_identity_t<T>> table, std::size_t cols,
                 std::span<const std::int64_t> rows, std::span<T> out);

/// `gather_rows` for any element type: rows of `row_bytes` bytes.
void gather_row_bytes(std::span<const std::byte> table, std::size_t row_bytes,
                      std::span<const std::int64_t> rows, std::span<std::byte> out);

/// table row rows[i] = op(table row rows[i], values row i), for i in order.
template <class T>
void scatter_rows(scatter_op op, std::span<T> table, std::size_t cols,
                  std::span<const std::int64_t> rows,
                  std::span<const std::type_identity_t<T>> values);

/// Position in `rows` of the first number outside [0, row_count), or rows.size().
std::size_t first_bad_row(std::span<const std::int64_t> rows, std::size_t row_count);

} // namespace troupe::kernels
