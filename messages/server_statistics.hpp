#pragma once

#include <cstdint>

#include <troupe/core/error.hpp>
#include <troupe/messages/message_header.hpp>

/// Coordinator and servers: what a server holds and has done.
namespace troupe {

struct query_server {
  message_header header{};
  TROUPE_FIELDS(query_server, header)
};

struct server_statistics {
  failure why{};
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pushes_applied = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t refused = 0;
  TROUPE_FIELDS(server_statistics, why, shards, bytes, pushes_applied, duplicates, refused)
};

} // namespace troupe
