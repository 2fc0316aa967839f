#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/data_plane/server_rpc.hpp>

namespace troupe {

/// A worker's way to the coordinator's blobs: channels made when needed, kept for the next call.
/// Any thread; waits.
class blob_client {
public:
  blob_client(const environment& env, data_peer peer, duration reply_max)
    : env_{env}, peer_{std::move(peer)}, reply_max_{reply_max} {}
  /// The bytes of a blob. `not_found`; `corrupt` when the size isn't the one announced.
  result<std::string> get(const blob_key& key, std::uint64_t size_bytes);
  result<void> put(const blob_key& key, std::string bytes);

private:
  result<std::unique_ptr<server_rpc>> take();
  void give_back(std::unique_ptr<server_rpc> client);

  const environment env_;
  data_peer peer_;
  duration reply_max_;
  std::mutex mutex_{};
  std::vector<std::unique_ptr<server_rpc>> idle_{};
};

} // namespace troupe
