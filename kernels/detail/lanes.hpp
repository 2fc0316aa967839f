// As many elements as a register takes, for loops that compilers do not vectorise well by
// themselves. Arithmetic is the element's own, lane by lane, and every operation here rounds
// correctly or does not round: each width gives the bits of the plain loop.
//
// Include after strict_math.hpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include <troupe/kernels/detail/scalar_ops.hpp>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace troupe::kernels::detail {

/// `Count` elements side by side; with one, an element.
template <class T, int Count>
struct lanes {
  using vector [[gnu::vector_size(sizeof(T) * Count)]] = T;
  vector x;

  static lanes of(T value) {
    lanes out;
    for (int i = 0; i < Count; ++i)
      out.x[i] = value;
    return out;
  }
  static lanes load(const T* from) {
    lanes out;
    std::memcpy(&out.x, from, sizeof(vector));
    return out;
  }
  void store(T* to) const { std::memcpy(to, &x, sizeof(vector)); }

  friend lanes operator+(lanes a, lanes b) { return {a.x + b.x}; }
  friend lanes operator-(lanes a, lanes b) { return {a.x - b.x}; }
  friend lanes operator*(lanes a, lanes b) { return {a.x * b.x}; }
  friend lanes operator/(lanes a, lanes b) { return {a.x / b.x}; }
};

template <class T>
struct lanes<T, 1> {
  T x;

  static lanes of(T value) { return {value}; }
  static lanes load(const T* from) { return {*from}; }
  void store(T* to) const { *to = x; }

  friend lanes operator+(lanes a, lanes b) { return {a.x + b.x}; }
  friend lanes operator-(lanes a, lanes b) { return {a.x - b.x}; }
  friend lanes operator*(lanes a, lanes b) { return {a.x * b.x}; }
  friend lanes operator/(lanes a, lanes b) { return {a.x / b.x}; }
};

// -- roots ----------------------------------------------------------------------------------------

// A loop over std::sqrt is not vectorised as long as sqrt may set errno, and that is a property of
// the whole build. So the vector instructions are named here. All of them round correctly.

template <class T>
lanes<T, 1> root(lanes<T, 1> a) {
  return {std::sqrt(a.x)};
}

#if defined(__SSE2__)
inline lanes<float, 4> root(lanes<float, 4> a) { return {_mm_sqrt_ps(a.x)}; }
inline lanes<double, 2> root(lanes<double, 2> a) { return {_mm_sqrt_pd(a.x)}; }
#endif
#if defined(__AVX__)
inline lanes<float, 8> root(lanes<float, 8> a) { return {_mm256_sqrt_ps(a.x)}; }
inline lanes<double, 4> root(lanes<double, 4> a) { return {_mm256_sqrt_pd(a.x)}; }
#endif
#if defined(__AVX512F__)
inline lanes<float, 16> root(lanes<float, 16> a) { return {_mm512_sqrt_ps(a.x)}; }
inline lanes<double, 8> root(lanes<double, 8> a) { return {_mm512_sqrt_pd(a.x)}; }
#endif

// -- the smaller and the larger -------------------------------------------------------------------

// min_one and max_one of scalar_ops.hpp. The processor's own instruction gives the second operand
// when one is a NaN or both are zeros; what is left is to keep a NaN of the first.

template <class T, int Count>
lanes<T, Count> smaller(lanes<T, Count> a, lanes<T, Count> b) {
  if constexpr (Count == 1)
    return {min_one(a.x, b.x)};
  else
    return {((a.x < b.x) | (a.x != a.x)) ? a.x : b.x};
}

template <class T, int Count>
lanes<T, Count> larger(lanes<T, Count> a, lanes<T, Count> b) {
  if constexpr (Count == 1)
    return {max_one(a.x, b.x)};
  else
    return {((a.x > b.x) | (a.x != a.x)) ? a.x : b.x};
}

#if defined(__AVX512F__)
inline lanes<float, 16> smaller(lanes<float, 16> a, lanes<float, 16> b) {
  const __mmask16 nan = _mm512_cmp_ps_mask(a.x, a.x, _CMP_UNORD_Q);
  return {_mm512_mask_mov_ps(_mm512_min_ps(a.x, b.x), nan, a.x)};
}
inline lanes<double, 8> smaller(lanes<double, 8> a, lanes<double, 8> b) {
  const __mmask8 nan = _mm512_cmp_pd_mask(a.x, a.x, _CMP_UNORD_Q);
  return {_mm512_mask_mov_pd(_mm512_min_pd(a.x, b.x), nan, a.x)};
}
inline lanes<float, 16> larger(lanes<float, 16> a, lanes<float, 16> b) {
  const __mmask16 nan = _mm512_cmp_ps_mask(a.x, a.x, _CMP_UNORD_Q);
  return {_mm512_mask_mov_ps(_mm512_max_ps(a.x, b.x), nan, a.x)};
}
inline lanes<double, 8> larger(lanes<double, 8> a, lanes<double, 8> b) {
  const __mmask8 nan = _mm512_cmp_pd_mask(a.x, a.x, _CMP_UNORD_Q);
  return {_mm512_mask_mov_pd(_mm512_max_pd(a.x, b.x), nan, a.x)};
}
#endif

// -- loops ----------------------------------------------------------------------------------------

/// Stands for lanes<T, Count> where a function object chooses by type.
template <class T, int Count>
struct width_of {
  using type = lanes<T, Count>;
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
