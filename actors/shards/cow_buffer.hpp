#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/tensor.hpp>

namespace troupe {

/// An array that is handed out as immutable snapshots and yet updated in place whenever nobody
/// holds one. Not thread-safe itself (its shard locks); snapshots may be released on any thread.
///
/// A write goes to the current block when no snapshot of it is alive, else to a spare block, which
/// then becomes the current one. A block that was left behind is a spare again once its last
/// snapshot is gone, so a steady stream of reads and writes allocates nothing but a control block
/// per read-after-write.
///
/// Invariant: the bytes under a snapshot never change while it lives. Memory order: the release of
/// the last snapshot stores `held` with release, the writer loads it with acquire.
class cow_buffer {
public:
  /// Blocks kept beside the current one.
  static constexpr std::size_t spares_max = 3;

  cow_buffer() = default;
  /// Elements are not initialised.
  cow_buffer(dtype type, shape_t shape);

  dtype type() const { return type_; }
  const shape_t& shape() const { return shape_; }
  std::size_t size_bytes() const { return current_ ? current_->memory.size_bytes() : 0; }
  /// Current elements, for the owner, under its lock.
  std::span<const std::byte> bytes() const { return current_->memory.bytes(); }

  /// The current elements, shared. Costs no copy.
  tensor snapshot();

  /// Starts a write of every element: `in` are the current elements, `out` is where the next ones
  /// go; the two are the same or disjoint. `commit` must follow.
  struct span_pair {
    std::span<const std::byte> in;
    std::span<std::byte> out;
  };
  span_pair begin_write();
  /// Starts a write of some elements: the current ones, already copied when a snapshot holds them.
  /// `commit` must follow.
  std::span<std::byte> begin_partial_write();
  /// Makes what was written the current elements.
  void commit();

  /// Blocks beside the current one, for tests and statistics.
  std::size_t spare_count() const { return spares_.size(); }

private:
  struct block {
    tensor memory{};
    std::atomic<bool> held{false};
  };
  std::shared_ptr<block> take_spare();

  dtype type_ = dtype::f32;
  shape_t shape_{};
  std::shared_ptr<block> current_{};
  std::shared_ptr<block> next_{}; // between begin and commit
  std::shared_ptr<void>
    handout_{}; // owner of all snapshots of `current_`; null: none was taken since the last write
  std::vector<std::shared_ptr<block>> spares_{}; // oldest first
};

} // namespace troupe
