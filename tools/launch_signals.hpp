#pragma once

#include <csignal>

#include <unistd.h>

/// Signals and children's ends for a launcher: read from a descriptor, between two rounds of its
/// loop.
namespace tool {

class descriptor {
public:
  explicit descriptor(int fd) : fd_{fd} {}
  ~descriptor() { close(); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }

private:
  int fd_;
};

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
  /// Throws `io_failed`.
  int open() const;

private:
  sigset_t mine_{};
  sigset_t before_{};
};

} // namespace tool
