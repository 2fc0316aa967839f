#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <troupe/kernels/detail/host_device.hpp>

namespace troupe::kernels::detail {

/// Does `f` on unsigned copies of integers, where overflow wraps instead of being undefined. Small
/// types go through `unsigned`, since their own promotion is to signed int.
template <class T, class F>
TROUPE_HOST_DEVICE inline T wrapping(T a, T b, F f) {
  using wide =
    std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
  return static_cast<T>(f(static_cast<wide>(a), static_cast<wide>(b)));
}

template <class T>
TROUPE_HOST_DEVICE inline T add_one(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  else
    return a + b;
}

template <class T>
TROUPE_HOST_DEVICE inline T sub_one(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return wrapping(a, b, [](auto x, auto y) { return x - y; });
  else
    return a - b;
}

template <class T>
TROUPE_HOST_DEVICE inline T mul_one(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  else
    return a * b;
}

template <class T>
TROUPE_HOST_DEVICE inline T div_one(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0)
      return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) // the lowest value divided by -1 traps
        return sub_one(T(0), a);
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

template <class T>
TROUPE_HOST_DEVICE inline T min_one(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return b < a ? b : a;
  else
    return (a < b || a != a) ? a : b; // a NaN on either side comes through
}

template <class T>
TROUPE_HOST_DEVICE inline T max_one(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return a < b ? b : a;
  else
    return (a > b || a != a) ? a : b;
}

template <class T>
inline constexpr T quiet_nan = std::numeric_limits<T>::quiet_NaN();

/// `x` as a number without a history: -0 becomes 0, and every NaN the quiet one.
template <class T>
TROUPE_HOST_DEVICE inline T plain_value(T x) {
  if constexpr (std::is_integral_v<T>) {
    return x;
  } else {
    constexpr T nan = quiet_nan<T>;
    return x != x ? nan : x + T(0);
  }
}

/// An integer as wide as T: what a comparison of vectors gives.
template <class T>
using mask_t = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// -1 when one of the two is a NaN, else 0.
template <class T>
inline mask_t<T> unordered(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return 0;
  else
    return __builtin_isunordered(a, b) ? -1 : 0;
}

} // namespace troupe::kernels::detail
