#pragma once

#include <chrono>
#include <cstdint>

#include <troupe/core/time.hpp>

/// All default time limits and size limits, in one place. docs/limits.md tells what each limit
/// ends, who can change it and what starts it anew.
///
/// None of them bounds work that goes on: a request ends when whoever owes the answer has shown no
/// progress for so long (bytes taken or sent, rows made, calls of a step), however long all of it
/// takes.
namespace troupe::limits {

// --- waits for somebody else's work: without progress for so long, it is given up

/// Wait for a server's or the coordinator's answer; `runtime_options::request_timeout`.
inline constexpr duration request = std::chrono::seconds{30};
/// A save waits for running closures; `runtime_options::quiesce_ms_max`.
inline constexpr duration quiesce = std::chrono::seconds{30};
/// The whole of a save's snapshot; `save_options::deadline`.
inline constexpr duration save = std::chrono::minutes{10};
/// Start waits for servers and workers; `runtime_options::start_timeout`.
inline constexpr duration start = std::chrono::seconds{60};
/// No worker lives; `runtime_options::no_worker_ms_max`.
inline constexpr duration no_worker = std::chrono::minutes{10};
/// The coordinator does not answer its members; `runtime_options::coordinator_lost_ms_max`.
inline constexpr duration coordinator_lost = std::chrono::seconds{60};
/// A step that was cancelled goes on; `runtime_options::cancel_grace_ms`.
inline constexpr duration cancel_grace = std::chrono::seconds{10};
/// A function builds a worker's resource.
inline constexpr duration build = std::chrono::minutes{10};
/// Members of a bare group stand still in a collective operation.
inline constexpr duration collective = std::chrono::seconds{30};
/// Members stand still in a collective operation of a strategy, and a replica waits for the others
/// to make the same call; `mirrored_options::collective_timeout` and its like.
inline constexpr duration replica_call = std::chrono::seconds{60};
/// Work on a device is not done; `runtime_options::device_hang_after`.
inline constexpr duration device_hang = std::chrono::seconds{60};
/// A channel says nothing about who it is.
inline constexpr duration hello = std::chrono::seconds{10};
/// The longest time between two progress reports of a server that makes shards; there are at least
/// four in `request`.
inline constexpr duration progress_report = std::chrono::seconds{1};

// --- sizes

/// Bulk of one frame on the data plane: a push, or a shard that is read, is one frame. What a frame
/// claims is checked against the shards before memory is taken for it.
inline constexpr std::uint64_t frame_bytes = std::uint64_t{1} << 40;
/// Blobs (arguments and results above 16 KiB) that the coordinator keeps.
inline constexpr std::uint64_t blob_bytes = std::uint64_t{64} << 30;
/// Rows that a server makes between two looks at whether they are still wanted.
inline constexpr std::uint64_t make_piece_bytes = std::uint64_t{16} << 20;

} // namespace troupe::limits
