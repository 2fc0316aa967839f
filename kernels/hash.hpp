// XXH3, 64 bits, of bytes: for checksums, shard digests and names. Not for keys an attacker
// chooses.
//
// Pure, any thread, no allocation. The value is the same on every machine and in one piece or many.
// Source: Collet, xxHash (XXH3_64bits), stable since version 0.8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::kernels {

/// Hash of `size_bytes` bytes at `data` (may be null when 0).
std::uint64_t hash64(const void* data, std::size_t size_bytes, std::uint64_t seed = 0);

/// Hash of the characters of `text`.
std::uint64_t hash64_text(std::string_view text, std::uint64_t seed = 0);

/// `hash64` over a stream of pieces. Copying forks the stream. One thread at a time.
class hasher {
public:
  explicit hasher(std::uint64_t seed = 0);

  /// Appends `size_bytes` bytes at `data` (may be null when 0).
  void update(const void* data, std::size_t size_bytes);

  /// Hash of everything so far; the stream may go on.
  std::uint64_t digest() const;

  /// Starts over.
  void reset(std::uint64_t seed = 0);

private:
  // The library's state, kept out of this header; the .cpp checks size and alignment.
  alignas(64) std::byte state_[576];
};

} // namespace troupe::kernels
