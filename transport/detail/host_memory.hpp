#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/core/result.hpp>
#include <troupe/transport/collective_types.hpp>
#include <troupe/transport/detail/owned_fd.hpp>

/// Memory that processes of one host share.
namespace troupe::detail {

/// A descriptor of memory without a name, zeroed, of a size that nobody can change; pages are there
/// once they are used. `unavailable` says why not.
result<owned_fd> make_sealed_memory(std::size_t bytes);
/// Whether a descriptor is such memory of that size: nobody can make its reader fault.
bool is_sealed_memory(int fd, std::size_t bytes);

/// A mapping without a name: nothing of it is left when the last process that maps it has gone,
/// however it went. It is found through the process that made it, which keeps it open until the
/// others have mapped it.
class host_memory {
public:
  host_memory() = default;
  ~host_memory();
  host_memory(host_memory&& other) noexcept;
  host_memory& operator=(host_memory&& other) noexcept;

  /// Zeroed, every page there, and never to shrink.
  static result<host_memory> create(std::size_t bytes);
  /// Maps what process `pid` has open as `fd`, if it has that size.
  static result<host_memory> open(std::int64_t pid, std::int64_t fd, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::int64_t fd() const { return fd_; }
  /// Ends the way by which others find it.
  void close_door();

private:
  result<void> map(std::size_t bytes);

  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

std::int64_t own_pid();

} // namespace troupe::detail
