#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>
#include <vector>

#include <troupe/actors/shards/shard.hpp>
#include <troupe/core/environment.hpp>

namespace troupe {

/// Totals of a server since its start, and what it holds now.
struct store_stats {
  std::uint64_t pushes_applied = 0;     ///< operations, counted on each shard
  std::uint64_t duplicates_dropped = 0; ///< operations that came again
  std::uint64_t settled_dropped = 0;    ///< operations of closures that had ended
  std::uint64_t refused = 0; ///< operations of fenced senders or older terms, and channels that
                             ///< strangers opened or whose frames broke the grammar
  std::uint64_t reads = 0;   ///< dense reads and gathers, counted on each shard
  std::uint64_t bytes = 0;   ///< values and slots
  std::uint64_t shards = 0;
  TROUPE_FIELDS(store_stats, pushes_applied, duplicates_dropped, settled_dropped, refused, reads,
                bytes, shards)
};

/// A part of a shard as it stood at a snapshot.
struct snapshot_piece {
  tensor rows{};
  std::uint64_t applies = 0;
  std::optional<float> rate{}; ///< the learning rate that was set by hand
};

/// The part of a snapshot that belongs to one shard.
struct snapshot_entry {
  variable_id variable{};
  shard_index shard{};
  std::uint32_t slots = 0;
  std::uint64_t applies = 0;
  std::uint64_t version = 0;
  TROUPE_FIELDS(snapshot_entry, variable, shard, slots, applies, version)
};

/// All shards of one parameter server. Any thread: threads of the same process use it directly, a
/// server event loop serves it to others, the parameter_server actor creates, settles, fences and
/// takes snapshots. A thread may keep a shard it found; a shard that was dropped lives on until the
/// last such thread lets go, without being reachable.
///
/// Marks: server.duplicate_dropped, server.settled_dropped, server.fenced_refused,
/// server.old_term_dropped. Events: what changed it, for checkers.
class shard_store final : private piece_gate {
public:
  /// Snapshots kept at a time.
  static constexpr std::size_t snapshots_max = 4;

  /// `trace` may be null; it outlives the store.
  explicit shard_store(tracer* trace = nullptr) : trace_{trace} {}
  shard_store(const shard_store&) = delete;
  shard_store& operator=(const shard_store&) = delete;

  // -- shards
  // --------------------------------------------------------------------------------------------------------

  /// Makes a shard. Idempotent by (id, shard); `mismatch` names both specifications when they
  /// differ. False: it was there. Other errors as `shard::create`; `how` may be null.
  result<bool> create(const variable_spec& spec, shard_index index, shard_making* how = nullptr);
  /// Makes all shards of `specs` that server `server` holds, or none: where one can't be had, those
  /// that this call made go again.
  result<void> create_all(const std::vector<variable_spec>& specs, std::uint32_t server,
                          shard_making* how = nullptr);
  /// Forgets all shards of the variable; none is no error.
  void drop(variable_id variable);
  /// Forgets everything but fences and terms.
  void clear();
  /// The shard of those numbers; null when there is none.
  std::shared_ptr<shard> find(variable_id variable, shard_index index) const;
  /// The shard of those numbers; `unknown_variable` names them.
  result<std::shared_ptr<shard>> get(variable_id variable, shard_index index) const;
  /// Changes whenever a shard that somebody found may have been forgotten.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  /// All shards, by (variable, shard).
  std::vector<std::shared_ptr<shard>> all() const;

  // -- the data path
  // -------------------------------------------------------------------------------------------------

  result<shard_snapshot> read(variable_id variable, shard_index index);
  /// Copies rows of a shard: see `shard::gather`. `unknown_variable`.
  result<std::uint64_t> gather(variable_id variable, shard_index index,
                               std::span<const std::int64_t> rows, mutable_bytes to);
  /// Applies a piece to its shard. `fenced` and `superseded` besides the shard's own errors.
  /// `from`: task and incarnation of the sender.
  result<mutation_answer> mutate(const mutation_piece& piece, const origin& from);
  /// `mutate` for a thread that found the shard before.
  result<mutation_answer> mutate(shard& at, const mutation_piece& piece, const origin& from);
  /// Reads a shard that the thread found before, and counts the read.
  shard_snapshot read(shard& at);
  result<std::uint64_t> gather(shard& at, std::span<const std::int64_t> rows, mutable_bytes to);

  // -- orders of the coordinator
  // -------------------------------------------------------------------------------------

  /// Obeys `term` from now on. A term is granted once: to ask again is harmless for the same
  /// `holder` (the asker's nonce) and `superseded` for another; so is any term below the highest
  /// granted, which the text names.
  result<void> grant_term(term_no term, std::uint64_t holder = 0);
  /// Counts a channel that the thread closed for what came through it.
  void note_refused() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }
  /// The highest term granted; operations of lower ones are refused.
  term_no term() const { return static_cast<term_no>(term_.load(std::memory_order_acquire)); }
  /// `ledger::settle` on every shard; `superseded` for a lower term. On return nothing of the
  /// settled closures is applied any more.
  result<void> settle(term_no term, std::uint64_t highest,
                      std::span<const std::uint64_t> unsettled);
  /// Refuses what incarnations of `task` up to `counter` send. On return nothing of theirs is
  /// applied any more.
  void fence(task_id task, std::uint32_t counter);
  /// Whether an incarnation is admitted: `fenced` when it is fenced.
  result<void> admit(task_id task, const incarnation& inc) const;

  // -- snapshots
  // ----------------------------------------------------------------------------------------------------------

  /// Keeps values, slots and counters of all shards as they are now, until `drop_snapshot`.
  /// Idempotent. `wrong_state` when `snapshots_max` are kept.
  result<std::vector<snapshot_entry>> take_snapshot(snapshot_id snapshot);
  /// A part of a snapshot: 0 the values, 1 + i slot i. `not_found` names the snapshot.
  result<tensor> snapshot_part(snapshot_id snapshot, variable_id variable, shard_index index,
                               std::uint32_t part) const;
  /// `snapshot_part` with the shard's count of updates and learning rate at the snapshot.
  result<snapshot_piece> read_snapshot(snapshot_id snapshot, variable_id variable,
                                       shard_index index, std::uint32_t part) const;
  void drop_snapshot(snapshot_id snapshot);
  /// Restores a shard: see `shard::restore`.
  result<void> restore(variable_id variable, shard_index index, const tensor& values,
                       std::span<const tensor> slots, std::uint64_t applies,
                       std::optional<float> rate = {});
  /// Whether a shard takes such values: see `shard::check_restore`; `unknown_variable` when the
  /// shard is not there.
  result<void> check_restore(variable_id variable, shard_index index, dtype type,
                             const shape_t& shape, std::size_t slots,
                             std::optional<float> rate = {}) const;

  store_stats stats() const;

private:
  using shard_key = std::pair<variable_id, shard_index>;
  struct kept_snapshot {
    std::map<shard_key, shard_state> parts{};
  };

  std::optional<failure> refuse(const mutation_piece& piece, const origin& from) const override;
  void mark(std::string_view id) const;
  void event(std::string_view id, std::initializer_list<trace_field> fields) const;
  void trace_applied(const mutation_piece& piece, const origin& from, std::uint64_t version) const;

  tracer* trace_;
  mutable std::shared_mutex map_mutex_{};
  std::map<shard_key, std::shared_ptr<shard>> shards_{};
  std::map<snapshot_id, kept_snapshot> snapshots_{};
  std::atomic<std::uint64_t> generation_{0};

  mutable std::shared_mutex gate_mutex_{};
  std::map<task_id, std::uint32_t> fences_{}; // highest fenced counter
  std::atomic<bool> any_fence_{false};
  std::atomic<std::uint32_t> term_{0};
  term_no granted_{};
  std::uint64_t holder_ = 0;
  bool any_grant_ = false;

  std::atomic<std::uint64_t> applied_{0};
  std::atomic<std::uint64_t> duplicates_{0};
  std::atomic<std::uint64_t> settled_{0};
  mutable std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> reads_{0};
};

} // namespace troupe
