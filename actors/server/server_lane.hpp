#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/data_plane/parameter_protocol.hpp>
#include <troupe/actors/shards/shard_store.hpp>
#include <troupe/actors/support/blob_table.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/limits.hpp>

namespace troupe {

struct server_lane_options {
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

/// The lane of a parameter server: accepts channels, reads frames, works on the store, answers. All
/// state machines run on the lane that calls `run`; `stop`, `fence` and `set_incarnation` are for
/// any thread.
///
/// A push is staged whole, in memory of its own or in the channel's, and applied only once all of
/// it is there and its frame's checksum held, so one that is cut short changes nothing. Frames of
/// one channel are served in order, a turn at a time. What there is no memory for fails that one
/// call, as `out_of_memory`; the channel goes on. Marks: server.push_cut_short,
/// server.fenced_refused, server.out_of_memory.
class server_lane {
public:
  server_lane(const environment& env, server_lane_options options);
  ~server_lane();
  server_lane(const server_lane&) = delete;
  server_lane& operator=(const server_lane&) = delete;

  /// Listens; the address that peers dial. Once, before `run`.
  result<std::string> open();
  /// Serves until `stop`; then closes all channels and the listener.
  void run();

  /// Ends `run`. Also before it.
  void stop();
  /// Sets this server's incarnation: a hello for another incarnation is `unavailable`. Before that,
  /// one for any incarnation in particular is told `try_again`.
  void set_incarnation(const incarnation& self);
  /// Refuses incarnations of `task` up to `counter`, closes their channels. Returns at once; the
  /// store's own fence is what keeps their pushes out.
  void fence(const task_id& task, std::uint32_t counter);
  /// Open channels, for statistics and tests.
  std::size_t channel_count() const { return channel_count_.load(); }

private:
  struct session;

  void turn();
  void accept_new();
  void accept(std::unique_ptr<channel> wire);
  bool serve(session& s);
  bool serve_frames(session& s);
  result<void> take(session& s, frame_event event);
  void answer_no_memory(session& s);
  bool drop_ended();
  void close_all();
  time_point watch(session& s);
  void take_orders();
  incarnation self();

  result<void> place_bulk(session& s);
  result<void> place_push(session& s, std::vector<mutable_bytes>& parts);
  result<void> handle(session& s);
  result<void> on_hello(session& s);
  std::optional<failure> refuse(const hello_meta& hello);
  std::optional<failure> refuse_fenced(const hello_meta& hello);
  result<void> on_read(session& s);
  result<void> on_gather(session& s);
  result<void> on_mutate(session& s);
  result<mutation_answer> mutate(const mutation_piece& piece, const origin& from);
  result<void> on_put_blob(session& s);
  result<void> on_get_blob(session& s);
  result<void> on_drop_blob(session& s);
  result<void> on_read_cut(session& s);
  result<void> on_restore(session& s);
  result<void> on_stats(session& s);
  struct rows_wanted;
  result<std::vector<rows_wanted>> find_rows(const gather_meta& meta) const;
  bool gather_in_place(session& s, std::span<const rows_wanted> from);
  blocks_meta collect_rows(session& s, std::span<const rows_wanted> from,
                           std::vector<bulk_part>& bulk);
  void answer_blocks(session& s, data_kind kind, blocks_meta meta, std::vector<bulk_part> bulk);
  void answer(session& s, data_kind kind, std::string meta, std::vector<bulk_part> bulk = {});
  void answer_done(session& s, result<void> how);
  void finish_refused(session& s, failure why);

  const environment env_;
  const server_lane_options options_;
  std::unique_ptr<channel_poller> poller_;
  std::unique_ptr<channel_listener> listener_{};
  bool listening_watched_ = false;
  std::vector<std::unique_ptr<session>> sessions_{};
  tensor_pool pool_{}; // what comes and goes is staged in it
  std::atomic<std::size_t> channel_count_{0};
  std::atomic<bool> stopped_{false};

  std::mutex orders_mutex_{}; // guards the next three; all are bounded by the number of tasks
  std::atomic<bool> any_order_{false};
  incarnation self_{};
  std::map<task_id, std::uint32_t> fences_{};
};

} // namespace troupe
