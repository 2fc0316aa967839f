#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "detail/bench.hpp"

/// What the machine can do at best where a parameter server moves bytes: bare sockets and bare
/// copies, two clients at a time.
namespace bench {

/// Both ends of a connection over loopback, with the options that the transport asks for.
class socket_pair {
public:
  socket_pair() {
    const int door = make();
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    dialed_ = make();
    const bool ok = ::bind(door, reinterpret_cast<sockaddr*>(&at), size) == 0
                    && ::listen(door, 1) == 0
                    && ::getsockname(door, reinterpret_cast<sockaddr*>(&at), &size) == 0
                    && ::connect(dialed_, reinterpret_cast<sockaddr*>(&at), size) == 0;
    accepted_ = ok ? ::accept(door, nullptr, nullptr) : -1;
    ::close(door);
    if (accepted_ < 0)
      throw std::runtime_error("no connection over 127.0.0.1");
    tune(accepted_);
  }
  ~socket_pair() {
    ::close(dialed_);
    ::close(accepted_);
  }
  socket_pair(const socket_pair&) = delete;
  socket_pair& operator=(const socket_pair&) = delete;
  int dialed() const { return dialed_; }
  int accepted() const { return accepted_; }

private:
  static void tune(int fd) {
    const int one = 1;
    const int bytes = 2 << 20;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  static int make() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tune(fd);
    return fd;
  }
  int dialed_ = -1;
  int accepted_ = -1;
};

/// The fastest way to move bytes with the same number of threads at work.
class traffic_limits {
public:
  static constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
  static constexpr std::size_t row_bytes = 256;

  traffic_limits() : table_(std::size_t{256} << 20, std::byte{1}) {
    for (auto& own : own_)
      own.assign(16 * chunk_bytes, std::byte{2});
  }

  /// Bytes a second that one thread sends to two, or that two send to one, over bare sockets.
  double raw_tcp(std::size_t chunks, bool to_one) {
    std::array<socket_pair, 2> links;
    const auto begin = steady::now();
    std::vector<std::thread> clients;
    for (std::size_t c = 0; c < links.size(); ++c)
      clients.emplace_back([&, c] {
        if (to_one)
          send(links[c].dialed(), own_[c], chunks);
        else
          receive(links[c].dialed(), own_[c], chunks);
      });
    if (to_one) {
      receive_both(links, chunks);
    } else {
      for (std::size_t i = 0; i < chunks; ++i)
        for (auto& link : links)
          send_chunk(link.accepted(), table_.data() + i % 64 * chunk_bytes);
    }
    for (auto& client : clients)
      client.join();
    return static_cast<double>(2 * chunks * chunk_bytes) / seconds_since(begin);
  }

  /// Bytes a second that two threads copy from one table of 64 MiB, each into 16 MiB of its own.
  double memory_copy(std::size_t chunks) {
    const double took = both([&](std::size_t c) {
      for (std::size_t i = 0; i < chunks; ++i)
        std::memcpy(own_[c].data() + i % 16 * chunk_bytes, table_.data() + i % 64 * chunk_bytes,
                    chunk_bytes);
    });
    return static_cast<double>(2 * chunks * chunk_bytes) / took;
  }

  /// Rows a second that two threads copy from random places of a table of 256 MiB.
  double gather(const std::vector<std::int64_t>& rows, std::size_t times) {
    constexpr std::size_t ahead = 8;
    const double took = both([&](std::size_t c) {
      for (std::size_t t = 0; t < times; ++t)
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const auto at = static_cast<std::size_t>(rows[std::min(i + ahead, rows.size() - 1)]);
          for (std::size_t line = 0; line < row_bytes; line += 64)
            __builtin_prefetch(table_.data() + at * row_bytes + line);
          std::memcpy(own_[c].data() + i * row_bytes,
                      table_.data() + static_cast<std::size_t>(rows[i]) * row_bytes, row_bytes);
        }
    });
    return static_cast<double>(2 * times * rows.size()) / took;
  }

private:
  static void send_chunk(int to, const std::byte* from) {
    for (std::size_t done = 0; done < chunk_bytes;) {
      const auto n = ::send(to, from + done, chunk_bytes - done, MSG_NOSIGNAL);
      if (n <= 0)
        throw std::runtime_error("a bare socket broke");
      done += static_cast<std::size_t>(n);
    }
  }
  static void send(int to, const std::vector<std::byte>& from, std::size_t chunks) {
    for (std::size_t i = 0; i < chunks; ++i)
      send_chunk(to, from.data() + i % 16 * chunk_bytes);
  }
  static void receive(int from, std::vector<std::byte>& to, std::size_t chunks) {
    for (std::size_t left = chunks * chunk_bytes; left > 0;)
      left -= receive_some(from, to, left);
  }
  static std::size_t receive_some(int from, std::vector<std::byte>& to, std::size_t left) {
    const auto n = ::recv(from, to.data(), std::min(left, chunk_bytes / 2), 0);
    if (n <= 0)
      throw std::runtime_error("a bare socket broke");
    return static_cast<std::size_t>(n);
  }
  void receive_both(std::array<socket_pair, 2>& links, std::size_t chunks) {
    std::array<std::size_t, 2> left{chunks * chunk_bytes, chunks * chunk_bytes};
    while (left[0] + left[1] > 0)
      for (std::size_t c = 0; c < 2; ++c)
        if (left[c] > 0)
          left[c] -= receive_some(links[c].accepted(), own_[c], left[c]);
  }
  static double both(const std::function<void(std::size_t)>& body) {
    const auto begin = steady::now();
    std::thread other{[&] { body(1); }};
    body(0);
    other.join();
    return seconds_since(begin);
  }

  std::vector<std::byte> table_;
  std::array<std::vector<std::byte>, 2> own_{};
};

} // namespace bench
