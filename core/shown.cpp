#include <troupe/core/shown.hpp>

#include <cstdint>

namespace troupe {

namespace {

/// Bytes of the character at the front, if it is one of UTF-8 that a terminal may have: none of
/// ASCII, no control character, no mark that turns the direction of writing.
std::size_t character_bytes(std::string_view from) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(from[i]); };
  const auto lead = at(0);
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || from.size() < size)
    return 0;
  std::uint32_t code = lead & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (at(i) & 0x3f);
  }
  constexpr std::uint32_t least[]{0, 0, 0xa0, 0x800, 0x10000};
  const bool turns = (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)
                     || code == 0x200e || code == 0x200f || code == 0xfeff;
  if (code < least[size] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff || turns)
    return 0;
  return size;
}

std::string escaped(char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '"': return "\\\"";
    case '\\': return "\\\\";
    default: break;
  }
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<std::uint8_t>(c);
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

} // namespace

std::string shown(std::string_view bytes, std::size_t bytes_max) {
  std::string out;
  std::size_t at = 0;
  while (at < bytes.size() && at < bytes_max) {
    const char c = bytes[at];
    const auto size = c >= ' ' && c <= '~' ? 1 : character_bytes(bytes.substr(at));
    if (size > 0 && at + size <= bytes_max && c != '"' && c != '\\') {
      out += bytes.substr(at, size);
      at += size;
    } else if (size > 1) {
      break; // it does not fit whole
    } else {
      out += escaped(c);
      ++at;
    }
  }
  return at < bytes.size() ? out + "... (" + std::to_string(bytes.size()) + " bytes)" : out;
}

} // namespace troupe
