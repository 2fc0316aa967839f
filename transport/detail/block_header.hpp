#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

/// The header of every block of a collective operation's stream.
///
/// Grammar (integers little-endian, no padding):
///
///     stream := block*
///     block  := header payload
///     header :=                  offset
///         magic        u32          0   0x31435254, "TRC1" in memory
///         epoch        u32          4   of the group
///         operation    u32          8   number within the epoch, from 1
///         description  u32         12   hash of kind, type, count, ...: what the sender does
///         segment      u32         16   step of the plan, as the sender and receiver number it
///         length       u32         20   bytes of payload, at most `block_bytes_max`
///         offset       u64         24   of the payload within the step, bytes
///     payload := length * u8
///
/// A receiver knows each block before it comes, so that the check is one comparison.
namespace troupe::detail {

inline constexpr std::uint32_t block_magic = 0x31435254;
inline constexpr std::size_t block_header_bytes = 32;
inline constexpr std::size_t block_bytes_max = std::size_t{512} << 10;

struct block_header {
  std::uint32_t epoch = 0;
  std::uint32_t operation = 0;
  std::uint32_t description = 0;
  std::uint32_t segment = 0;
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
};

using block_header_image = std::array<std::byte, block_header_bytes>;

block_header_image encode(const block_header& header);

/// The kind of a block that is not the expected one.
enum class block_verdict : std::uint8_t {
  stale = 0,     ///< sound, of another epoch: to be read and dropped
  mismatch = 1,  ///< of another operation: the members don't do the same
  malformed = 2, ///< breaks the grammar, or the order of the operation's blocks
};

struct block_judgement {
  block_verdict verdict = block_verdict::malformed;
  std::uint32_t length = 0; ///< bytes to drop of a stale one
  std::string what{};       ///< names the field and both values
};

/// @pre `image` is not the image of `expected`.
block_judgement judge(const block_header_image& image, const block_header& expected);

} // namespace troupe::detail
