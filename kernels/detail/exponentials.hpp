// e^x for x <= 0 from +, -, * and / alone, with loops that compilers vectorise: the same bits on
// every machine, for every vector width and alignment. Include after strict_math.hpp.
//
// x = k ln 2 + r with |r| <= ln(2) / 2, e^x = 2^k e^r; ln 2 in two parts, so that k times the first
// is exact. Errors: at most 1 unit in the last place (float), 2 (double); results below the
// smallest normal number are rounded once more, down to 0. -infinity gives 0, a NaN a NaN.
// Source: Cody and Waite, "Software Manual for the Elementary Functions", 1980; the coefficients
// are those of Cephes (expf.c, exp.c).
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels::detail {

/// e^x. @pre x <= 0 or NaN.
inline float exp_one(float x) {
  constexpr float lowest = -104.0f;      // e^x is 0 from here
  constexpr float to_integer = 12582912; // 1.5 * 2^23: a sum with it has the integer in its bits
  const float bounded = x < lowest ? lowest : x;
  const float shifted = bounded * 1.44269504f + to_integer;
  const float k = shifted - to_integer;
  const float r = (bounded - k * 0.693359375f) - k * -2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r + 1.0f;
  // 2^k in two factors, both of them normal.
  const std::uint32_t both = __builtin_bit_cast(std::uint32_t, shifted)
                             - __builtin_bit_cast(std::uint32_t, to_integer) + 256;
  const std::uint32_t half = both >> 1;
  return y * __builtin_bit_cast(float, (half - 1) << 23)
         * __builtin_bit_cast(float, (both - half - 1) << 23);
}

/// e^x. @pre x <= 0 or NaN.
inline double exp_one(double x) {
  constexpr double lowest = -746.0;               // e^x is 0 from here
  constexpr double to_integer = 6755399441055744; // 1.5 * 2^52
  const double bounded = x < lowest ? lowest : x;
  const double shifted = bounded * 1.4426950408889634 + to_integer;
  const double k = shifted - to_integer;
  const double r = (bounded - k * 6.93145751953125e-1) - k * 1.42860682030941723212e-6;
  const double r2 = r * r;
  double p = 1.26177193074810590878e-4;
  p = p * r2 + 3.02994407707441961300e-2;
  p = p * r2 + 9.99999999999999999910e-1;
  p = p * r;
  double q = 3.00198505138664455042e-6;
  q = q * r2 + 2.52448340349684104192e-3;
  q = q * r2 + 2.27265548208155028766e-1;
  q = q * r2 + 2.00000000000000000009;
  const double y = 1.0 + 2.0 * (p / (q - p));
  const std::uint64_t both = __builtin_bit_cast(std::uint64_t, shifted)
                             - __builtin_bit_cast(std::uint64_t, to_integer) + 2048;
  const std::uint64_t half = both >> 1;
  return y * __builtin_bit_cast(double, (half - 1) << 52)
         * __builtin_bit_cast(double, (both - half - 1) << 52);
}

/// x[i] = e^x[i]. @pre each is <= 0 or NaN.
template <class T>
void exp_all(T* x, std::size_t n) {
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    x[i] = exp_one(x[i]);
}

} // namespace troupe::kernels::detail
