#pragma once

#include <troupe/core/ids.hpp>
#include <troupe/messages/message_header.hpp>

/// Coordinator and servers: snapshots of all shards.
namespace troupe {

struct take_cut {
  message_header header{};
  snapshot_id snapshot{};
  TROUPE_FIELDS(take_cut, header, snapshot)
};

struct drop_cut {
  message_header header{};
  snapshot_id snapshot{};
  TROUPE_FIELDS(drop_cut, header, snapshot)
};

} // namespace troupe
