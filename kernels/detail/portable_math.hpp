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
  constexpr double terms[] = {1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                              1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  double series = 0.0;
  for (double term : terms)
    series = series * s2 + term;
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
  // 1 / (k (k - 1)) for k = 17, 15, ..., 3 and k = 16, 14, ..., 2.
  constexpr double sine_steps[] = {1.0 / 272, 1.0 / 210, 1.0 / 156, 1.0 / 110,
                                   1.0 / 72,  1.0 / 42,  1.0 / 20,  1.0 / 6};
  constexpr double cosine_steps[] = {1.0 / 240, 1.0 / 182, 1.0 / 132, 1.0 / 90,
                                     1.0 / 56,  1.0 / 30,  1.0 / 12,  1.0 / 2};
  double sine = 1.0;
  double cosine = 1.0;
  for (int i = 0; i < 8; ++i) {
    sine = 1.0 - sine * a2 * sine_steps[i];
    cosine = 1.0 - cosine * a2 * cosine_steps[i];
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
