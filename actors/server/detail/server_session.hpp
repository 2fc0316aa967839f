#pragma once

#include <memory>
#include <vector>

#include <troupe/actors/server/server_lane.hpp>

namespace troupe {

/// A channel of a server lane.
struct server_lane::session {
  session(std::unique_ptr<channel> c, std::uint64_t frame_bytes_max)
    : wire{std::move(c)},
      in{data_limits(frame_bytes_max)},
      out{data_limits(frame_bytes_max), wire->can_damage()} {}

  std::unique_ptr<channel> wire;
  frame_reader in;
  frame_writer out;
  origin from{};    ///< of the hello
  term_no term{};   ///< of the hello
  incarnation as{}; ///< who this server was when it welcomed it
  bool welcomed = false;
  bool deaf = false;   ///< the peer takes nothing any more
  bool ending = false; ///< what is queued goes out, then it ends
  bool ended = false;
  time_point until = never; ///< when a stranger or one that ends is dropped
  bool watched = false;
  bool watched_send = false;

  /// The frame that is coming in: where its bulk is staged.
  bool placed = false;
  mutate_meta push{}; ///< a push that stays in the channel's memory
  std::vector<mutation_piece> pieces{};
  std::vector<tensor> tensors{};
  std::string blob{};
  bool receiving_push = false;
  bool no_memory = false; ///< its bulk passes by, and it is told so
};

} // namespace troupe
