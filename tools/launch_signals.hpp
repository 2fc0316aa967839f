#pragma once

#include <csignal>

#include "process/descriptor.hpp"

/// Signals and children's ends for a launcher: read from a descriptor, between two rounds of its
/// loop.
namespace tool {

/// Throws `io_failed`, naming what failed and the system's reason.
[[noreturn]] void system_failed(const char* what);

/// Blocks the signals that a launcher reads from a descriptor: SIGCHLD, SIGINT, SIGTERM, SIGHUP. As
/// before afterwards.
class blocked_signals {
public:
  blocked_signals();
  ~blocked_signals();
  blocked_signals(const blocked_signals&) = delete;
  blocked_signals& operator=(const blocked_signals&) = delete;
  /// A descriptor, not blocking, that they are read from. Throws `io_failed`.
  descriptor open() const;

private:
  sigset_t mine_{};
  sigset_t before_{};
};

} // namespace tool
