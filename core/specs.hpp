#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/flat_fields.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/core/tensor.hpp>

/// Plain descriptions that travel: how a variable starts, how it is updated, where its shards are.
/// The functions that interpret them are in `kernels/`.
namespace troupe {

enum class schedule_kind : std::uint8_t {
  constant = 0,          ///< initial
  linear_decay = 1,      ///< initial until begin_step, then a line to `end` at end_step, then `end`
  exponential_decay = 2, ///< initial * rate^(t / end_step); staircase: integer quotient
  cosine_decay = 3,      ///< initial until begin_step, then half a cosine down to `end` at end_step
  piecewise_constant =
    4,              ///< values[i] for the first i with t <= boundaries[i]; the last value after all
  inverse_time = 5, ///< initial / (1 + rate * t / end_step)
};

/// A learning rate as a function of the number of updates applied before.
struct schedule_spec {
  schedule_kind kind = schedule_kind::constant;
  float initial = 1e-3f;
  float end = 0.0f;
  float rate = 1.0f;
  std::uint64_t begin_step = 0;
  std::uint64_t end_step = 1;
  bool staircase = false;
  std::vector<std::uint64_t> boundaries{}; ///< ascending, at most 8
  std::vector<float> values{};             ///< one more than boundaries
  TROUPE_FLAT_FIELDS(schedule_spec, kind, initial, end, rate, begin_step, end_step, staircase,
                     boundaries, values)
};

/// The reason why `rate` can't be a learning rate that is set by hand; none: it can.
inline std::optional<std::string> complaint_of_rate(float rate) {
  if (rate >= 0 && std::isfinite(rate))
    return std::nullopt;
  return "the rate is " + std::to_string(rate) + ", expected a finite number of at least 0";
}

enum class optimizer_kind : std::uint8_t { none = 0, sgd = 1, momentum = 2, adagrad = 3, adam = 4 };

/// How a server turns a gradient into an update. `none`: the variable takes assignments only.
struct optimizer_spec {
  optimizer_kind kind = optimizer_kind::none;
  schedule_spec learning_rate{};
  float momentum = 0.9f;            ///< momentum
  bool nesterov = false;            ///< momentum
  float beta_1 = 0.9f;              ///< adam
  float beta_2 = 0.999f;            ///< adam
  float epsilon = 1e-7f;            ///< adam, adagrad
  float initial_accumulator = 0.1f; ///< adagrad
  bool lazy = false; ///< adam: rows that a sparse gradient does not name stay as they are
  TROUPE_FLAT_FIELDS(optimizer_spec, kind, learning_rate, momentum, nesterov, beta_1, beta_2,
                     epsilon, initial_accumulator, lazy)
};

/// Number of slots that an optimizer keeps for each value: 0 (none, sgd), 1 (momentum, adagrad), 2
/// (adam: m, v).
constexpr std::uint32_t slot_count(optimizer_kind kind) {
  switch (kind) {
    case optimizer_kind::momentum:
    case optimizer_kind::adagrad: return 1;
    case optimizer_kind::adam: return 2;
    default: return 0;
  }
}

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
