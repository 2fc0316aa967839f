#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/result.hpp>

namespace troupe::sim {

/// Recorded picks as short text: numbers, `f` for FIFO, `*n` for a repetition: "f*120 3 0*2".
std::string picks_to_text(std::span<const std::uint32_t> picks);
/// The picks of such a text. `corrupt`, naming the word that is none; at most 50 million picks.
result<std::vector<std::uint32_t>> picks_from_text(std::string_view text);

} // namespace troupe::sim
