#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/shards/shard_store.hpp>
#include <troupe/actors/support/blob_table.hpp>
#include <troupe/core/limits.hpp>
#include <troupe/core/time.hpp>

namespace troupe {

struct server_event_loop_options {
  std::string address = "127.0.0.1:0";  ///< to listen on; port 0 takes a free one
  std::string cluster{};                ///< a hello must name it
  std::string token{};                  ///< a hello must bear it
  std::shared_ptr<shard_store> store{}; ///< null: no parameters here
  std::shared_ptr<blob_table> blobs{};  ///< null: no blobs here
  std::uint32_t channels_max = 256;     ///< more wait until one ends
  /// Bytes of answers that a channel's peer has not taken; above this no more of its questions are
  /// read.
  std::uint64_t queued_bytes_max = std::uint64_t{64} << 20;
  std::uint64_t frame_bytes_max =
    limits::frame_bytes;              ///< bulk of one frame: what a push is staged in
  duration hello_max = limits::hello; ///< a channel without a hello is closed after that
};

} // namespace troupe
