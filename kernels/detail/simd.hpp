// As many elements as a register takes, for loops that compilers do not vectorise well by
// themselves. Arithmetic is the element's own, lane by lane, and every operation here rounds
// correctly or does not round: each width gives the bits of the plain loop.
//
// Include after strict_math.hpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include <troupe/kernels/detail/scalar_ops.hpp>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace troupe::kernels::detail {

/// `Count` elements side by side; with one, an element.
template <class T, int Count>
struct simd {
  using vector [[gnu::vector_size(sizeof(T) * Count)]] = T;
  vector x;

  static simd of(T value) { return {value - vector{}}; } // exact for -0 too
  static simd load(const T* from) {
    simd out;
    std::memcpy(&out.x, from, sizeof(vector));
    return out;
  }
  void store(T* to) const { std::memcpy(to, &x, sizeof(vector)); }

  friend simd operator+(simd a, simd b) { return {a.x + b.x}; }
  friend simd operator-(simd a, simd b) { return {a.x - b.x}; }
  friend simd operator*(simd a, simd b) { return {a.x * b.x}; }
  friend simd operator/(simd a, simd b) { return {a.x / b.x}; }
};

template <class T>
struct simd<T, 1> {
  T x;

  static simd of(T value) { return {value}; }
  static simd load(const T* from) { return {*from}; }
  void store(T* to) const { *to = x; }

  friend simd operator+(simd a, simd b) { return {a.x + b.x}; }
  friend simd operator-(simd a, simd b) { return {a.x - b.x}; }
  friend simd operator*(simd a, simd b) { return {a.x * b.x}; }
  friend simd operator/(simd a, simd b) { return {a.x / b.x}; }
};

// -- less than a register -------------------------------------------------------------------------

/// The `n` elements at `from`, n < Count, and then `fill`'s.
template <class T, int Count>
simd<T, Count> load_first(const T* from, std::size_t n, simd<T, Count> fill) {
  T x[Count];
  fill.store(x);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = from[i];
  return simd<T, Count>::load(x);
}

/// The first `n` elements, n < Count, to `to`.
template <class T, int Count>
void store_first(simd<T, Count> a, T* to, std::size_t n) {
  T x[Count];
  a.store(x);
  for (std::size_t i = 0; i < n; ++i)
    to[i] = x[i];
}

#if defined(__AVX512F__)
inline simd<float, 16> load_first(const float* from, std::size_t n, simd<float, 16> fill) {
  return {_mm512_mask_loadu_ps(fill.x, static_cast<__mmask16>((1u << n) - 1u), from)};
}
inline simd<double, 8> load_first(const double* from, std::size_t n, simd<double, 8> fill) {
  return {_mm512_mask_loadu_pd(fill.x, static_cast<__mmask8>((1u << n) - 1u), from)};
}
inline void store_first(simd<float, 16> a, float* to, std::size_t n) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1u), a.x);
}
inline void store_first(simd<double, 8> a, double* to, std::size_t n) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << n) - 1u), a.x);
}
#endif

// -- roots ----------------------------------------------------------------------------------------

// A loop over std::sqrt is not vectorised as long as sqrt may set errno, and that is a property of
// the whole build. So the vector instructions are named here. All of them round correctly.

template <class T>
simd<T, 1> root(simd<T, 1> a) {
  return {std::sqrt(a.x)};
}

#if defined(__SSE2__)
inline simd<float, 4> root(simd<float, 4> a) { return {_mm_sqrt_ps(a.x)}; }
inline simd<double, 2> root(simd<double, 2> a) { return {_mm_sqrt_pd(a.x)}; }
#endif
#if defined(__AVX__)
inline simd<float, 8> root(simd<float, 8> a) { return {_mm256_sqrt_ps(a.x)}; }
inline simd<double, 4> root(simd<double, 4> a) { return {_mm256_sqrt_pd(a.x)}; }
#endif
#if defined(__AVX512F__)
inline simd<float, 16> root(simd<float, 16> a) { return {_mm512_sqrt_ps(a.x)}; }
inline simd<double, 8> root(simd<double, 8> a) { return {_mm512_sqrt_pd(a.x)}; }
#endif

// -- a difference that rounds once ----------------------------------------------------------------

// Where the product is exact, a fused instruction rounds what the two operations round.

/// a - b * c. @pre b * c is exact.
template <class T, int Count>
simd<T, Count> minus_exact_product(simd<T, Count> a, simd<T, Count> b, simd<T, Count> c) {
  return a - b * c;
}

#if defined(__FMA__)
inline simd<float, 4> minus_exact_product(simd<float, 4> a, simd<float, 4> b, simd<float, 4> c) {
  return {_mm_fnmadd_ps(b.x, c.x, a.x)};
}
inline simd<double, 2> minus_exact_product(simd<double, 2> a, simd<double, 2> b,
                                           simd<double, 2> c) {
  return {_mm_fnmadd_pd(b.x, c.x, a.x)};
}
inline simd<float, 8> minus_exact_product(simd<float, 8> a, simd<float, 8> b, simd<float, 8> c) {
  return {_mm256_fnmadd_ps(b.x, c.x, a.x)};
}
inline simd<double, 4> minus_exact_product(simd<double, 4> a, simd<double, 4> b,
                                           simd<double, 4> c) {
  return {_mm256_fnmadd_pd(b.x, c.x, a.x)};
}
#endif
#if defined(__AVX512F__)
inline simd<float, 16> minus_exact_product(simd<float, 16> a, simd<float, 16> b,
                                           simd<float, 16> c) {
  return {_mm512_fnmadd_ps(b.x, c.x, a.x)};
}
inline simd<double, 8> minus_exact_product(simd<double, 8> a, simd<double, 8> b,
                                           simd<double, 8> c) {
  return {_mm512_fnmadd_pd(b.x, c.x, a.x)};
}
#endif

// -- the smaller and the larger -------------------------------------------------------------------

/// a where it is the larger, else b: where they are equal, and where one of them is a NaN. That is
/// the processor's own instruction.
template <class T, int Count>
simd<T, Count> above(simd<T, Count> a, simd<T, Count> b) {
  return {a.x > b.x ? a.x : b.x};
}

// min_one and max_one of scalar_ops.hpp: as `above`, but a NaN of the first stays.

template <class T, int Count>
simd<T, Count> smaller(simd<T, Count> a, simd<T, Count> b) {
  if constexpr (Count == 1)
    return {min_one(a.x, b.x)};
  else
    return {((a.x < b.x) | (a.x != a.x)) ? a.x : b.x};
}

template <class T, int Count>
simd<T, Count> larger(simd<T, Count> a, simd<T, Count> b) {
  if constexpr (Count == 1)
    return {max_one(a.x, b.x)};
  else
    return {((a.x > b.x) | (a.x != a.x)) ? a.x : b.x};
}

#if defined(__AVX512F__)
inline simd<float, 16> above(simd<float, 16> a, simd<float, 16> b) {
  return {_mm512_max_ps(a.x, b.x)};
}
inline simd<double, 8> above(simd<double, 8> a, simd<double, 8> b) {
  return {_mm512_max_pd(a.x, b.x)};
}
inline simd<float, 16> smaller(simd<float, 16> a, simd<float, 16> b) {
  const __mmask16 nan = _mm512_cmp_ps_mask(a.x, a.x, _CMP_UNORD_Q);
  return {_mm512_mask_mov_ps(_mm512_min_ps(a.x, b.x), nan, a.x)};
}
inline simd<double, 8> smaller(simd<double, 8> a, simd<double, 8> b) {
  const __mmask8 nan = _mm512_cmp_pd_mask(a.x, a.x, _CMP_UNORD_Q);
  return {_mm512_mask_mov_pd(_mm512_min_pd(a.x, b.x), nan, a.x)};
}
inline simd<float, 16> larger(simd<float, 16> a, simd<float, 16> b) {
  const __mmask16 nan = _mm512_cmp_ps_mask(a.x, a.x, _CMP_UNORD_Q);
  return {_mm512_mask_mov_ps(above(a, b).x, nan, a.x)};
}
inline simd<double, 8> larger(simd<double, 8> a, simd<double, 8> b) {
  const __mmask8 nan = _mm512_cmp_pd_mask(a.x, a.x, _CMP_UNORD_Q);
  return {_mm512_mask_mov_pd(above(a, b).x, nan, a.x)};
}
#endif

// -- folds ----------------------------------------------------------------------------------------

template <int First, class T, int Count, int... I>
simd<T, Count / 2> half_from(simd<T, Count> x, std::integer_sequence<int, I...>) {
  return {__builtin_shufflevector(x.x, x.x, (First + I)...)};
}

/// The lanes in halves: lane j is merged with lane j + Count / 2 of the upper half, and so on.
template <class T, int Count, class F>
T fold(simd<T, Count> x, F merge) {
  if constexpr (Count == 1) {
    return x.x;
  } else if constexpr (Count == 2) {
    return merge(simd<T, 1>{x.x[0]}, simd<T, 1>{x.x[1]}).x;
  } else {
    constexpr std::make_integer_sequence<int, Count / 2> half{};
    return fold(merge(half_from<0>(x, half), half_from<Count / 2>(x, half)), merge);
  }
}

/// `fold` of lanes in several registers; `Registers` is a power of two.
template <class T, int Count, std::size_t Registers, class F>
T fold(simd<T, Count> (&x)[Registers], F merge) {
  for (std::size_t half = Registers / 2; half > 0; half /= 2)
    for (std::size_t u = 0; u < half; ++u)
      x[u] = merge(x[u], x[u + half]);
  return fold(x[0], merge);
}

// -- loops ----------------------------------------------------------------------------------------

#if defined(__AVX512F__)
inline constexpr std::size_t register_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t register_bytes = 32;
#elif defined(__SSE2__)
inline constexpr std::size_t register_bytes = 16;
#else
inline constexpr std::size_t register_bytes = 0;
#endif

/// A register full.
template <class T>
using widest_simd = simd<T, register_bytes == 0 ? 1 : static_cast<int>(register_bytes / sizeof(T))>;

/// Stands for simd<T, Count> where a function object chooses by type.
template <class T, int Count>
struct width_of {
  using type = simd<T, Count>;
};

/// `step(width_of<T, count>{}, i)` for all i in [0, n) in strides of the count: the widest first,
/// what is left in narrower ones.
template <class T, class F>
void in_widest_steps(std::size_t n, F step) {
  std::size_t i = 0;
#if defined(__AVX512F__)
  for (constexpr int count = 64 / sizeof(T); i + count <= n; i += count)
    step(width_of<T, count>{}, i);
#endif
#if defined(__AVX__)
  for (constexpr int count = 32 / sizeof(T); i + count <= n; i += count)
    step(width_of<T, count>{}, i);
#endif
#if defined(__SSE2__)
  for (constexpr int count = 16 / sizeof(T); i + count <= n; i += count)
    step(width_of<T, count>{}, i);
#endif
  for (; i < n; ++i)
    step(width_of<T, 1>{}, i);
}

} // namespace troupe::kernels::detail
