#pragma once

#include <utility> // before Asio: Boost 1.74 uses std::exchange without including it

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include <fcntl.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "detail/bench.hpp"

/// A peer of dispatch.cpp: 64 bytes there and back over Asio alone, one thread a process.
namespace bench::asio_echo {

namespace asio = boost::asio;
using asio::ip::tcp;

using message = std::array<char, 64>;

/// Answers one client until that hangs up; the process's exit code.
inline int serve(std::uint16_t port) {
  asio::io_context io{1};
  tcp::acceptor from{io, {asio::ip::address_v4::loopback(), port}};
  tcp::socket socket{io};
  from.accept(socket);
  socket.set_option(tcp::no_delay{true});
  message text{};
  std::function<void()> next = [&] {
    asio::async_read(socket, asio::buffer(text), [&](auto failed, std::size_t) {
      if (!failed)
        asio::async_write(socket, asio::buffer(text), [&](auto stopped, std::size_t) {
          if (!stopped)
            next();
        });
    });
  };
  next();
  io.run();
  return 0;
}

/// The other end.
class client {
public:
  explicit client(std::uint16_t port) {
    const tcp::endpoint to{asio::ip::address_v4::loopback(), port};
    boost::system::error_code failed = asio::error::connection_refused;
    for (int tries = 0; failed && tries < 200; ++tries) {
      socket_ = tcp::socket{io_};
      socket_.connect(to, failed);
      if (failed)
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
    if (failed)
      throw std::runtime_error("the echo process does not answer");
    socket_.set_option(tcp::no_delay{true});
    // Processes that are started later would keep the connection open, and the echo waits for its
    // end.
    ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
  }

  /// Microseconds of single round trips.
  std::vector<double> round_trip_us(std::size_t count) {
    std::vector<double> out;
    out.reserve(count);
    auto begin = steady::now();
    message text{};
    std::function<void()> next = [&] {
      begin = steady::now();
      asio::async_write(socket_, asio::buffer(text), [&](auto failed, std::size_t) {
        if (failed)
          throw std::runtime_error("the echo process has gone");
        asio::async_read(socket_, asio::buffer(text), [&](auto ended, std::size_t) {
          if (ended)
            throw std::runtime_error("the echo process has gone");
          out.push_back(1e6 * seconds_since(begin));
          if (out.size() < count)
            next();
        });
      });
    };
    next();
    io_.run();
    io_.restart();
    return out;
  }

private:
  asio::io_context io_{1};
  tcp::socket socket_{io_};
};

} // namespace bench::asio_echo
