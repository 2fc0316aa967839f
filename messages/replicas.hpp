#pragma once

#include <cstdint>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/messages/message_header.hpp>

/// A replica and its strategy, in one process.
namespace troupe {

struct query_replica {
  std::uint32_t reserved = 0;
  TROUPE_FIELDS(query_replica, reserved)
};

struct replica_report {
  std::uint32_t id = 0;
  std::string device{};
  std::string waits{}; ///< "op 12 all_reduce sum f32[2] waits for {1}"; empty: nobody waits
  failure why{};       ///< `none`: well
  TROUPE_FIELDS(replica_report, id, device, waits, why)
};

struct close_replica {
  local_only<bool> here{};
  TROUPE_FIELDS(close_replica, here)
};

} // namespace troupe
