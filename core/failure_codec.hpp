#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>

/// A failure on its way to another process: whoever tells one sends all of it, since the code, its
/// retry class and its origin are what a program decides by, and the text is for people.
namespace troupe {

/// The bytes of `why`: its fields in their order, as cereal writes them.
std::string encode_failure(const failure& why);
/// None unless the bytes are exactly a failure, with a code, a retry class and a job that there
/// are. `errc::none` is one of them.
std::optional<failure> decode_failure(std::string_view bytes);

} // namespace troupe
