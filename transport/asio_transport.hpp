#pragma once

#include <chrono>
#include <memory>

#include <troupe/core/data_port.hpp>
#include <troupe/core/environment.hpp>

/// The data plane over TCP. The calling thread drives the sockets itself; there are no threads of
/// its own here. Source of the defaults: measurements on loopback (small messages, spin before
/// sleep; bulk, bytes in flight that stay in cache).
namespace troupe {

struct asio_transport_options {
  duration spin =
    std::chrono::microseconds{50};   ///< how long a poller yields before it sleeps; 0: not at all
  int socket_buffer_bytes = 2 << 20; ///< asked of the system for each direction
};

/// A transport over TCP sockets. Any thread may call it; what it makes belongs to one thread at a
/// time and may outlive it.
///
/// Addresses: "127.0.0.1:80", "[::1]:80", "localhost:80"; anything else is `invalid_argument` and
/// is named. Numbers are preferred on a deadline: looking a name up blocks for as long as the
/// system takes. `connect` fails with `connect_failed` only when the connection was refused,
/// `deadline` when nobody answered in time, and `unavailable` when the host or its network can't be
/// reached: only a refusal tells that a process is gone.
/// @param clock outlives the transport and all pollers.
std::unique_ptr<data_transport> make_asio_transport(clock_port& clock,
                                                    asio_transport_options options);
std::unique_ptr<data_transport> make_asio_transport(clock_port& clock);

} // namespace troupe
