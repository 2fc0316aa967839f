#pragma once

#include <cstdint>

#include <troupe/kernels/detail/host_device.hpp>

namespace troupe::kernels::detail {

// Both are free of branches once compiled, so that loops over them vectorise.

TROUPE_HOST_DEVICE inline std::uint16_t narrow_bf16(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

TROUPE_HOST_DEVICE inline float widen_bf16(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

/// widen_bf16(narrow_bf16(x)).
TROUPE_HOST_DEVICE inline float round_bf16(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const std::uint32_t quiet = bits | 0x400000u;
  return __builtin_bit_cast(float,
                            ((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) & 0xffff0000u);
}

} // namespace troupe::kernels::detail
