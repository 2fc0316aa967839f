#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// Bytes that came from outside, as they may stand in a message: printable ASCII and whole
/// characters of UTF-8 as they are; quotes, backslashes, control characters and all else escaped
/// ("\n", "\x00"). Of more than `bytes_max` bytes the first, "..." and how many there are.
std::string shown(std::string_view bytes, std::size_t bytes_max = 40);

} // namespace troupe
