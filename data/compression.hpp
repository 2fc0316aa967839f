#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

/// How a file is packed.
enum class compression : std::uint8_t {
  /// Packed as the first bytes of the file say: gzip (RFC 1952) and zlib (RFC 1950) are unpacked,
  /// all else is plain.
  detect = 0,
  none = 1,
  gzip = 2,
  zlib = 3,
};

/// "gzip"; "compression(9)" for a value outside the enum.
std::string_view to_string(compression x);

} // namespace troupe
