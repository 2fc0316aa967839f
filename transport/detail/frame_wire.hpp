#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include <troupe/core/error.hpp>

/// Parts of the frame codec that reader and writer share: integers, offsets and checksums as the
/// grammar in frame.hpp has them.
namespace troupe::detail {

inline constexpr std::size_t header_checksum_offset = 44;
/// Neither half holds its thread for longer than it takes to move about this much.
inline constexpr std::uint64_t pump_bytes_max = std::uint64_t{8} << 20;

template <class T>
void put(std::byte* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    to[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
}

template <class T>
T get(const std::byte* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return static_cast<T>(value);
}

inline std::uint32_t header_checksum(const std::byte* header) {
  return static_cast<std::uint32_t>(XXH3_64bits(header, header_checksum_offset));
}

/// `too_large`, naming the field and both numbers.
inline failure over_limit(const std::string& whose, const char* field, std::uint64_t value,
                          std::uint64_t max) {
  return make_failure(errc::too_large, whose + ": " + field + " " + std::to_string(value) + " > "
                                         + std::to_string(max));
}

} // namespace troupe::detail
