#pragma once

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>

#include <troupe/transport/asio_transport.hpp>
#include <troupe/transport/host_transport.hpp>

#include "support.hpp"

namespace transport_test {

/// Transports that keep one contract, for tests of both.
struct over_tcp {
  static constexpr const char* accepted_peer = "127.0.0.1:";
  static std::unique_ptr<data_transport> make(clock_port& clock,
                                              asio_transport_options options = {}) {
    return make_asio_transport(clock, options);
  }
};
struct over_host_memory {
  static constexpr const char* accepted_peer = "shm:";
  static std::unique_ptr<data_transport> make(clock_port& clock,
                                              asio_transport_options options = {}) {
    return make_host_transport(clock, {.tcp = options});
  }
};

/// Both ends of a connection within this host.
template <class Over>
struct channel_pair {
  real_clock clock{};
  std::unique_ptr<data_transport> transport = Over::make(clock);
  std::unique_ptr<channel_listener> listener{};
  std::unique_ptr<channel> dialed{};
  std::unique_ptr<channel> accepted{};

  explicit channel_pair(const std::string& address = "127.0.0.1:0") {
    listener = std::move(transport->listen(address)).value_or_throw();
    dialed = std::move(transport->connect(listener->address(), soon())).value_or_throw();
    auto poller = transport->make_poller();
    poller->watch(*listener);
    while (!accepted) {
      REQUIRE(poller->wait(soon()));
      accepted = listener->try_accept();
    }
  }
};
using tcp_pair = channel_pair<over_tcp>;

inline std::size_t send(channel& to, const std::string& text) {
  const std::array<const_bytes, 1> parts{bytes_of(text)};
  return to.try_send(parts).value_or_throw();
}

// Waits for and takes what comes, up to n bytes; an error ends the test.
inline std::string receive(data_transport& transport, channel& from, std::size_t n) {
  auto poller = transport.make_poller();
  poller->watch(from, false);
  std::string out(n, '\0');
  std::size_t got = 0;
  while (got < n) {
    const std::array<mutable_bytes, 1> parts{std::as_writable_bytes(std::span{out}).subspan(got)};
    const std::size_t more = from.try_receive(parts).value_or_throw();
    got += more;
    if (more == 0)
      REQUIRE(poller->wait(soon()));
  }
  return out;
}

// Waits until the channel says why it ended.
inline failure end_of(data_transport& transport, channel& from) {
  auto poller = transport.make_poller();
  poller->watch(from, false);
  std::string out(1000, '\0');
  for (;;) {
    const std::array<mutable_bytes, 1> parts{std::as_writable_bytes(std::span{out})};
    auto got = from.try_receive(parts);
    if (!got)
      return got.error();
    if (*got == 0)
      REQUIRE(poller->wait(soon()));
  }
}

} // namespace transport_test
