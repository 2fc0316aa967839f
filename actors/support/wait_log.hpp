#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/core/time.hpp>

namespace troupe {

/// A log of the tries of a wait for other workers and of their outcomes, in words. One wait; plain,
/// its owner gives the time.
class wait_log {
public:
  wait_log(time_point begun, duration tell_every)
    : begun_{begun}, tell_every_{tell_every}, tell_at_{after(begun, tell_every)} {}

  /// Notes that a try ended and there will be another.
  void ended(const failure& why);
  std::uint64_t tries() const { return tries_; }
  /// "9 tries in 12 s came to nothing (peer_lost 6 times, fenced 3 times), the last by peer_lost:
  /// member 1 is gone"; empty before the first.
  std::string text(time_point now) const;
  /// The text, when it is time to tell it (again) and there is something.
  std::optional<std::string> due(time_point now);

private:
  const time_point begun_;
  const duration tell_every_;
  time_point tell_at_;
  std::uint64_t tries_ = 0;
  std::map<errc, std::uint64_t> ends_{};
  failure last_{};
};

} // namespace troupe
