#pragma once

#include <chrono>
#include <cstdint>

namespace troupe {

using duration = std::chrono::nanoseconds;

/// The clock of the `clock_port`: steady, with an origin of its own. A tag only: nothing can ask it
/// for the time.
struct port_clock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = troupe::duration;
  using time_point = std::chrono::time_point<port_clock>;
  static constexpr bool is_steady = true;
};

using time_point = port_clock::time_point;

/// A deadline that never comes.
inline constexpr time_point never = time_point::max();

constexpr std::int64_t to_ms(duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

/// The time `from + d` without overflow: a long duration ends at `never`.
constexpr time_point after(time_point from, duration d) {
  return d > never - from ? never : from + d;
}

} // namespace troupe
