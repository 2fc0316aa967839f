#pragma once

#include <cstdint>

/// Random numbers that don't depend on the standard library, so that a seed means the same sequence
/// everywhere.
namespace troupe {

/// A bijection of 64-bit words that spreads every input bit. Source: Steele, Lea, Flood 2014
/// (SplitMix64).
constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A seed for the `index`-th stream below `seed`.
constexpr std::uint64_t derive_seed(std::uint64_t seed, std::uint64_t index) noexcept {
  return mix_bits(mix_bits(seed) ^ index);
}

/// The next word of the SplitMix64 generator that `state` is the whole state of: for choices that a
/// few words of state must be able to repeat.
constexpr std::uint64_t next_word(std::uint64_t& state) noexcept {
  const auto out = mix_bits(state);
  state += 0x9e3779b97f4a7c15u;
  return out;
}

/// A generator of the xoshiro256** family, seeded through SplitMix64. One thread at a time; copies
/// go on alike. Source: Blackman, Vigna 2018.
class prng {
public:
  explicit constexpr prng(std::uint64_t seed) noexcept {
    for (auto& word : state_)
      word = next_word(seed);
  }

  /// 64 bits.
  constexpr std::uint64_t next() noexcept {
    auto out = rotate(state_[1] * 5, 7) * 9;
    auto shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return out;
  }

  /// Uniform in [0, n), without bias. @pre n > 0. Source: Lemire 2019 (multiply, reject the short
  /// interval).
  constexpr std::uint64_t below(std::uint64_t n) noexcept {
    __extension__ using wide = unsigned __int128;
    auto product = static_cast<wide>(next()) * n;
    if (static_cast<std::uint64_t>(product) < n) {
      auto threshold = (0 - n) % n;
      while (static_cast<std::uint64_t>(product) < threshold)
        product = static_cast<wide>(next()) * n;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// Uniform in [0, 1), 53 bits.
  constexpr double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
  static constexpr std::uint64_t rotate(std::uint64_t x, int by) noexcept {
    return (x << by) | (x >> (64 - by));
  }
  std::uint64_t state_[4]{};
};

} // namespace troupe
