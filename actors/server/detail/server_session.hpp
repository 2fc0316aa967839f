#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/data_plane/parameter_protocol.hpp>
#include <troupe/actors/server/detail/server_admission.hpp>
#include <troupe/actors/server/server_event_loop_options.hpp>
#include <troupe/actors/support/channel_loop.hpp>
#include <troupe/core/environment.hpp>

namespace troupe {

/// A channel of a `server_event_loop`: reads its frames, works on the store and the blobs, answers.
/// On the loop's thread. A frame that breaks the protocol is answered by a refusal, and ends the
/// channel.
class server_session : public served_channel {
public:
  /// What all sessions of an event loop share; outlives them.
  struct context {
    const environment& env;
    const server_event_loop_options& options;
    const server_admission& admission;
    tensor_pool& pool;
  };

  /// Waits for its hello from now on.
  server_session(std::unique_ptr<channel> wire, const context& shared);

  channel& wire() { return *wire_; }
  void close() { wire_->close(); }
  /// Serves some frames. True when there is more to do without waiting. `now`: of the loop's
  /// turn.
  bool serve(time_point now);
  channel_wait wait() const;
  /// Ends if it would not be let in any more: the server has a new incarnation, or the sender was
  /// fenced since its hello.
  void check_again();

private:
  struct rows_wanted;

  bool serve_frames();
  void flush();
  bool on_broken(const failure& why);
  result<void> take(frame_event event);

  // where a frame's bulk goes: checked before anything is allocated
  result<void> place_bulk();
  result<void> place_push(std::vector<mutable_bytes>& parts);
  result<void> place_rows(std::vector<mutable_bytes>& parts);
  result<void> place_blob(std::vector<mutable_bytes>& parts);
  result<void> place_restored(std::vector<mutable_bytes>& parts);

  // what each kind of frame asks for
  result<void> handle();
  result<void> answer_question(data_kind kind);
  result<void> on_hello();
  result<void> on_read();
  result<void> on_gather();
  result<void> on_mutate();
  result<mutation_answer> mutate(const mutation_piece& piece);
  result<void> on_put_blob();
  result<void> on_get_blob();
  result<void> on_drop_blob();
  result<void> on_read_snapshot();
  result<void> on_restore();
  result<void> on_stats();
  result<std::vector<rows_wanted>> find_rows(const gather_meta& meta) const;
  bool gather_in_place(std::span<const rows_wanted> from);
  blocks_meta collect_rows(std::span<const rows_wanted> from, std::vector<bulk_part>& bulk);

  void answer(data_kind kind, std::string meta, std::vector<bulk_part> bulk = {});
  void answer_blocks(data_kind kind, blocks_meta meta, std::vector<bulk_part> bulk);
  void answer_done(result<void> how);
  void answer_no_memory();
  void finish_refused(failure why);
  void end_within(duration patience);

  const environment& env_;
  const server_event_loop_options& options_;
  const server_admission& admission_;
  tensor_pool& pool_;

  std::unique_ptr<channel> wire_;
  frame_reader in_;
  frame_writer out_;
  origin from_{};    ///< of the hello
  term_no term_{};   ///< of the hello
  incarnation as_{}; ///< who this server was when it welcomed it
  bool welcomed_ = false;
  bool deaf_ = false;        ///< the peer takes nothing any more
  bool ending_ = false;      ///< what is queued goes out, then it ends
  time_point until_ = never; ///< when a stranger or one that ends is dropped

  /// The frame that is coming in: where its bulk is staged.
  bool placed_ = false;
  mutate_meta push_{}; ///< a push that stays in the channel's memory
  std::vector<mutation_piece> pieces_{};
  std::vector<tensor> tensors_{};
  std::string blob_{};
  bool receiving_push_ = false;
  bool no_memory_ = false; ///< its bulk passes by, and it is told so
};

} // namespace troupe
