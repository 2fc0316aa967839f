#pragma once

#include <cstddef>
#include <memory>

#include <troupe/core/data_port.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/transport/asio_transport.hpp>

/// The data plane of a process: shared memory to processes of this host, TCP to all others.
namespace troupe {

struct host_transport_options {
  asio_transport_options tcp{};
  /// Off: TCP also within a host.
  bool shared_memory = true;
  /// Bytes that a direction of a channel holds: a power of two, 4 KiB to 64 MiB. Memory is taken as
  /// it is used, twice that much a channel.
  std::size_t ring_bytes = std::size_t{4} << 20;
  /// Told why shared memory was not used where it could have been
  /// (`transport.shared_memory_refused`). May be null; outlives the transport.
  tracer* trace = nullptr;
};

/// A transport over TCP whose channels go through shared memory when both ends are on one host, in
/// one network namespace, of one user, and both allow it. No option is needed: a listener opens a
/// local door beside its port, and whoever dials one of the host's own addresses looks for that
/// door first. What can't be shared (a system that refuses memory, another user, a process without
/// a door) goes over sockets as before, and the tracer hears why.
///
/// Addresses, errors and threads are as `make_asio_transport` has them; `peer()` of an accepted
/// channel that shares memory is "shm:" and the dialer's process number. A peer's death ends its
/// channels at once; nothing of them is left in /dev/shm. Of what a dead or hostile peer leaves in
/// the memory nothing is believed: at worst the channel ends with `bad_frame`.
/// @param clock outlives the transport and all pollers.
std::unique_ptr<data_transport> make_host_transport(clock_port& clock,
                                                    host_transport_options options);
std::unique_ptr<data_transport> make_host_transport(clock_port& clock);

} // namespace troupe
