#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::detail {

/// Memory at a multiple of 64 bytes that grows, without keeping what it held. One thread.
class scratch_memory {
public:
  std::byte* at_least(std::size_t bytes) {
    constexpr std::size_t alignment = 64;
    if (bytes > size_ || data_ == nullptr) {
      held_.assign(bytes + alignment, std::byte{});
      const auto at = reinterpret_cast<std::uintptr_t>(held_.data());
      data_ = held_.data() + (alignment - at % alignment) % alignment;
      size_ = bytes;
    }
    return data_;
  }
  std::byte* data() const { return data_; }

private:
  std::vector<std::byte> held_{};
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace troupe::detail
