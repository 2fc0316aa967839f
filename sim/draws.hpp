#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/core/random.hpp>

/// Draws that are functions of their place: value = hash(seed, stream, counter). Leaving one draw
/// out shifts no other, which is what lets a failing run be shrunk.
namespace troupe::sim {

constexpr std::uint64_t hash_text(std::string_view text) noexcept {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (char c : text)
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mix_bits(h);
}

/// A stream of draws below a seed.
class draw_stream {
public:
  constexpr draw_stream() = default;
  constexpr draw_stream(std::uint64_t seed, std::uint64_t stream) noexcept
    : key_{derive_seed(seed, stream)} {}
  constexpr draw_stream(std::uint64_t seed, std::string_view stream) noexcept
    : draw_stream{seed, hash_text(stream)} {}

  /// The stream below this one with that number.
  constexpr draw_stream at(std::uint64_t index) const noexcept { return {key_, index}; }
  /// The draw with that counter; the stream doesn't move.
  constexpr std::uint64_t value(std::uint64_t counter) const noexcept {
    return derive_seed(key_, counter);
  }
  /// The next 64 bits.
  constexpr std::uint64_t next() noexcept { return value(counter_++); }
  /// Uniform in [0, n), 0 for n = 0. The bias is n / 2^64.
  constexpr std::uint64_t below(std::uint64_t n) noexcept { return scaled(next(), n); }
  /// True in `per_mille` of 1,000 draws.
  constexpr bool chance(std::uint32_t per_mille) noexcept { return below(1000) < per_mille; }

  static constexpr std::uint64_t scaled(std::uint64_t bits, std::uint64_t n) noexcept {
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>(static_cast<wide>(bits) * n >> 64);
  }

private:
  std::uint64_t key_ = 0;
  std::uint64_t counter_ = 0;
};

} // namespace troupe::sim
