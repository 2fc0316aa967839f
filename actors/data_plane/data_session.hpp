#pragma once

#include <memory>
#include <string>

#include <troupe/actors/data_plane/parameter_protocol.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/limits.hpp>

namespace troupe {

/// The peer that a thread dials, and the thread's own identity.
struct data_peer {
  std::string address{};
  std::string cluster{};
  std::string token{};    ///< shared secret; empty: none
  origin self{};          ///< task and incarnation of the dialler
  incarnation receiver{}; ///< the server's; counter 0: whoever is there
  term_no term{};
  std::uint64_t frame_bytes_max = limits::frame_bytes; ///< bulk of one frame, in both directions
};

/// A channel to a server after its welcome, with the frame codec on both sides. One thread.
class data_session {
public:
  /// Dials, says hello and waits for the welcome on the calling thread. `connect_failed`,
  /// `deadline`, `connection_lost`; or why the server refused: `wrong_peer`, `fenced`,
  /// `superseded`, `try_again`, naming the address.
  static result<std::unique_ptr<data_session>> open(const environment& env, const data_peer& peer,
                                                    time_point deadline);

  channel& wire() { return *wire_; }
  frame_reader& in() { return in_; }
  frame_writer& out() { return out_; }
  const incarnation& server() const { return server_; }
  std::uint64_t next_request() { return ++request_; }
  /// Bytes that went out and came in so far: as long as they grow, the server works.
  std::uint64_t moved_bytes() const { return out_.sent_bytes() + in_.received_bytes(); }

private:
  data_session(std::unique_ptr<channel> wire, std::uint64_t frame_bytes_max);
  result<void> greet(const environment& env, const data_peer& peer, time_point deadline);

  std::unique_ptr<channel> wire_;
  frame_reader in_;
  frame_writer out_;
  incarnation server_{};
  std::uint64_t request_ = 0;
};

} // namespace troupe
