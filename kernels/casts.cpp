#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/casts.hpp>

#include <troupe/kernels/detail/bf16_loops.hpp>
#include <troupe/kernels/detail/check.hpp>
#include <troupe/kernels/detail/f16.hpp>

#include <cstddef>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace troupe::kernels {

namespace {

using detail::narrow_bf16;
using detail::narrow_f16;
using detail::widen_bf16;
using detail::widen_f16;

} // namespace

std::uint16_t bf16_from_f32(float x) { return narrow_bf16(x); }

float f32_from_bf16(std::uint16_t bits) { return widen_bf16(bits); }

std::uint16_t f16_from_f32(float x) { return narrow_f16(x); }

float f32_from_f16(std::uint16_t bits) { return widen_f16(bits); }

void cast_f32_to_bf16(std::span<const float> in, std::span<std::uint16_t> out) {
  detail::expect_size("cast_f32_to_bf16", "in.size()", in.size(), out.size());
  detail::narrow_all_bf16(in.data(), out.data(), out.size());
}

void cast_bf16_to_f32(std::span<const std::uint16_t> in, std::span<float> out) {
  detail::expect_size("cast_bf16_to_f32", "in.size()", in.size(), out.size());
  detail::widen_all_bf16(in.data(), out.data(), out.size(), [](auto x) { return x; });
}

void cast_f32_to_f16(std::span<const float> in, std::span<std::uint16_t> out) {
  detail::expect_size("cast_f32_to_f16", "in.size()", in.size(), out.size());
  const float* from = in.data();
  std::uint16_t* to = out.data();
  const std::size_t n = out.size();
  std::size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  TROUPE_INDEPENDENT_LOOP
  for (; i < n; ++i)
    to[i] = narrow_f16(from[i]);
}

void cast_f16_to_f32(std::span<const std::uint16_t> in, std::span<float> out) {
  detail::expect_size("cast_f16_to_f32", "in.size()", in.size(), out.size());
  const std::uint16_t* from = in.data();
  float* to = out.data();
  const std::size_t n = out.size();
  std::size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(
      to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
#endif
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  TROUPE_INDEPENDENT_LOOP
  for (; i < n; ++i)
    to[i] = widen_f16(from[i]);
}

} // namespace troupe::kernels
