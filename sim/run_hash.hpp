#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace troupe::sim {

/// 64 bits over everything that a run did, in order. Two runs with the same seed must agree.
class run_hash {
public:
  void fold(std::uint64_t x) noexcept {
    value_ = (value_ ^ x) * 0x9fb21c651e98df25u;
    value_ ^= value_ >> 28;
  }
  void fold(const char* bytes, std::size_t n) noexcept {
    fold(n);
    for (; n >= 8; bytes += 8, n -= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, 8);
      fold(word);
    }
    if (n == 0)
      return;
    std::uint64_t rest = 0;
    std::memcpy(&rest, bytes, n);
    fold(rest);
  }
  void fold(std::string_view text) noexcept { fold(text.data(), text.size()); }
  std::uint64_t value() const noexcept { return value_; }

private:
  std::uint64_t value_ = 0x243f6a8885a308d3u;
};

} // namespace troupe::sim
