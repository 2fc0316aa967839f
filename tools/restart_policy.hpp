#pragma once

#include <cstdint>
#include <optional>

namespace tool {

/// The wait before the `deaths`-th start in a row of a task that ends by itself: doubled each time,
/// at most 5 s. None: not again.
std::optional<std::int64_t> restart_delay_ms(std::uint32_t deaths);

/// When a task whose process failed is started again.
class restart_policy {
public:
  /// A process failed that lived for `lived_ms`. Returns the wait before the next one: 0 for one
  /// that SIGKILL ended (`killed`), else longer with each death in a row soon after the start.
  /// None: it is not to be started again.
  std::optional<std::int64_t> failed(bool killed, std::int64_t lived_ms);
  /// Deaths in a row, by themselves and soon after the start.
  std::uint32_t deaths_in_row() const { return deaths_in_row_; }

private:
  std::uint32_t deaths_in_row_ = 0;
};

} // namespace tool
