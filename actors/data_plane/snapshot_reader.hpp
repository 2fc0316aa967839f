#pragma once

#include <memory>
#include <vector>

#include <troupe/actors/shards/shard_store.hpp>

namespace troupe {

/// Reads snapshots of one server and restores its shards, for checkpoints. Waits; one thread at a
/// time.
class snapshot_reader {
public:
  virtual ~snapshot_reader() = default;
  /// A part of a shard at a snapshot. `part` 0: the values; n: slot n - 1 of the optimizer.
  /// `not_found` names the snapshot or the shard.
  virtual result<snapshot_piece> read_snapshot(snapshot_id snapshot, variable_id variable,
                                               shard_index shard, std::uint32_t part) = 0;
  /// Replaces values, slots, step count and learning rate of a shard, as `shard::restore`.
  virtual result<void> restore(variable_id variable, shard_index shard, const tensor& values,
                               std::span<const tensor> slots, std::uint64_t applies,
                               std::optional<float> rate) = 0;
  /// Whether the server would take that; changes nothing.
  virtual result<void> check_restore(variable_id variable, shard_index shard, dtype type,
                                     const shape_t& shape, std::size_t slots,
                                     std::optional<float> rate) = 0;
};

/// A snapshot reader of a server in this process.
class local_snapshot_reader final : public snapshot_reader {
public:
  explicit local_snapshot_reader(std::shared_ptr<shard_store> store) : store_{std::move(store)} {}
  result<snapshot_piece> read_snapshot(snapshot_id snapshot, variable_id variable,
                                       shard_index shard, std::uint32_t part) override {
    return store_->read_snapshot(snapshot, variable, shard, part);
  }
  result<void> restore(variable_id variable, shard_index shard, const tensor& values,
                       std::span<const tensor> slots, std::uint64_t applies,
                       std::optional<float> rate) override {
    return store_->restore(variable, shard, values, slots, applies, rate);
  }
  result<void> check_restore(variable_id variable, shard_index shard, dtype type,
                             const shape_t& shape, std::size_t slots,
                             std::optional<float> rate) override {
    return store_->check_restore(variable, shard, type, shape, slots, rate);
  }

private:
  std::shared_ptr<shard_store> store_;
};

} // namespace troupe
