#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "../unit/transport/support.hpp"
#include "fuzz.hpp"

/// The decoders of the target fuzz_frame, by file, and what they share.
namespace fuzz {

void add_streams(std::vector<decoder>& to);
void add_groups(std::vector<decoder>& to);
void add_blocks(std::vector<decoder>& to);
void add_servers(std::vector<decoder>& to);

/// Makes magic, version and checksums of frames right, as far as their lengths lead: no fuzzer
/// guesses a checksum.
std::string repaired(std::string stream);

/// Cuts what a channel moves into pieces of 1 to 61 bytes, by a seed; 0: as much as there is.
std::function<std::size_t()> cuts_of(std::uint8_t seed);

} // namespace fuzz
