#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/shards/cow_buffer.hpp>
#include <troupe/actors/shards/ledger.hpp>
#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/core/step_host.hpp>

namespace troupe {

/// A version of a shard. Never changes.
struct shard_snapshot {
  tensor values{};
  std::uint64_t version = 0;
};

/// All of a shard that a checkpoint keeps, as one version. Never changes.
struct shard_state {
  tensor values{};
  std::vector<tensor> slots{}; ///< those of `slots_of` the optimizer, in its order
  std::uint64_t applies = 0;   ///< updates applied through the optimizer: Adam's t
  std::uint64_t version = 0;
  std::optional<float> rate{}; ///< the learning rate that was set by hand; none: the schedule's
};

/// Answer to a mutating operation on one shard.
struct mutation_answer {
  bool duplicate = false;    ///< nothing changed: it was applied before, or its closure is settled
  std::uint64_t version = 0; ///< of the shard, after it
  TROUPE_FIELDS(mutation_answer, duplicate, version)
};

/// The part of one mutating call that one shard gets.
struct mutation_piece {
  variable_id variable{};
  shard_index shard{};
  op_key key{};
  attempt_no attempt{}; ///< for traces only
  mutation_kind kind = mutation_kind::apply;
  bool at_least_once = false; ///< past the ledger: applied as often as it comes
  /// Dense: the shard's own rows. With indices: [n] + row shape. `set_learning_rate`: one f32.
  tensor values{};
  /// i64 [n], rows counted from the shard's first. Undefined when dense; n = 0 makes an empty
  /// piece, which counts, so that version and t stay alike on all shards of a variable, and changes
  /// no row (but by Adam that is not lazy, to whom it is a gradient of zeros).
  tensor indices{};
};

/// Follows shards that are being made, from other threads.
struct shard_making {
  std::atomic<std::uint64_t> made_bytes{0}; ///< grows while it goes on
  std::atomic<bool> unwanted{false};        ///< set: it ends as `cancelled`
  /// Called on the thread that makes them, with the bytes of each piece. May be empty.
  std::function<void(std::uint64_t bytes)> made_piece{};
};

/// The gate to a shard's changes: asked under the shard's lock, so that once a fence is set and the
/// locks were taken once, nothing fenced is applied any more.
class piece_gate {
public:
  virtual ~piece_gate() = default;
  /// The reason why `piece`, sent by `from`, must be refused; none when it may pass.
  virtual std::optional<failure> refuse(const mutation_piece& piece, const origin& from) const = 0;
};

/// A shard of a variable: rows, optimizer slots, counters, ledger. Thread-safe: one mutex; a dense
/// read holds it for some 50 ns, an update for as long as its arithmetic takes.
///
/// Invariants: each (closure, op_no) changes the shard at most once; a piece is applied whole or
/// not at all; `version` counts the operations applied, `applies` those of kind `apply`. Errors
/// name variable and shard, what was expected and what was given.
class shard {
public:
  /// The shard with its initial rows (kernels/random_init) and slots. `invalid_argument` for a
  /// specification that cannot be: rows out of order, an index past the shards, an optimizer for
  /// integers. `out_of_memory` names the bytes. `how` may be null.
  static result<std::shared_ptr<shard>> create(std::shared_ptr<const variable_spec> spec,
                                               shard_index index, shard_making* how = nullptr);

  const variable_spec& spec() const { return *spec_; }
  shard_index index() const { return index_; }
  std::int64_t rows() const { return rows_; }
  /// The shard's shape: [rows] + row shape; empty for a scalar.
  const shape_t& shape() const { return shape_; }
  /// Bytes of values and slots, without spare buffers.
  std::size_t size_bytes() const;

  /// The values as they are now, shared and immutable.
  shard_snapshot read();
  /// Copies rows `rows` (from the shard's first, any order, repeats allowed) one after the other
  /// into `to`. All of one version. `out_of_range` names the row; `invalid_argument` when `to` has
  /// another size.
  result<std::uint64_t> gather(std::span<const std::int64_t> rows, mutable_bytes to);
  /// Applies the piece, or drops it as the ledger says. Nothing changes when it fails, nor when it
  /// throws std::bad_alloc.
  result<mutation_answer> mutate(const mutation_piece& piece, const origin& from = {},
                                 const piece_gate* gate = nullptr,
                                 ledger_verdict* verdict = nullptr);

  void settle(term_no term, std::uint64_t highest, std::span<const std::uint64_t> unsettled);
  /// Returns once no operation that began before is still running.
  void barrier();

  /// Values, slots and counters of one version.
  shard_state state();
  /// Replaces values, slots, t and the learning rate that was set by hand (none: the optimizer's
  /// schedule is back in force); counts as one change of version; the ledger stays. No slots at
  /// all: they start anew. Errors as `check_restore`; nothing has changed then.
  result<void> restore(const tensor& values, std::span<const tensor> slots, std::uint64_t applies,
                       std::optional<float> rate = {});
  /// Whether `restore` takes values and `slots` slots of that type and shape: `invalid_argument`,
  /// `dtype_mismatch`, `shape_mismatch`, naming what was expected.
  result<void> check_restore(troupe::dtype type, const shape_t& shape, std::size_t slots,
                             std::optional<float> rate = {}) const;

  /// The learning rate that the next update will use.
  float learning_rate();
  std::size_t ledger_size();

private:
  shard(std::shared_ptr<const variable_spec> spec, shard_index index);
  std::string label() const;
  failure complaint(errc code, mutation_kind kind, const std::string& what) const;
  result<void> check(const mutation_piece& piece) const;
  result<void> check_indices(const mutation_piece& piece) const;
  result<void> check_restored(const std::string& what, troupe::dtype type,
                              const shape_t& shape) const;
  bool start(shard_making* how);
  bool start_values(shard_making* how);
  bool start_slots(shard_making* how = nullptr);
  void set_rate(std::optional<float> rate);
  void change(const mutation_piece& piece);
  template <class T>
  void apply_dense(const tensor& gradient);
  template <class T>
  void apply_rows(const tensor& values, std::span<const std::int64_t> rows);
  template <class T>
  void assign_with(const mutation_piece& piece);
  template <class T>
  void scatter_with(const mutation_piece& piece);
  void copy_rows(const mutation_piece& piece);

  std::shared_ptr<const variable_spec> spec_;
  shard_index index_;
  std::int64_t rows_ = 0;
  std::int64_t row_size_ = 0;
  shape_t shape_{};

  std::mutex mutex_{};
  cow_buffer values_{};
  std::vector<cow_buffer> slots_{};
  optimizer_spec optimizer_{};  // its learning rate can be replaced
  std::optional<float> rate_{}; // by this one
  std::uint64_t version_ = 0;
  std::uint64_t applies_ = 0;
  ledger ledger_{};
  std::vector<std::size_t> order_{};        // scratch of apply_rows
  std::vector<std::int64_t> unique_rows_{}; // scratch of apply_rows
  std::vector<std::byte> summed_{};         // scratch of apply_rows
};

} // namespace troupe
