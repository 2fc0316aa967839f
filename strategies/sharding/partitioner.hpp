#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/sharding/placement.hpp>

/// Into how many shards a variable is cut, along axis 0, and where they go. Pure functions; any
/// thread.
namespace troupe {

/// A function (shape, dtype) -> number of parts per axis, e.g. {2, 1}: one of the partitioners
/// below or the user's own. Default constructed: no partitioner, variables stay whole.
class partitioner {
public:
  using function = std::function<std::vector<std::int64_t>(const shape_t&, dtype)>;

  partitioner() = default;
  template <class F>
  requires(
    !std::same_as<
      std::remove_cvref_t<F>,
      partitioner> && std::is_invocable_r_v<std::vector<std::int64_t>, F&, const shape_t&, dtype>)
    partitioner(F&& f) { // NOLINT: a lambda is a partitioner
    if constexpr (requires { std::string{f.describe()}; })
      name_ = f.describe();
    else
      name_ = "user partitioner";
    function_ = std::forward<F>(f);
  }

  explicit operator bool() const noexcept { return static_cast<bool>(function_); }
  /// @pre not empty. What the function returns, unchecked: `shard_count` checks it.
  std::vector<std::int64_t> operator()(const shape_t& shape, dtype type) const {
    return function_(shape, type);
  }
  /// The partitioner's name in messages: "min_size_partitioner(262144, 2)".
  const std::string& name() const noexcept { return name_; }

private:
  function function_{};
  std::string name_ = "none";
};

/// `shards` parts, at most one per row.
class fixed_shards_partitioner {
public:
  /// Throws `invalid_argument` when `shards` < 1.
  explicit fixed_shards_partitioner(std::int64_t shards);
  /// Throws `invalid_argument` for a scalar.
  std::vector<std::int64_t> operator()(const shape_t& shape, dtype type) const;
  std::string describe() const;

private:
  std::int64_t shards_;
};

/// Gives as many parts as `min_shard_bytes` goes into the variable's bytes, rounded up as
/// TensorFlow does, at most `max_shards` and one per row. So, against the name, a part has
/// `min_shard_bytes` at most (but for a row's rounding) until `max_shards` or the rows are reached.
class min_size_partitioner {
public:
  /// Throws `invalid_argument` when an argument is < 1. `bytes_per_string` is kept for parity; no
  /// element type of Troupe's is a string.
  explicit min_size_partitioner(std::int64_t min_shard_bytes = 256 << 10,
                                std::int64_t max_shards = 1, std::int64_t bytes_per_string = 16);
  /// Throws `invalid_argument` for a scalar.
  std::vector<std::int64_t> operator()(const shape_t& shape, dtype type) const;
  std::string describe() const;

private:
  std::int64_t min_shard_bytes_;
  std::int64_t max_shards_;
};

/// Gives as few parts as keep each at `max_shard_bytes` or less where rows are that small, at most
/// `max_shards`.
class max_size_partitioner {
public:
  /// Throws `invalid_argument` when an argument is < 1 (none: no limit on the shards).
  explicit max_size_partitioner(std::int64_t max_shard_bytes,
                                std::optional<std::int64_t> max_shards = std::nullopt,
                                std::int64_t bytes_per_string = 16);
  /// Throws `invalid_argument` for a scalar.
  std::vector<std::int64_t> operator()(const shape_t& shape, dtype type) const;
  std::string describe() const;

private:
  std::int64_t max_shard_bytes_;
  std::optional<std::int64_t> max_shards_;
};

/// Rows [begin, end).
struct row_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const noexcept { return end - begin; }
  friend bool operator==(const row_range&, const row_range&) = default;
};

/// The "div" split of `rows` rows into `n` contiguous shards: the first rows % n of them have one
/// row more. Throws `invalid_argument` when `n` < 1 or `rows` < 0.
std::vector<row_range> shard_rows(std::int64_t rows, std::int64_t n);

/// Number of shards of a variable: 1 without a partitioner or axis, else what `how` (may be null)
/// says, at most one per row. `invalid_argument` names the partitioner and what it returned: only
/// axis 0 may be cut, and in at least one part.
result<std::int64_t> shard_count(const shape_t& shape, dtype type, const partitioner* how);

/// Cuts and places a new variable: `shard_rows` of `shard_count` shards, each placed in turn. The
/// counter of `where` does not move when this fails. `invalid_argument` as `shard_count`, for
/// `servers` == 0 and for a shape that no tensor can have.
result<std::vector<shard_spec>> plan_shards(const shape_t& shape, dtype type,
                                            const partitioner* how, placement_policy& where,
                                            std::uint32_t servers);

/// A variable that goes where another one is: one shard on `server`; the counter does not move.
std::vector<shard_spec> plan_colocated(const shape_t& shape, std::uint32_t server);

} // namespace troupe
