#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// HMAC-SHA256 of `text` under `key` as 64 hexadecimal digits.
std::string message_code(std::string_view key, std::string_view text);

/// Ends an error about a token: what whoever reads it has to set, and where.
inline constexpr std::string_view token_advice =
  "all processes of a cluster need the same TROUPE_TOKEN (runtime_options::token)";

/// Compares without telling by its duration where the first difference is.
bool same_code(std::string_view a, std::string_view b);

} // namespace troupe
