#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <troupe/actors/data_plane/data_session.hpp>
#include <troupe/actors/data_plane/server_link.hpp>

namespace troupe {

/// A link to a server in another process: frames over a channel that the calling thread drives.
/// Rows arrive straight in the memory that the reader gave; pushes are sent from where their
/// tensors lie. Errors of `pump`: `connection_lost`, `bad_frame`, `too_large`; the link is at its
/// end then.
class remote_server_link final : public server_link {
public:
  /// A window holds this many pushes or bytes, whichever is less; one push always fits.
  static constexpr std::size_t window_pushes_max = 2;
  static constexpr std::uint64_t window_bytes_max = std::uint64_t{64} << 20;

  /// Dials and greets on the calling thread; errors as `data_session::open`.
  static result<std::unique_ptr<server_link>> connect(const environment& env, const data_peer& peer,
                                                      time_point deadline);
  explicit remote_server_link(std::unique_ptr<data_session> session)
    : session_{std::move(session)} {}

  bool copies() const override { return true; }
  result<void> start_reads(std::span<const read_part> parts) override;
  result<void> start_gathers(std::span<gather_part> parts) override;
  result<void> start_mutations(std::span<const mutation_piece> pieces, const origin& from) override;
  result<void> pump() override;
  bool reads_pending() const override { return owned_reads_ > 0; }
  bool pushes_pending() const override { return owned_pushes_ > 0; }
  bool may_push(std::uint64_t bytes) const override;
  failure take_read_failure() override { return std::exchange(read_refusal_, failure{}); }
  failure take_push_failure() override { return std::exchange(push_refusal_, failure{}); }
  void disown_reads() override;
  void disown_pushes() override;
  std::uint64_t moved_bytes() const override { return session_->moved_bytes(); }
  channel* wire() override { return &session_->wire(); }
  bool wants_send() const override { return !session_->out().empty(); }

private:
  /// A question without its answer.
  struct pending {
    std::uint64_t request = 0;
    data_kind answer = data_kind::read_reply;
    bool owned = true;     // somebody waits for it
    std::size_t items = 0; // blocks or answers expected
    std::uint64_t push_bytes = 0;
    bool ends_push = false;           // the last frame of a push
    std::vector<tensor> into{};       // where the rows go, kept until they came
    std::vector<row_block*> blocks{}; // get their versions; valid while owned
  };

  result<void> ask(outgoing_frame frame, pending what);
  result<void> place_bulk();
  result<void> take_answer();
  void take_blocks(pending& what, blocks_meta meta);
  void take_acks(const pending& what, ack_meta meta);

  std::unique_ptr<data_session> session_;
  std::deque<pending> pending_{};
  std::size_t owned_reads_ = 0;
  std::size_t owned_pushes_ = 0;
  std::size_t pushes_ = 0; // not answered whole, disowned ones included
  std::uint64_t push_bytes_ = 0;
  failure read_refusal_{};
  failure push_refusal_{};
};

} // namespace troupe
