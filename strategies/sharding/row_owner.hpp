#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>

/// The map from rows to shards. Pure functions; any thread. The div split gives shard i of n
/// contiguous rows; the first rows % n shards have one row more. Source: TensorFlow's
/// ShardedVariable.
namespace troupe {

/// A shard, and a row's number in it.
struct row_owner {
  std::uint32_t shard = 0;
  std::int64_t local_row = 0;
  friend bool operator==(const row_owner&, const row_owner&) = default;
};

/// Owner of row `id` in the div split of `rows` rows over `shards` shards. `out_of_range` names the
/// id; `invalid_argument` when `shards` is 0. Constant time.
result<row_owner> owner_of_row(std::int64_t rows, std::uint32_t shards, std::int64_t id);

/// Whether the shards are the div split of `rows` rows, as `owner_of_row` assumes. `mismatch` names
/// the first shard that is not.
result<void> check_div_layout(std::int64_t rows, std::span<const shard_spec> shards);

/// Whether `indices` can address rows: i64, rank 1, each in [0, rows). `dtype_mismatch`,
/// `shape_mismatch`, `out_of_range` naming the position and the id.
result<void> check_row_indices(const tensor& indices, std::int64_t rows);

/// Rows of one shard that were asked for: `local_rows[i]` belongs at `positions[i]` of the whole.
struct shard_gather {
  std::uint32_t shard = 0;
  std::vector<std::int64_t> local_rows{};
  std::vector<std::int64_t> positions{};
};

/// Groups ids by owning shard: shards ascending, ids in the order given, only shards that own one.
/// Errors as `check_div_layout` and `owner_of_row`.
result<std::vector<shard_gather>> group_by_owner(std::span<const std::int64_t> ids,
                                                 std::int64_t rows,
                                                 std::span<const shard_spec> shards);

/// `group_by_owner` for shards with any row counts, by search. `out_of_range` when no shard has the
/// row.
result<std::vector<shard_gather>> group_by_range(std::span<const std::int64_t> ids,
                                                 std::span<const shard_spec> shards);

/// Gives rows of one shard, in the order asked: [local_rows.size()] + row shape.
using gather_shard_rows =
  std::function<tensor(std::uint32_t shard, std::span<const std::int64_t> local_rows)>;

/// Calls `gather` once per group and returns all rows in the order asked: [total] + row shape,
/// `total` being the ids that the groups came from. Throws `shape_mismatch`, `dtype_mismatch` when
/// a shard answers with something else.
tensor gather_groups(std::span<const shard_gather> groups, dtype type, const shape_t& row_shape,
                     std::int64_t total, const gather_shard_rows& gather);

} // namespace troupe
