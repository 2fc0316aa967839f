#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/sharding/row_owner.hpp>
#include <troupe/strategies/sharding/sparse_ids.hpp>

/// Look-ups in tables whose rows are spread over servers: only the rows asked for travel, each
/// once. Pure functions; any thread. Public calls throw `troupe::error`. Source:
/// tf.nn.embedding_lookup and its sparse kin.
namespace troupe {

// --- dense look-up
// ----------------------------------------------------------------------------------------------

/// Dtype, shape and shards of a table.
struct embedding_table {
  dtype type = dtype::f32;
  shape_t shape{};                  ///< rank >= 1; axis 0: rows
  std::vector<shard_spec> shards{}; ///< checked to be a div split unless empty
};
/// The table that a variable is.
embedding_table table_of(const variable_spec& spec);

/// Gives the rows `ids` (global, each once, ascending) of a table: [ids.size()] + row shape.
using gather_unique_rows = std::function<tensor(std::span<const std::int64_t> ids)>;

/// Makes a gather of the whole table from a gather of shards: one call for each shard that owns a
/// row, never the whole table. Rows come in the order asked.
gather_unique_rows by_shard(const embedding_table& table, gather_shard_rows gather);

/// Rows of a table for `ids` (i64 or i32, any rank, duplicates allowed): shape(ids) + row shape, in
/// the order of `ids`. `max_norm`: longer rows are scaled to that L2 norm. Throws
/// `invalid_argument` for a table without rows and a negative `max_norm`, `out_of_range` for an id,
/// `dtype_mismatch` for ids of another dtype, `mismatch` for shards that are not a div split, and
/// what `gather` throws.
tensor embedding_lookup(const tensor& ids, const embedding_table& table,
                        const gather_unique_rows& gather, std::optional<float> max_norm = {});

// --- sparse look-up
// ---------------------------------------------------------------------------------------------

/// How rows of a bag are combined.
struct sparse_lookup_options {
  combiner how = combiner::mean;
  std::optional<float>
    max_norm{}; ///< rows longer than this are scaled to it before they are combined
};

/// Looks up bags of ids and combines the rows of each: dense_shape without its last axis + row
/// shape; zeros for an empty bag. `weights`: f32 [n] or undefined for 1 each. Half-precision tables
/// are combined in f32 and the result rounded once. A row is asked for once, however many entries
/// name it. Throws as `embedding_lookup`, and `shape_mismatch`, `dtype_mismatch` for the parts of
/// `ids` and for `weights`, `dtype_mismatch` for a table of integers.
tensor embedding_lookup_sparse(const sparse_ids& ids, const tensor& weights,
                               const embedding_table& table, const gather_unique_rows& gather,
                               const sparse_lookup_options& options = {});

/// `embedding_lookup_sparse` without entries whose id is negative or, unless the combiner is sum,
/// whose weight is not positive. A bag left empty gives row `default_id`, or zeros without one.
tensor safe_embedding_lookup_sparse(const sparse_ids& ids, const tensor& weights,
                                    const embedding_table& table, const gather_unique_rows& gather,
                                    const sparse_lookup_options& options = {},
                                    std::optional<std::int64_t> default_id = {});

// --- gradients
// --------------------------------------------------------------------------------------------------

/// Gradient of some rows: what `mutation{apply, values, indices}` takes.
struct sparse_gradient {
  tensor indices{}; ///< i64 [n], ascending, each once
  tensor values{};  ///< [n] + row shape
};

/// Gradient of `embedding_lookup` (without max_norm) for the table, from `upstream`: shape(ids) +
/// row shape, f32 or f64. Rows that were asked for several times get the sum. Throws
/// `shape_mismatch`, `dtype_mismatch`.
sparse_gradient embedding_lookup_gradient(const tensor& ids, const tensor& upstream);

/// Gradient of `embedding_lookup_sparse` (without max_norm) for the table, from `upstream`: one row
/// per bag, f32 or f64. Throws `shape_mismatch`, `dtype_mismatch`.
sparse_gradient embedding_lookup_sparse_gradient(const sparse_ids& ids, const tensor& weights,
                                                 const tensor& upstream, combiner how);

} // namespace troupe
