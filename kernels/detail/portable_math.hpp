// log, sine and cosine from +, -, *, / alone, in double. The C library's differ in the last bit
// between versions and processors; these give the same bits wherever contraction is off, so
// strict_math.hpp must come first. Errors below 1e-15 relative (absolute for sine and cosine) on
// the stated ranges.
#pragma once

#include <cstdint>

namespace troupe::kernels::detail {

/// Natural logarithm of a positive, finite, normal number.
inline double portable_log(double x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh((m - 1) / (m + 1)), a series in
  // s^2 <= 0.0295.
  const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, x);
  std::int64_t exponent = static_cast<std::int64_t>((bits >> 52) & 0x7ffu) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffu) | (std::uint64_t{1023} << 52));
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double series = 0.0;
  for (int k = 25; k >= 1; k -= 2)
    series = series * s2 + 1.0 / k;
  return static_cast<double>(exponent) * 0.6931471805599453 + 2.0 * s * series;
}

struct sine_cosine {
  double sine = 0;
  double cosine = 0;
};

/// Sine and cosine of `turns` full turns, turns in [0, 1].
inline sine_cosine portable_sincos(double turns) {
  const int quarter = static_cast<int>(turns * 4.0 + 0.5);
  const double angle = (turns - quarter * 0.25) * 6.283185307179586; // in [-pi/4, pi/4]
  const double a2 = angle * angle;
  double sine = 1.0;
  double cosine = 1.0;
  for (int k = 17; k >= 3; k -= 2) {
    sine = 1.0 - sine * a2 / (k * (k - 1));
    cosine = 1.0 - cosine * a2 / ((k - 1) * (k - 2));
  }
  sine *= angle;
  switch (quarter & 3) {
    case 0: return {sine, cosine};
    case 1: return {cosine, -sine};
    case 2: return {-sine, -cosine};
    default: return {-cosine, sine};
  }
}

} // namespace troupe::kernels::detail
