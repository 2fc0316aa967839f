#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/flat_fields.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/core/optimizers.hpp>
#include <troupe/core/tensor.hpp>

/// Plain descriptions that travel: how a variable starts, how it is updated (optimizers.hpp), where
/// its shards are. The functions that interpret them are in `kernels/`.
namespace troupe {

enum class initializer_kind : std::uint8_t {
  zeros = 0,
  ones = 1,
  constant = 2,         ///< a
  uniform = 3,          ///< [a, b)
  normal = 4,           ///< mean a, standard deviation b
  truncated_normal = 5, ///< mean a, standard deviation b, redrawn beyond two deviations
  glorot_uniform = 6,   ///< by fan-in and fan-out of the whole variable's shape
  he_normal = 7,        ///< by fan-in
  identity = 8,         ///< 1 where row == column
};

/// How a variable's rows start. Draws are keyed by (seed, name, global row), so the initial values
/// do not depend on the split into shards.
struct initializer_spec {
  initializer_kind kind = initializer_kind::zeros;
  float a = 0.0f;
  float b = 1.0f;
  std::uint64_t seed = 0;
  TROUPE_FLAT_FIELDS(initializer_spec, kind, a, b, seed)
};

/// Rows [row_begin, row_end) of a variable, on one server. A scalar is one shard of one row.
struct shard_spec {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::uint32_t server = 0;
  friend bool operator==(const shard_spec&, const shard_spec&) = default;
  TROUPE_FIELDS(shard_spec, row_begin, row_end, server)
};

/// All that any process needs to know of a variable. Shards are in row order and cover all rows.
struct variable_spec {
  variable_id id{};
  std::string name{};
  troupe::dtype type = dtype::f32;
  shape_t shape{};
  std::vector<shard_spec> shards{};
  initializer_spec initializer{};
  optimizer_spec optimizer{};
  TROUPE_FIELDS(variable_spec, id, name, type, shape, shards, initializer, optimizer)

  /// Rows along axis 0; 1 for a scalar.
  std::int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  /// Elements in a row.
  std::int64_t row_size() const {
    return shape.empty() ? 1 : count_of(shape) / (shape[0] > 0 ? shape[0] : 1);
  }
  bool is_sharded() const { return shards.size() > 1; }
  /// The name of a shard: "w" or, of several shards, "w/part_1".
  std::string shard_name(std::size_t shard) const {
    return is_sharded() ? name + "/part_" + std::to_string(shard) : name;
  }
};

} // namespace troupe
