#pragma once

#include <troupe/kernels/detail/check.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::kernels::detail {

/// Position in `rows` of the first number outside [0, bound), or rows.size(). In blocks without an
/// early exit, which compilers vectorise.
inline std::size_t first_bad(std::span<const std::int64_t> rows, std::size_t bound) {
  constexpr std::size_t block_len = 64;
  const auto is_bad = [bound](std::int64_t row) {
    return static_cast<std::uint64_t>(row) >= bound; // negatives are huge here
  };
  std::size_t i = 0;
  for (; i + block_len <= rows.size(); i += block_len) {
    std::uint64_t bad = 0;
    for (std::size_t j = 0; j < block_len; ++j)
      bad |= is_bad(rows[i + j]) ? 1u : 0u;
    if (bad != 0)
      break;
  }
  while (i < rows.size() && !is_bad(rows[i]))
    ++i;
  return i;
}

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
  if (const std::size_t i = first_bad(rows, bound); i < rows.size())
    fail_index(function, "rows", i, rows[i], bound);
}

inline constexpr std::size_t prefetch_rows = 8;
inline constexpr std::size_t cache_line_bytes = 64;
/// Tables up to here are taken to lie in the second-level cache, where prefetching only costs.
inline constexpr std::size_t near_bytes = 512 * 1024;

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
