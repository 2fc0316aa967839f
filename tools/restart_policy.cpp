#include "restart_policy.hpp"

#include <algorithm>

namespace tool {

namespace {

constexpr std::uint32_t restarts_in_a_row_max = 10;
constexpr std::int64_t healthy_ms = 5'000; ///< a process that lived so long started well

} // namespace

std::optional<std::int64_t> restart_delay_ms(std::uint32_t deaths) {
  if (deaths == 0 || deaths > restarts_in_a_row_max)
    return std::nullopt;
  return std::min<std::int64_t>(100LL << (deaths - 1), 5'000);
}

std::optional<std::int64_t> restart_policy::failed(bool killed, std::int64_t lived_ms) {
  deaths_in_row_ = killed || lived_ms >= healthy_ms ? 0 : deaths_in_row_ + 1;
  if (killed)
    return 0;
  return restart_delay_ms(std::max<std::uint32_t>(deaths_in_row_, 1));
}

} // namespace tool
