// Conversions between float and the 16-bit formats bfloat16 (8 exponent bits) and IEEE binary16
// ("f16"), which are held as their bits in std::uint16_t.
//
// Narrowing rounds to nearest, ties to even; what is too large becomes infinity; denormals are
// kept; a NaN stays a NaN, made quiet, with the upper payload bits. Widening is exact (a signalling
// f16 NaN comes out quiet; bf16 bits are only shifted). Pure functions, any thread, no allocation.
// `in` and `out` are disjoint. Errors: std::invalid_argument when sizes differ. Source: IEEE
// 754-2019, 3.6 and 6.2; bfloat16 is the upper half of a binary32.
#pragma once

#include <cstdint>
#include <span>

namespace troupe::kernels {

/// A float as bfloat16.
std::uint16_t bf16_from_f32(float x);
/// A bfloat16 as float.
float f32_from_bf16(std::uint16_t bits);
/// A float as IEEE binary16.
std::uint16_t f16_from_f32(float x);
/// An IEEE binary16 as float.
float f32_from_f16(std::uint16_t bits);

/// out[i] = bf16_from_f32(in[i]).
void cast_f32_to_bf16(std::span<const float> in, std::span<std::uint16_t> out);
/// out[i] = f32_from_bf16(in[i]).
void cast_bf16_to_f32(std::span<const std::uint16_t> in, std::span<float> out);
/// out[i] = f16_from_f32(in[i]).
void cast_f32_to_f16(std::span<const float> in, std::span<std::uint16_t> out);
/// out[i] = f32_from_f16(in[i]).
void cast_f16_to_f32(std::span<const std::uint16_t> in, std::span<float> out);

} // namespace troupe::kernels
