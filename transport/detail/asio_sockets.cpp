#include <troupe/transport/detail/asio_sockets.hpp>

#include <cstring>
#include <system_error>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <troupe/transport/detail/address.hpp>
#include <troupe/transport/detail/asio_poller.hpp>

namespace troupe::detail {

namespace {

bool is_loopback(const asio::ip::address& at) {
  return at.is_loopback()
         || (at.is_v6() && at.to_v6().is_v4_mapped()
             && asio::ip::make_address_v4(asio::ip::v4_mapped, at.to_v6()).is_loopback());
}

bool is_same_host(const tcp::socket& socket, const tcp::endpoint& remote) {
  const asio::ip::address peer = remote.address();
  if (is_loopback(peer))
    return true;
  // A connection to an address of this host has that address at both ends.
  error_code ec;
  const tcp::endpoint local = socket.local_endpoint(ec);
  return !ec && local.address() == peer;
}

failure cannot_connect(errc code, const std::string& address, const std::string& why) {
  return make_failure(code, "cannot connect to " + address + ": " + why);
}

// Only a refusal is `connect_failed`: whoever counts the dead must not mistake an unreachable
// network for one.
failure cannot_connect(const std::string& address, const error_code& ec) {
  if (ec == asio::error::connection_refused)
    return cannot_connect(errc::connect_failed, address, ec.message());
  if (ec == asio::error::timed_out)
    return cannot_connect(errc::deadline, address, ec.message());
  return cannot_connect(errc::unavailable, address, ec.message());
}

// An open non-blocking socket with its buffer sizes set, as they must be before connect and listen.
// Asio's own `open` can't ask for close-on-exec, and setting that later leaves a gap in which
// another thread's child inherits the socket.
template <class Socket>
void open_non_blocking(Socket& out, const tcp::endpoint& at, int buffer_bytes, error_code& ec) {
  const int fd = asio::detail::socket_ops::socket(at.protocol().family(),
                                                  SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP, ec);
  if (fd < 0)
    return;
  out.assign(at.protocol(), fd, ec);
  if (ec) {
    ::close(fd);
    return;
  }
  error_code ignored; // a system with smaller limits still works
  out.set_option(asio::socket_base::send_buffer_size{buffer_bytes}, ignored);
  out.set_option(asio::socket_base::receive_buffer_size{buffer_bytes}, ignored);
  out.non_blocking(true, ec);
}

} // namespace

std::string to_string(const tcp::endpoint& at) {
  const std::string host = at.address().to_string();
  const std::string port = std::to_string(at.port());
  return at.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

result<std::vector<tcp::endpoint>> resolve(asio::io_context& io, const std::string& address) {
  auto parts = split_address(address);
  if (!parts)
    return parts.error();
  error_code ec;
  const asio::ip::address number = asio::ip::make_address(parts->host, ec);
  if (!ec)
    return std::vector{tcp::endpoint{number, static_cast<std::uint16_t>(std::stoul(parts->port))}};
  tcp::resolver resolver{io};
  const auto found = resolver.resolve(parts->host, parts->port, tcp::resolver::numeric_service, ec);
  std::vector<tcp::endpoint> out;
  if (!ec)
    for (const auto& entry : found)
      out.push_back(entry.endpoint());
  if (out.empty())
    return make_failure(errc::unavailable,
                        "address \"" + address + "\": cannot resolve the host: " + ec.message());
  return out;
}

result<tcp::socket> connect_socket(asio::io_context& io, const tcp::endpoint& to,
                                   const std::string& address, int buffer_bytes,
                                   const clock_port& clock, time_point deadline) {
  error_code ec;
  tcp::socket out{io};
  open_non_blocking(out, to, buffer_bytes, ec);
  if (ec)
    return cannot_connect(address, ec);
  // Asio's synchronous connect waits in poll without a limit, so only its first half is used.
  asio::detail::socket_ops::connect(out.native_handle(), to.data(), to.size(), ec);
  if (ec == asio::error::in_progress || ec == asio::error::would_block) {
    while (!poll_one(out.native_handle(), POLLOUT, time_left(clock, deadline)))
      if (clock.now() >= deadline)
        return cannot_connect(errc::deadline, address, "deadline exceeded");
    int why = 0;
    socklen_t size = sizeof why;
    ::getsockopt(out.native_handle(), SOL_SOCKET, SO_ERROR, &why, &size);
    ec = error_code{why, boost::system::system_category()};
  }
  if (ec)
    return cannot_connect(address, ec);
  // A free port of the ephemeral range can be drawn as our own: the socket then talks to itself.
  if (const tcp::endpoint local = out.local_endpoint(ec); !ec && local == to)
    return cannot_connect(errc::connect_failed, address, "connection refused");
  set_up_connected(out, to);
  return out;
}

result<tcp::acceptor> listen_socket(asio::io_context& io, const tcp::endpoint& at,
                                    const std::string& address, int buffer_bytes) {
  error_code ec;
  tcp::acceptor out{io};
  open_non_blocking(out, at, buffer_bytes, ec);
  if (!ec)
    out.set_option(tcp::acceptor::reuse_address{true}, ec);
  if (!ec)
    out.bind(at, ec);
  if (!ec)
    out.listen(tcp::acceptor::max_listen_connections, ec);
  if (ec == asio::error::address_in_use)
    return make_failure(errc::address_in_use, "cannot listen on " + address + ": " + ec.message());
  if (ec)
    return make_failure(errc::invalid_argument,
                        "cannot listen on " + address + ": " + ec.message());
  return out;
}

bool is_local(const asio::ip::address& at) {
  if (is_loopback(at))
    return true;
  // Only an address of this host can be bound.
  error_code ec;
  const tcp::endpoint any_port{at, 0};
  const int fd = asio::detail::socket_ops::socket(any_port.protocol().family(),
                                                  SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP, ec);
  if (fd < 0)
    return false;
  asio::detail::socket_ops::bind(fd, any_port.data(), any_port.size(), ec);
  ::close(fd);
  return !ec;
}

void set_up_connected(tcp::socket& socket, const tcp::endpoint& remote) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay{true}, ignored);
  // Pacing algorithms throttle even a loopback; a system may refuse the choice, and then nothing is
  // lost but speed.
  if (is_same_host(socket, remote))
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

} // namespace troupe::detail
