#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <troupe/core/time.hpp>

namespace troupe {

/// A closure that a snapshot waits for.
struct running_closure {
  std::uint64_t seq = 0;
  std::uint32_t worker = 0;
  /// Since its step last entered Troupe; none: it is not on a thread yet.
  std::optional<std::uint64_t> silent_ms{};
  std::uint64_t median_ms = 0; ///< what its function takes, as far as that is known
};

/// Decides how long a snapshot waits for what runs: for as long as it shows progress, which is that
/// steps call Troupe or closures end. Plain; its owner locks.
class quiesce_watch {
public:
  /// A watch under which a step may be silent for `quiet_ms_max`, or for 20 times what its function
  /// takes.
  explicit quiesce_watch(std::uint64_t quiet_ms_max) : quiet_ms_max_{quiet_ms_max} {}

  /// Starts the watch when a snapshot is asked for: earlier silence does not count.
  void begin(time_point now) { since_ = now; }

  struct verdict {
    std::vector<running_closure> overdue{}; ///< with how long they were silent
    std::uint64_t look_again_ms = 1;        ///< when none is overdue
  };
  /// The closures that have shown no progress for too long. One that is not on a thread is as
  /// silent as the least silent one of its worker. Nothing at all is running: overdue is empty, and
  /// `look_again_ms` 0 once that is so for too long (then it is a server that does not confirm).
  verdict look(time_point now, std::span<const running_closure> running) const;

private:
  std::uint64_t quiet_ms_max_;
  time_point since_{};
};

} // namespace troupe
