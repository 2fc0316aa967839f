#pragma once

#include <cstdint>

#include <troupe/messages/message_header.hpp>

/// The program and its coordinator, in one process.
namespace troupe {

/// The closure queue went from empty to not empty.
struct work_waiting {
  std::uint32_t reserved = 0;
  TROUPE_FIELDS(work_waiting, reserved)
};

/// An error is being raised: whatever runs shall end.
struct cancel_requested {
  std::uint64_t generation = 0; ///< of the queue: a request that comes late cancels nothing
  TROUPE_FIELDS(cancel_requested, generation)
};

class coordinator_call;

/// A blocking public call's request to the coordinator, which answers through a promise of the
/// call's own.
struct run_call {
  local_only<coordinator_call> call{};
  TROUPE_FIELDS(run_call, call)
};

} // namespace troupe
