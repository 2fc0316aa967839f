#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#if defined(TROUPE_BENCH_MPI)
#include <mpi.h>
#endif
#if defined(TROUPE_BENCH_GLOO)
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#endif

#include "detail/ranks.hpp"

// clang checks at run time what g++ is told here: the vectors don't overlap.
#if defined(__GNUC__) && !defined(__clang__)
#define TROUPE_BENCH_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TROUPE_BENCH_INDEPENDENT
#endif

/// Whom the collective operations are measured against: Gloo and Open MPI where they are installed,
/// and what bare sockets and bare memory do.
namespace bench {

/// An all_reduce (sum of floats, in place) of somebody.
struct contender {
  std::string name;
  std::function<void(float*, std::size_t)> run;
  float* data = nullptr; ///< the vector that it works on
};

#if defined(TROUPE_BENCH_GLOO)
/// Gloo over TCP, both of its algorithms, as its users run them.
class gloo_peer {
public:
  gloo_peer(rank& at, const std::string& folder) {
    gloo::transport::tcp::attr where;
    where.hostname = "127.0.0.1";
    device_ = gloo::transport::tcp::CreateDevice(where);
    if (at.index() == 0)
      std::filesystem::create_directories(folder);
    at.barrier();
    store_ = std::make_unique<gloo::rendezvous::FileStore>(folder);
    context_ = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(at.index()),
                                                           static_cast<int>(at.size()));
    context_->connectFullMesh(*store_, device_);
    at.barrier();
    if (at.index() == 0)
      std::filesystem::remove_all(folder);
  }

  void ring(float* x, std::size_t count) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(x, count);
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t n) {
      auto* to = static_cast<float*>(out);
      const auto* l = static_cast<const float*>(a);
      const auto* r = static_cast<const float*>(b);
      for (std::size_t i = 0; i < n; ++i)
        to[i] = l[i] + r[i];
    });
    gloo::allreduce(options);
  }

  void halving_doubling(float* x, std::size_t count) {
    auto& made = made_[{x, count}];
    if (!made)
      made = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
        context_, std::vector<float*>{x}, static_cast<int>(count));
    made->run();
  }

private:
  std::shared_ptr<gloo::transport::Device> device_;
  std::unique_ptr<gloo::rendezvous::FileStore> store_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::map<std::pair<float*, std::size_t>, std::unique_ptr<gloo::AllreduceHalvingDoubling<float>>>
    made_;
};
#endif

#if defined(TROUPE_BENCH_MPI)
/// The MPI that this process was started by.
class mpi_peer {
public:
  mpi_peer() { MPI_Init(nullptr, nullptr); }
  ~mpi_peer() { MPI_Finalize(); }
  mpi_peer(const mpi_peer&) = delete;
  mpi_peer& operator=(const mpi_peer&) = delete;
  void all_reduce(float* x, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, x, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
};
#endif

/// Two ranks that send each other as many bytes as an all_reduce of two must, with one call after
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

  void exchange(const float* x, std::size_t count) {
    const auto* from = reinterpret_cast<const char*>(x);
    std::size_t out = count * sizeof(float);
    std::size_t in = out;
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

private:
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

/// What memory allows: this rank's share of one pass that reads and writes every rank's vector.
inline void memory_pass(std::vector<std::vector<float>>& xs, std::size_t begin, std::size_t end) {
  if (xs.size() == 2) {
    float* const a = xs[0].data();
    float* const b = xs[1].data();
    TROUPE_BENCH_INDEPENDENT
    for (std::size_t i = begin; i < end; ++i) {
      const float sum = a[i] + b[i];
      a[i] = sum;
      b[i] = sum;
    }
    return;
  }
  float* const a = xs[0].data();
  float* const b = xs[1].data();
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

} // namespace bench
