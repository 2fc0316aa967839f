#pragma once

#include <utility>

#include <unistd.h>

namespace troupe::detail {

/// An open descriptor. Moves, closes at its end.
class owned_fd {
public:
  owned_fd() = default;
  explicit owned_fd(int fd) : fd_{fd} {}
  ~owned_fd() { reset(); }
  owned_fd(owned_fd&& other) noexcept : fd_{other.release()} {}
  owned_fd& operator=(owned_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0)
      ::close(release());
  }

private:
  int fd_ = -1;
};

} // namespace troupe::detail
