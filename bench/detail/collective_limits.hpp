#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "detail/collective_jobs.hpp"
#include "detail/ranks.hpp"

// clang checks at run time what g++ is told here: the vectors don't overlap.
#if defined(__GNUC__) && !defined(__clang__)
#define TROUPE_BENCH_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TROUPE_BENCH_INDEPENDENT
#endif

/// What bare sockets and bare memory do, where collective operations move as many bytes.
namespace bench {

/// Two ranks that send each other as many bytes as an operation of two must, with one call after
/// the other on a bare socket and nothing done to them.
class raw_sockets {
public:
  explicit raw_sockets(rank& at) : sink_(std::size_t{1} << 20) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    if (at.index() == 0) {
      const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
      prepare(listener);
      ::bind(listener, reinterpret_cast<sockaddr*>(&where), sizeof where);
      ::listen(listener, 1);
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&where), &size);
      at.all(where.sin_port);
      socket_ = ::accept(listener, nullptr, nullptr);
      prepare(socket_);
      ::close(listener);
    } else {
      where.sin_port = static_cast<in_port_t>(at.all(0)[0]);
      socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
      prepare(socket_);
      if (::connect(socket_, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0)
        throw std::runtime_error("bare sockets do not connect");
    }
  }
  ~raw_sockets() { ::close(socket_); }
  raw_sockets(const raw_sockets&) = delete;
  raw_sockets& operator=(const raw_sockets&) = delete;

  void run(const job& j) {
    using k = tr::collective_kind;
    const bool gives = j.kind == k::broadcast ? j.is_root() : !has_root(j.kind) || !j.is_root();
    const bool gets = j.kind == k::broadcast ? !j.is_root() : !has_root(j.kind) || j.is_root();
    const bool whole = j.kind == k::all_reduce || j.kind == k::broadcast || j.kind == k::reduce;
    const std::size_t bytes =
      j.kind == k::barrier ? 1 : (whole ? j.count : j.part()) * sizeof(float);
    exchange(reinterpret_cast<const char*>(j.in), gives ? bytes : 0, gets ? bytes : 0);
  }

private:
  void exchange(const char* from, std::size_t out, std::size_t in) {
    while (out > 0 || in > 0) {
      ssize_t sent = 0;
      ssize_t got = 0;
      if (out > 0)
        sent = ::send(socket_, from, std::min(out, sink_.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (in > 0)
        got = ::recv(socket_, sink_.data(), std::min(in, sink_.size() / 2), MSG_DONTWAIT);
      out -= static_cast<std::size_t>(std::max<ssize_t>(0, sent));
      from += std::max<ssize_t>(0, sent);
      in -= static_cast<std::size_t>(std::max<ssize_t>(0, got));
      if (sent <= 0 && got <= 0)
        ::sched_yield();
    }
  }
  static void prepare(int s) {
    const int one = 1;
    const int bytes = 2 << 20;
    ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ::setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    ::setsockopt(s, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    ::setsockopt(s, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  int socket_ = -1;
  std::vector<char> sink_;
};

/// One pass that reads all vectors and writes their sum to all of them, from `begin` to `end`.
inline void sum_into_all(std::vector<std::vector<float>>& xs, std::size_t begin, std::size_t end) {
  float* const a = xs[0].data();
  float* const b = xs[1].data();
  if (xs.size() == 2) {
    TROUPE_BENCH_INDEPENDENT
    for (std::size_t i = begin; i < end; ++i) {
      const float sum = a[i] + b[i];
      a[i] = sum;
      b[i] = sum;
    }
    return;
  }
  float* const c = xs[2].data();
  float* const d = xs[3].data();
  TROUPE_BENCH_INDEPENDENT
  for (std::size_t i = begin; i < end; ++i) {
    const float sum = ((a[i] + b[i]) + c[i]) + d[i];
    a[i] = sum;
    b[i] = sum;
    c[i] = sum;
    d[i] = sum;
  }
}

/// One pass that reads all vectors and writes their sum to `out`.
inline void sum_into(float* out, std::vector<std::vector<float>>& xs, std::size_t begin,
                     std::size_t end) {
  const float* const a = xs[0].data();
  const float* const b = xs[1].data();
  if (xs.size() == 2) {
    TROUPE_BENCH_INDEPENDENT
    for (std::size_t i = begin; i < end; ++i)
      out[i] = a[i] + b[i];
    return;
  }
  const float* const c = xs[2].data();
  const float* const d = xs[3].data();
  TROUPE_BENCH_INDEPENDENT
  for (std::size_t i = begin; i < end; ++i)
    out[i] = ((a[i] + b[i]) + c[i]) + d[i];
}

/// What memory allows: the member's share of the operation, `begin` to `end` of every vector where
/// it sums, with nobody to wait for. `xs` as many vectors as members, `out` another one; each holds
/// the operation's. A broadcast is from member 0.
inline void memory_pass(const job& j, std::vector<std::vector<float>>& xs, std::vector<float>& out,
                        std::size_t begin, std::size_t end) {
  const auto copy = [&](std::size_t count) {
    std::memcpy(out.data(), xs[0].data(), count * sizeof(float));
  };
  switch (j.kind) {
    case tr::collective_kind::all_reduce: sum_into_all(xs, begin, end); break;
    case tr::collective_kind::reduce_scatter:
    case tr::collective_kind::reduce: sum_into(out.data(), xs, begin, end); break;
    case tr::collective_kind::all_gather: copy(j.count); break;
    case tr::collective_kind::broadcast:
      if (j.rank != 0)
        copy(j.count);
      break;
    case tr::collective_kind::gather: copy(j.part()); break;
    case tr::collective_kind::barrier: break;
  }
  asm volatile("" ::"r"(out.data()) : "memory");
}

} // namespace bench
