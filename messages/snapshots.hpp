#pragma once

#include <troupe/core/ids.hpp>
#include <troupe/messages/message_header.hpp>

/// Coordinator and servers: cuts through all shards.
namespace troupe {

struct take_cut {
  message_header header{};
  cut_id cut{};
  TROUPE_FIELDS(take_cut, header, cut)
};

struct drop_cut {
  message_header header{};
  cut_id cut{};
  TROUPE_FIELDS(drop_cut, header, cut)
};

} // namespace troupe
