#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// CRC-32C, the checksum of TFRecord files. Pure; any thread.
namespace troupe::detail {

/// The checksum of `bytes`, with the Castagnoli polynomial (RFC 3720, appendix B.4). "123456789"
/// gives 0xE3069283.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The form of a checksum in which TFRecord stores it, so that a checksum over bytes that hold
/// checksums is none of itself: turned right by 15 bits, plus a constant. Source: TensorFlow,
/// core/lib/hash/crc32c.h.
constexpr std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

} // namespace troupe::detail
