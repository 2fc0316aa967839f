#pragma once

#include <utility>

#include <unistd.h>

namespace tool {

/// Owns a file descriptor; closes it when the object goes.
class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_{fd} {}
  descriptor(descriptor&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() { close(); }

  /// -1: none.
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }

private:
  int fd_ = -1;
};

} // namespace tool
