#pragma once

#include <cstdint>

#include <troupe/kernels/detail/host_device.hpp>

namespace troupe::kernels::detail {

TROUPE_HOST_DEVICE inline std::uint32_t bits_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}

TROUPE_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// Both are free of branches once compiled, so that loops over them vectorise.

TROUPE_HOST_DEVICE inline std::uint16_t narrow_f16(float x) {
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

TROUPE_HOST_DEVICE inline float widen_f16(std::uint16_t half) {
  const std::uint32_t bits = half;
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  // The product with 2^112 moves the bias and normalises denormals, exactly.
  const std::uint32_t finite = bits_of(float_of(magnitude) * float_of(239u << 23));
  const std::uint32_t quiet = (bits & 0x3ffu) != 0 ? 0x400000u : 0u;
  const std::uint32_t special = magnitude | 0x7f800000u | quiet;
  return float_of(sign | ((bits & 0x7c00u) == 0x7c00u ? special : finite));
}

} // namespace troupe::kernels::detail
