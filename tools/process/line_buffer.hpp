#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tool {

/// Cuts a stream of bytes into lines.
class line_buffer {
public:
  void append(std::string_view bytes) { bytes_.append(bytes); }
  /// Takes the next complete line, without its '\n'; nothing while there is none.
  std::optional<std::string> next() {
    const auto at = bytes_.find('\n', searched_);
    if (at == std::string::npos) {
      searched_ = bytes_.size();
      return std::nullopt;
    }
    auto out = bytes_.substr(0, at);
    bytes_.erase(0, at + 1);
    searched_ = 0;
    return out;
  }
  /// Takes all bytes that no call of `next` has returned.
  std::string take_rest() {
    searched_ = 0;
    return std::exchange(bytes_, {});
  }

private:
  std::string bytes_{};
  std::size_t searched_ = 0; ///< leading bytes without a '\n'
};

} // namespace tool
