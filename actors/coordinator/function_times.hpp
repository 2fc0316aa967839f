#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include <troupe/core/ids.hpp>

namespace troupe {

/// Median run time of each function over its last 32 runs. One thread.
class function_times {
public:
  static constexpr std::size_t window = 32;

  void add(function_index function, std::uint64_t run_ns);
  /// The median of a function in nanoseconds; 0: never seen.
  std::uint64_t median_ns(function_index function) const;

private:
  struct record {
    std::array<std::uint64_t, window> runs{};
    std::size_t count = 0;
    std::size_t next = 0;
    std::uint64_t median_ns = 0;
  };
  std::map<function_index, record> records_{};
};

/// Closures to send ahead of the running one: about 4 ms of work, from 1 to 256
/// (`docs/decisions/005`).
std::size_t prefetch_credits(std::uint64_t median_ns);

} // namespace troupe
