#pragma once

#include <troupe/kernels/detail/check.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::kernels::detail {

/// Checks a table [table_len / cols, cols] against [n] row numbers and [n, cols] values.
inline void expect_rows(const char* function, std::size_t table_len, std::size_t cols,
                        std::span<const std::int64_t> rows, std::size_t values_len) {
  expect_size(function, "values.size()", values_len, rows.size() * cols);
  if (cols == 0) {
    expect_size(function, "table.size()", table_len, 0);
    return;
  }
  expect_size(function, "table.size() % cols", table_len % cols, 0);
  const std::size_t bound = table_len / cols;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (static_cast<std::uint64_t>(rows[i]) >= bound) // negatives are huge here
      fail_index(function, "rows", i, rows[i], bound);
}

inline constexpr std::size_t prefetch_rows = 8;
inline constexpr std::size_t cache_line_bytes = 64;

/// Asks for the first lines of row `i + prefetch_rows`; the hardware streams the rest of a long row
/// by itself.
template <class T>
inline void prefetch_row(const T* table, std::size_t cols, std::span<const std::int64_t> rows,
                         std::size_t i) {
  if (i + prefetch_rows >= rows.size())
    return;
  const std::size_t next_row = static_cast<std::size_t>(rows[i + prefetch_rows]);
  const char* next = reinterpret_cast<const char*>(table + next_row * cols);
  const std::size_t row_bytes = cols * sizeof(T);
  for (std::size_t at = 0; at < row_bytes && at < 4 * cache_line_bytes; at += cache_line_bytes)
    __builtin_prefetch(next + at);
}

} // namespace troupe::kernels::detail
