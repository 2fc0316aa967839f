#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// HMAC-SHA256 of `text` under `key` as 64 hexadecimal digits.
std::string message_code(std::string_view key, std::string_view text);

/// Compares without telling by its duration where the first difference is.
bool same_code(std::string_view a, std::string_view b);

} // namespace troupe
