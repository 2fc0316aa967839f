#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <troupe/core/data_port.hpp>
#include <troupe/core/environment.hpp>

/// A data plane inside one process: paired bounded byte queues, with the misbehaviour of a network
/// on demand.
namespace troupe {

struct memory_transport_options {
  std::size_t capacity_bytes = std::size_t{1}
                               << 20; ///< a direction of a connection holds no more; at least 1
  std::size_t backlog_max = 128;      ///< connections that nobody accepted yet, per listener
  /// Not 0: each call moves 1 to `chunk_bytes_max` bytes or, one time in four, nothing; drawn from
  /// this seed.
  std::uint64_t chunk_seed = 0;
  std::size_t chunk_bytes_max = 7;
  /// Not 0: a connection takes that many bytes, both directions together, and then ends; what it
  /// took still arrives.
  std::uint64_t cut_after_bytes = 0;
};

/// A transport inside one process. Any thread may call it; what it makes belongs to one thread at a
/// time and may outlive it. Waits only on points of `waits`, so it serves threads and fibers alike.
///
/// Addresses are any "name:number"; number 0 takes a free one ("mem:0" becomes "mem:1"). `connect`
/// fails with `connect_failed` when nobody listens, `deadline` when the backlog stays full.
/// @param waits outlives everything that the transport made.
std::unique_ptr<data_transport> make_memory_transport(wait_port& waits,
                                                      memory_transport_options options = {});

} // namespace troupe
