#pragma once

#include <cstdint>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/messages/message_header.hpp>

/// A device, its actor and who watches it, in one process.
namespace troupe {

/// An event that somebody asked to hear of has passed, or never will.
struct device_event {
  std::uint64_t number = 0; ///< as the asker chose it
  failure why{};            ///< `none`: passed
  TROUPE_FIELDS(device_event, number, why)
};

/// A device has failed for good. From the device to its actor, and from the actor to who watches.
struct device_failed {
  std::string device{}; ///< "gpu:0"
  failure why{};        ///< names the device, the stream and the operation
  local_only<bool> here{};
  TROUPE_FIELDS(device_failed, device, why, here)
};

/// The function that hears of the device's end: called at once when it has failed already. On the
/// actor's thread.
struct device_watcher {
  virtual ~device_watcher() = default;
  virtual void on_device_failed(const device_failed& msg) = 0;
};

struct watch_device {
  local_only<device_watcher> by{};
  TROUPE_FIELDS(watch_device, by)
};

struct query_device {
  std::uint32_t reserved = 0;
  TROUPE_FIELDS(query_device, reserved)
};

struct device_report {
  std::string device{};
  failure why{}; ///< `none`: it is well
  std::uint64_t memory_bytes = 0;
  std::uint64_t bytes_in_use = 0; ///< of its pool
  std::uint64_t bytes_cached = 0;
  std::uint64_t operations = 0; ///< submitted so far
  std::uint64_t events_open = 0;
  std::uint32_t streams = 0;
  TROUPE_FIELDS(device_report, device, why, memory_bytes, bytes_in_use, bytes_cached, operations,
                events_open, streams)
};

/// Ends the device: what runs may finish within the deadline.
struct close_device {
  std::uint64_t deadline_ms = 0;
  local_only<bool> here{};
  TROUPE_FIELDS(close_device, deadline_ms, here)
};

} // namespace troupe
