#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/casts.hpp>

#include <troupe/kernels/detail/bf16.hpp>
#include <troupe/kernels/detail/check.hpp>

#include <cstddef>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace troupe::kernels {

namespace {

inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }

inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

using detail::narrow_bf16;
using detail::widen_bf16;

// All are free of branches once compiled, so that the loops over them vectorise.

inline std::uint16_t narrow_f16(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Normal: move the exponent bias from 127 to 15 and round off 13 bits; a carry runs into the
  // exponent, up to infinity.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14: adding 0.5 makes the float addition round at 2^-24, the unit of binary16's
  // denormals.
  const std::uint32_t denormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  std::uint32_t out = magnitude < (113u << 23) ? denormal : normal;
  out = magnitude >= (143u << 23) ? 0x7c00u : out; // 65536 and more, infinity
  out = magnitude > 0x7f800000u ? nan : out;
  return static_cast<std::uint16_t>(sign | out);
}

inline float widen_f16(std::uint16_t half) {
  const std::uint32_t bits = half;
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  // The product with 2^112 moves the bias and normalises denormals, exactly.
  const std::uint32_t finite = bits_of(float_of(magnitude) * float_of(239u << 23));
  const std::uint32_t quiet = (bits & 0x3ffu) != 0 ? 0x400000u : 0u;
  const std::uint32_t special = magnitude | 0x7f800000u | quiet;
  return float_of(sign | ((bits & 0x7c00u) == 0x7c00u ? special : finite));
}

} // namespace

std::uint16_t bf16_from_f32(float x) { return narrow_bf16(x); }

float f32_from_bf16(std::uint16_t bits) { return widen_bf16(bits); }

std::uint16_t f16_from_f32(float x) { return narrow_f16(x); }

float f32_from_f16(std::uint16_t bits) { return widen_f16(bits); }

void cast_f32_to_bf16(std::span<const float> in, std::span<std::uint16_t> out) {
  detail::expect_size("cast_f32_to_bf16", "in.size()", in.size(), out.size());
  const float* from = in.data();
  std::uint16_t* to = out.data();
  const std::size_t n = out.size();
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    to[i] = narrow_bf16(from[i]);
}

void cast_bf16_to_f32(std::span<const std::uint16_t> in, std::span<float> out) {
  detail::expect_size("cast_bf16_to_f32", "in.size()", in.size(), out.size());
  const std::uint16_t* from = in.data();
  float* to = out.data();
  const std::size_t n = out.size();
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    to[i] = widen_bf16(from[i]);
}

void cast_f32_to_f16(std::span<const float> in, std::span<std::uint16_t> out) {
  detail::expect_size("cast_f32_to_f16", "in.size()", in.size(), out.size());
  const float* from = in.data();
  std::uint16_t* to = out.data();
  const std::size_t n = out.size();
  std::size_t i = 0;
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
