// The loops over bf16.hpp. Include after strict_math.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <troupe/kernels/detail/bf16.hpp>
#include <troupe/kernels/detail/simd.hpp>
#include <troupe/kernels/detail/strict_math.hpp>

namespace troupe::kernels::detail {

#if defined(__AVX512BF16__) && defined(__AVX512DQ__)

/// narrow_bf16 of the first elements, in whole steps of 32; how many. The processor's own
/// instruction rounds and keeps NaNs as narrow_bf16 does, but takes denormal numbers for zeros:
/// steps that have one go element by element. So does everything on a thread that counts denormal
/// numbers as zero (denormals.hpp), where they cannot be told from zeros.
inline std::size_t narrow_steps_bf16(const float* in, std::uint16_t* out, std::size_t n) {
  constexpr int denormal = 0x20;
  constexpr unsigned operands_as_zero = 0x40;
  if ((_mm_getcsr() & operands_as_zero) != 0)
    return 0;
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512 low = _mm512_loadu_ps(in + i);
    const __m512 high = _mm512_loadu_ps(in + i + 16);
    const unsigned found =
      _mm512_fpclass_ps_mask(low, denormal) | _mm512_fpclass_ps_mask(high, denormal);
    if (__builtin_expect(found != 0, 0)) {
      for (std::size_t j = i; j < i + 32; ++j)
        out[j] = narrow_bf16(in[j]);
      continue;
    }
    const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
    std::memcpy(out + i, &both, sizeof(both));
  }
  return i;
}

#elif defined(__AVX512F__)

/// narrow_bf16 of the first elements, in whole steps of 16; how many. Compilers narrow through
/// shuffles, at two thirds of the speed.
inline std::size_t narrow_steps_bf16(const float* in, std::uint16_t* out, std::size_t n) {
  const __m512i half = _mm512_set1_epi32(0x7fff);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i infinity = _mm512_set1_epi32(0x7f800000);
  const __m512i quiet = _mm512_set1_epi32(0x40);
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512i bits = _mm512_loadu_si512(in + i);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i rounding = _mm512_add_epi32(half, _mm512_and_si512(high, one));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, rounding), 16);
    const __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(bits, magnitude), infinity);
    const __m512i narrow = _mm512_mask_or_epi32(rounded, nan, high, quiet);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm512_cvtepi32_epi16(narrow));
  }
  return i;
}

#else

inline std::size_t narrow_steps_bf16(const float*, std::uint16_t*, std::size_t) { return 0; }

#endif

/// out[i] = narrow_bf16(in[i]).
inline void narrow_all_bf16(const float* in, std::uint16_t* out, std::size_t n) {
  for (std::size_t i = narrow_steps_bf16(in, out, n); i < n; ++i)
    out[i] = narrow_bf16(in[i]);
}

/// out[i] = finish(widen_bf16(in[i])): compilers widen through shuffles of halves, which costs in
/// memory too.
template <class F>
void widen_all_bf16(const std::uint16_t* in, float* out, std::size_t n, F finish) {
  std::size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
    finish(simd<float, 16>{_mm512_castsi512_ps(bits)}).store(out + i);
  }
#endif
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t j = i; j < n; ++j)
    out[j] = finish(simd<float, 1>{widen_bf16(in[j])}).x;
}

} // namespace troupe::kernels::detail
