#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <troupe/actors/data_plane/server_link.hpp>
#include <troupe/actors/support/blob_table.hpp>

namespace troupe {

/// A worker's connections during one session: links to servers and the coordinator's blobs. On
/// compute threads; calls wait.
struct worker_routes {
  /// A new link to the server of that index for a thread, under the session's incarnation.
  std::function<result<std::unique_ptr<server_link>>(std::uint32_t server, const origin& self,
                                                     term_no term)>
    connect{};
  /// Asks the coordinator for a variable by name. Waits; ends early with `cancelled` once
  /// `interrupted` holds.
  std::function<result<variable_spec>(const variable_spec& wanted,
                                      const std::function<bool()>& interrupted)>
    get_or_create{};
  /// Reads an argument blob; null within one process.
  std::function<result<std::string>(const blob_key& key, std::uint64_t size_bytes)> get_blob{};
  /// Stores a result blob; null within one process.
  std::function<result<void>(const blob_key& key, std::string bytes)> put_blob{};
};

} // namespace troupe
