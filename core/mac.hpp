#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// HMAC-SHA256 of `text` under `key` as 64 hexadecimal digits.
std::string message_code(std::string_view key, std::string_view text);

/// Ends an error about a token: what whoever reads it has to set, and where.
inline constexpr std::string_view token_advice =
  "all processes of a cluster need the same TROUPE_TOKEN (runtime_options::token)";

/// Shows that the sender of `text` knows `token` without sending it: its `message_code`; empty
/// without a token.
std::string token_proof(std::string_view token, std::string_view text);

/// Whether `proof` is what this token and text give. Takes the same time wherever it differs.
bool proves_token(std::string_view proof, std::string_view token, std::string_view text);

/// Compares without telling by its duration where the first difference is.
bool same_code(std::string_view a, std::string_view b);

} // namespace troupe
