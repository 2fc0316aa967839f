#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <troupe/core/error.hpp>

/// Addresses for processes that have not started yet; also for tests and benches.
namespace tool {

namespace detail {

struct port_range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
};

/// The upper half of what lies below the ephemeral ports.
inline port_range below_ephemeral() {
  std::ifstream file{"/proc/sys/net/ipv4/ip_local_port_range"};
  std::uint32_t low = 0;
  constexpr std::uint32_t usual = 32'768, least = 4'096;
  if (!(file >> low) || low < least || low > 65'536)
    low = usual;
  return {low / 2, low};
}

inline bool is_free(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool ok = fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  if (fd >= 0)
    ::close(fd);
  return ok;
}

/// Where this process goes on looking; processes begin far from each other.
inline std::atomic<std::uint32_t>& next_offset() {
  static std::atomic<std::uint32_t> next{static_cast<std::uint32_t>(::getpid()) * 2'654'435'761u};
  return next;
}

} // namespace detail

/// `n` ports of 127.0.0.1 that no process uses now, for launchers and tests that choose addresses
/// before the processes that listen there have started. They are below the system's range of
/// ephemeral ports
/// (`net.ipv4.ip_local_port_range`), so that neither an outgoing connection nor a listener on port
/// 0 takes one in the meantime. A process gets each port once until it has had all of the range.
/// Any thread. Throws `unavailable` where there are not so many.
inline std::vector<std::uint16_t> free_loopback_ports(std::size_t n) {
  const auto range = detail::below_ephemeral();
  std::vector<std::uint16_t> out;
  for (std::uint32_t tried = 0; tried < range.size() && out.size() < n; ++tried) {
    const auto port =
      static_cast<std::uint16_t>(range.begin + detail::next_offset().fetch_add(1) % range.size());
    if (detail::is_free(port) && std::find(out.begin(), out.end(), port) == out.end())
      out.push_back(port);
  }
  if (out.size() < n)
    troupe::throw_failure(troupe::errc::unavailable,
                          std::to_string(n) + " free ports of 127.0.0.1 below "
                            + std::to_string(range.end) + " requested, found "
                            + std::to_string(out.size()));
  return out;
}

} // namespace tool
