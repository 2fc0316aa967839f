#pragma once

#include <cstddef>
#include <span>

/// Numbers in files, whose bytes need no alignment.
namespace troupe::detail {

/// @pre `bytes` holds sizeof(T).
template <class T>
T from_little_endian(std::span<const std::byte> bytes) {
  T out = 0;
  for (std::size_t i = sizeof(T); i-- > 0;)
    out = static_cast<T>((static_cast<unsigned long long>(out) << 8)
                         | std::to_integer<unsigned long long>(bytes[i]));
  return out;
}

/// @pre `to` holds sizeof(T).
template <class T>
void put_little_endian(std::span<std::byte> to, T x) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    to[i] = static_cast<std::byte>(static_cast<unsigned long long>(x) >> (8 * i));
}

} // namespace troupe::detail
