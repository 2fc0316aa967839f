#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <troupe/actors/shards/shard_store.hpp>
#include <troupe/core/data_port.hpp>
#include <troupe/core/step_host.hpp>

namespace troupe {

/// A shard of a variable, by number.
struct shard_ref {
  variable_id variable{};
  shard_index shard{};
  friend auto operator<=>(const shard_ref&, const shard_ref&) = default;
  TROUPE_FIELDS(shard_ref, variable, shard)
};

/// A shard to be read into `to`. A link that copies finds memory of the shard's shape in
/// `to->values`; another replaces it. The rows are the caller's.
struct read_part {
  shard_ref from{};
  row_block* to = nullptr;
};

/// Rows of a shard, counted from its first (i64 [n]), to be copied one after the other into `to`
/// ([n] + row shape).
struct gather_part {
  shard_ref from{};
  tensor rows{};
  tensor to{};
};

/// A thread's link to one parameter server. One thread; nothing blocks: what was started goes on in
/// `pump`. In order: a read that is started after a push sees it.
///
/// Errors: a failure of `start_...` or `pump` ends the link, refusals of what was asked don't and
/// come from `take_read_failure` and `take_push_failure`.
class server_link {
public:
  virtual ~server_link() = default;

  /// True when reads need memory to be copied to.
  virtual bool copies() const = 0;
  /// Starts reads; `parts` and what they point to stay until `reads_pending` is false or
  /// `disown_reads` was called.
  virtual result<void> start_reads(std::span<const read_part> parts) = 0;
  /// Starts reads of rows; `parts` stay as for `start_reads`.
  virtual result<void> start_gathers(std::span<gather_part> parts) = 0;
  /// Sends pieces, in order, as sent by `from`. @pre `may_push(bytes)`. The tensors are kept until
  /// they are out.
  virtual result<void> start_mutations(std::span<const mutation_piece> pieces,
                                       const origin& from) = 0;

  /// Moves what can be moved now.
  virtual result<void> pump() = 0;
  virtual bool reads_pending() const = 0;
  /// Whether answers to pushes are missing.
  virtual bool pushes_pending() const = 0;
  /// Whether the window takes another push of `bytes`. One always fits an empty window.
  virtual bool may_push(std::uint64_t bytes) const = 0;
  /// The first refusal of a read since the last call; `code` none when there was none.
  virtual failure take_read_failure() = 0;
  /// The first refusal of a push since the last call; `code` none when there was none.
  virtual failure take_push_failure() = 0;
  /// Gives up pending reads: answers still come, but go nowhere.
  virtual void disown_reads() = 0;
  virtual void disown_pushes() = 0;

  /// Grows as long as the server takes questions or sends answers.
  virtual std::uint64_t moved_bytes() const = 0;

  /// The channel to wait on; null when there is nothing to wait for.
  virtual channel* wire() = 0;
  virtual bool wants_send() const = 0;
};

/// A link to a server in this process: the calling thread takes the shard's lock and does the work
/// itself.
class local_server_link final : public server_link {
public:
  explicit local_server_link(std::shared_ptr<shard_store> store) : store_{std::move(store)} {}

  bool copies() const override { return false; }
  result<void> start_reads(std::span<const read_part> parts) override;
  result<void> start_gathers(std::span<gather_part> parts) override;
  result<void> start_mutations(std::span<const mutation_piece> pieces, const origin& from) override;
  result<void> pump() override { return {}; }
  bool reads_pending() const override { return false; }
  bool pushes_pending() const override { return false; }
  bool may_push(std::uint64_t) const override { return true; }
  failure take_read_failure() override { return std::exchange(read_refusal_, failure{}); }
  failure take_push_failure() override { return std::exchange(push_refusal_, failure{}); }
  void disown_reads() override {}
  void disown_pushes() override {}
  std::uint64_t moved_bytes() const override { return 0; }
  channel* wire() override { return nullptr; }
  bool wants_send() const override { return false; }

private:
  shard* find(const shard_ref& at, failure& refusal);

  std::shared_ptr<shard_store> store_;
  std::uint64_t generation_ = 0;
  std::map<shard_ref, std::shared_ptr<shard>> found_{};
  failure read_refusal_{};
  failure push_refusal_{};
};

} // namespace troupe
