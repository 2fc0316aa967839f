#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/data_port.hpp>
#include <troupe/messages/link_codec.hpp>
#include <troupe/transport/frame.hpp>

namespace troupe {

/// The longest message on a link: that of a coordinator to a worker that joins. All others are
/// small.
inline constexpr std::uint32_t link_bytes_max = std::uint32_t{64} << 20;

constexpr frame_limits link_limits(std::uint32_t meta_bytes_max) {
  return {static_cast<std::uint8_t>(link_kind_max), meta_bytes_max, 0};
}

/// An end of a link between two processes: frames in the order sent, until it ends. Any thread
/// sends, and the first that comes writes for all that come meanwhile, right from where it is; what
/// the channel doesn't take goes out on the thread that owns the link, which also receives.
class control_link {
public:
  /// `wake`: makes the thread look at the link; any thread calls it. `queue_bytes_max`: what a peer
  /// that doesn't read may keep waiting here.
  control_link(std::unique_ptr<channel> wire, std::function<void()> wake,
               std::uint32_t receive_bytes_max, std::uint64_t queue_bytes_max);
  control_link(const control_link&) = delete;
  control_link& operator=(const control_link&) = delete;

  // -- any thread; never waits --

  /// Sends a frame. False: the link has ended, or ends with this because too much waits here.
  bool send(link_kind kind, std::uint64_t request, std::string bytes);

  // -- its thread --

  /// Writes on. `connection_lost`, or `too_large` once too much waited here.
  result<void> flush();
  /// Whether something waits for the channel to take it.
  bool blocked() const;
  /// The next frame, or nothing now. An error is final.
  result<frame_event> receive() { return in_.pump(*wire_); }
  const frame_reader& frame() const { return in_; }
  channel& wire() { return *wire_; }
  /// Takes no further frame; what was sent goes out.
  void seal();
  /// Ends the link: nothing goes out any more. The channel closes now or, when a thread writes,
  /// right after that.
  void close();

private:
  using unique_lock = std::unique_lock<std::mutex>;
  void write(unique_lock& lock);

  const std::unique_ptr<channel> wire_;
  const std::function<void()> wake_;
  const std::uint64_t queue_bytes_max_;
  frame_reader in_;
  frame_writer out_; ///< of whoever has set `writing_`
  mutable std::mutex mutex_{};
  std::vector<outgoing_frame> waiting_{};
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t left_bytes_ = 0; ///< of `out_`, when it was last seen
  bool writing_ = false;
  bool blocked_ = false;
  bool sealed_ = false;
  bool closed_ = false;
  std::optional<failure> broken_{};
};

} // namespace troupe
