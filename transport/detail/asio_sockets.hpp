#pragma once

#include <troupe/transport/detail/asio.hpp>

#include <string>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/result.hpp>

/// Sockets as the TCP transport wants them: close-on-exec from their first moment, non-blocking,
/// sized and without delay.
namespace troupe::detail {

/// "127.0.0.1:80", "[::1]:80".
std::string to_string(const tcp::endpoint& at);

/// The endpoints that "host:port" or "[host]:port" stands for, at least one. Looking a name up
/// blocks the caller; numbers don't. `invalid_argument` when malformed, `unavailable` when the name
/// is unknown; both name the address.
result<std::vector<tcp::endpoint>> resolve(asio::io_context& io, const std::string& address);

/// Whether an address is one of this host.
bool is_local(const asio::ip::address& at);

/// Sets the options of a connected socket. Never fails: a socket whose peer left already says so
/// when it is used.
void set_up_connected(tcp::socket& socket, const tcp::endpoint& remote);

/// Connects without blocking in the kernel; waits in poll until `deadline`. `connect_failed`:
/// refused; `deadline`: no answer; `unavailable`: anything else. Each names `address`.
result<tcp::socket> connect_socket(asio::io_context& io, const tcp::endpoint& to,
                                   const std::string& address, int buffer_bytes,
                                   const clock_port& clock, time_point deadline);

/// A bound and listening non-blocking socket. `address_in_use`, or `invalid_argument` for any other
/// reason; both name it.
result<tcp::acceptor> listen_socket(asio::io_context& io, const tcp::endpoint& at,
                                    const std::string& address, int buffer_bytes);

} // namespace troupe::detail
