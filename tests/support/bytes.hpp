#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace troupe::testing {

/// The bytes of a text, which must outlive them.
inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

} // namespace troupe::testing
