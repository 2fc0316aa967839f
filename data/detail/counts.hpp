#pragma once

#include <algorithm>
#include <cstdint>

#include <troupe/data/dataset_types.hpp>

/// Arithmetic on cardinalities: counts from 0 on, `infinite_cardinality`, `unknown_cardinality`.
/// Counts that overflow stay at the largest.
namespace troupe::detail {

inline bool is_known(std::int64_t x) { return x >= 0; }

/// `a` elements, then `b`.
inline std::int64_t count_sum(std::int64_t a, std::int64_t b) {
  if (!is_known(a) || !is_known(b))
    return a == infinite_cardinality || b == infinite_cardinality ? infinite_cardinality
                                                                  : unknown_cardinality;
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/// The smaller of two counts: as long as both last.
inline std::int64_t count_min(std::int64_t a, std::int64_t b) {
  if (is_known(a) && is_known(b))
    return std::min(a, b);
  if (a == 0 || b == 0)
    return 0;
  if (a == infinite_cardinality)
    return b;
  return b == infinite_cardinality ? a : unknown_cardinality;
}

/// `a`, `times` times.
inline std::int64_t count_times(std::int64_t a, std::uint64_t times) {
  if (times == 0)
    return 0;
  if (!is_known(a))
    return a;
  std::int64_t out = 0;
  return __builtin_mul_overflow(a, times, &out) ? INT64_MAX : out;
}

/// The count that is left after dropping `first`, then yielding one and dropping `between` again
/// and again.
inline std::int64_t count_stride(std::int64_t a, std::uint64_t first, std::uint64_t between) {
  if (!is_known(a))
    return a;
  auto n = static_cast<std::uint64_t>(a);
  return n <= first ? 0 : static_cast<std::int64_t>((n - first - 1) / (between + 1) + 1);
}

/// Groups of `size`, the last one smaller or dropped.
inline std::int64_t count_batches(std::int64_t a, std::uint64_t size, bool drop_remainder) {
  if (!is_known(a))
    return a;
  auto n = static_cast<std::uint64_t>(a);
  return static_cast<std::int64_t>(n / size + (drop_remainder || n % size == 0 ? 0 : 1));
}

} // namespace troupe::detail
