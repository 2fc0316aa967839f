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
#include <type_traits>

#include <troupe/kernels/detail/simd.hpp>

namespace troupe::kernels::detail {

/// Constants that differ between the two widths.
template <class T>
struct exp_terms;

template <>
struct exp_terms<float> {
  using word = std::uint32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr float lowest = -104.0f;      // e^x is 0 from here
  static constexpr float to_integer = 12582912; // 1.5 * 2^23: a sum with it ends in the integer
  static constexpr float per_ln2 = 1.44269504f;
  static constexpr float ln2_high = 0.693359375f;
  static constexpr float ln2_low = -2.12194440e-4f;
  static constexpr word bias = 256; // above any -k, and even

  /// e^r.
  template <class V>
  static V reduced(V r) {
    const V r2 = r * r; // pairs of terms side by side: steps that do not wait for each other
    const V high = V::of(1.9875691500e-4f) * r + V::of(1.3981999507e-3f);
    const V middle = V::of(8.3334519073e-3f) * r + V::of(4.1665795894e-2f);
    const V low = V::of(1.6666665459e-1f) * r + V::of(5.0000001201e-1f);
    return ((high * r2 + middle) * r2 + low) * r2 + r + V::of(1.0f);
  }
};

template <>
struct exp_terms<double> {
  using word = std::uint64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr double lowest = -746.0;
  static constexpr double to_integer = 6755399441055744; // 1.5 * 2^52
  static constexpr double per_ln2 = 1.4426950408889634;
  static constexpr double ln2_high = 6.93145751953125e-1;
  static constexpr double ln2_low = 1.42860682030941723212e-6;
  static constexpr word bias = 2048;

  template <class V>
  static V reduced(V r) {
    const V r2 = r * r;
    V p = V::of(1.26177193074810590878e-4);
    p = p * r2 + V::of(3.02994407707441961300e-2);
    p = p * r2 + V::of(9.99999999999999999910e-1);
    p = p * r;
    V q = V::of(3.00198505138664455042e-6);
    q = q * r2 + V::of(2.52448340349684104192e-3);
    q = q * r2 + V::of(2.27265548208155028766e-1);
    q = q * r2 + V::of(2.00000000000000000009);
    return V::of(1.0) + V::of(2.0) * (p / (q - p));
  }
};

/// Integers, as numbers and as the bits that `scaled` takes them from.
template <class T, int Count>
struct integers {
  simd<T, Count> k;
  simd<T, Count> shifted; ///< k + to_integer
};

/// The integers next to x, even ones where two are equally near. @pre |x| < 2^22 (float), 2^51.
template <class T, int Count>
[[gnu::always_inline]] inline integers<T, Count> nearest(simd<T, Count> x) {
  const auto shift = simd<T, Count>::of(exp_terms<T>::to_integer);
  const auto shifted = x + shift;
  return {shifted - shift, shifted};
}

/// y * 2^k, rounded once.
template <class T, int Count>
[[gnu::always_inline]] inline simd<T, Count> scaled(simd<T, Count> y, integers<T, Count> power) {
  using v = simd<T, Count>;
  using terms = exp_terms<T>;
  using word = typename terms::word;
  using words = simd<word, Count>;
  constexpr word offset = __builtin_bit_cast(word, terms::to_integer) - terms::bias;
  // Two factors, both of them normal; the first product is exact.
  const words both =
    words{__builtin_bit_cast(decltype(words::x), power.shifted.x)} - words::of(offset);
  const words half = {both.x >> 1};
  const words first = {(half.x - words::of(1).x) << terms::mantissa_bits};
  const words second = {(both.x - half.x - words::of(1).x) << terms::mantissa_bits};
  return y * v{__builtin_bit_cast(decltype(v::x), first.x)}
         * v{__builtin_bit_cast(decltype(v::x), second.x)};
}

#if defined(__AVX512F__)
// One instruction each, with the same results; `scaled` needs no bits of k here.
template <class T, int Count>
struct plain_integers {
  simd<T, Count> k;
};

inline plain_integers<float, 16> nearest(simd<float, 16> x) {
  return {{_mm512_roundscale_ps(x.x, _MM_FROUND_TO_NEAREST_INT)}};
}
inline plain_integers<double, 8> nearest(simd<double, 8> x) {
  return {{_mm512_roundscale_pd(x.x, _MM_FROUND_TO_NEAREST_INT)}};
}
inline simd<float, 16> scaled(simd<float, 16> y, plain_integers<float, 16> power) {
  return {_mm512_scalef_ps(y.x, power.k.x)};
}
inline simd<double, 8> scaled(simd<double, 8> y, plain_integers<double, 8> power) {
  return {_mm512_scalef_pd(y.x, power.k.x)};
}
#endif

/// e^x, lane by lane. @pre each is <= 0 or NaN.
template <class T, int Count>
[[gnu::always_inline]] inline simd<T, Count> exp_of(simd<T, Count> x) {
  using v = simd<T, Count>;
  using terms = exp_terms<T>;
  const v bounded = above(v::of(terms::lowest), x);
  const auto power = nearest(bounded * v::of(terms::per_ln2));
  const v r =
    minus_exact_product(bounded, power.k, v::of(terms::ln2_high)) - power.k * v::of(terms::ln2_low);
  return scaled(terms::reduced(r), power);
}

/// x[i] = e^x[i]. @pre each is <= 0 or NaN.
template <class T>
void exp_all(T* x, std::size_t n) {
  in_widest_steps<T>(
    n, [=](auto width, std::size_t i) { exp_of(decltype(width)::type::load(x + i)).store(x + i); });
}

} // namespace troupe::kernels::detail
