#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <troupe/troupe.hpp>

namespace tool {

/// Watches whether a training gets further while its processes are hit again and again, and says so
/// when it does not. Plain; times are in milliseconds.
class standstill {
public:
  /// A watch for a training that gets further when something new is saved; `saves` tells people how
  /// often that is tried.
  standstill(std::int64_t now_ms, std::string saves)
    : since_ms_{now_ms}, saves_{std::move(saves)} {}

  /// Notes that something new was saved: earlier ends do not count any more.
  void progressed(std::int64_t now_ms);
  /// Notes that a process was killed, or ended by itself, after it had lived for so long.
  void ended(const troupe::task_id& task, std::int64_t lived_ms);
  /// Notes that a process was stopped for a while.
  void stopped(const troupe::task_id& task);
  /// The line to print, every 15 s while processes are hit and nothing is saved: "no progress for
  /// 31 s: ... since then worker:0 ended 9 times, worker:1 7 times, after 1.4 s on average".
  std::optional<std::string> due(std::int64_t now_ms);

private:
  static constexpr std::int64_t tell_every_ms = 15'000;
  static constexpr std::uint64_t hits_min = 3; ///< fewer are no storm

  std::int64_t since_ms_;
  std::int64_t told_ms_ = 0; ///< 0: not yet
  const std::string saves_;
  std::map<troupe::task_id, std::uint64_t> ends_{};
  std::map<troupe::task_id, std::uint64_t> stops_{};
  std::uint64_t ended_ = 0;
  std::uint64_t stopped_ = 0;
  std::int64_t lived_ms_ = 0; ///< all that ended, together
};

} // namespace tool
