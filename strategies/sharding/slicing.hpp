#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/core/result.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/strategies/sharding/row_owner.hpp>

/// Indexing as in numpy, on variables whose axis 0 may be cut into shards. Two steps: a plan says
/// which rows of which shards are wanted and what to do with the other axes; applying it reads only
/// those rows. Pure functions; any thread. Source: numpy's basic indexing. Assignment through a
/// slice is not offered.
namespace troupe {

template <class T>
concept index_number = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

/// A start, stop or step: an integer, or nothing. A tensor or a float does not compile.
class slice_bound {
public:
  constexpr slice_bound() = default;
  constexpr slice_bound(std::nullopt_t) {}
  template <index_number T>
  constexpr slice_bound(T value)
    : value_{std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value)
                                                : std::numeric_limits<std::int64_t>::max()} {}
  constexpr const std::optional<std::int64_t>& value() const noexcept { return value_; }

private:
  std::optional<std::int64_t> value_{};
};

/// start:stop:step, each optional; negative numbers count from the end, numbers past an end are
/// moved to it.
struct slice {
  slice_bound start{};
  slice_bound stop{};
  slice_bound step{};
};

struct ellipsis_t {};
/// All axes that the other items don't take.
inline constexpr ellipsis_t ellipsis{};

struct new_axis_t {};
/// An axis of extent 1.
inline constexpr new_axis_t new_axis{};

/// Picks the elements where `values` (u8, the leading extents of what is indexed) is not 0. Stands
/// alone in an index.
struct boolean_mask {
  tensor values{};
};

/// An item of an index. A bare tensor does not compile.
class slice_item {
public:
  template <index_number T>
  constexpr slice_item(T index)
    : value_{std::in_range<std::int64_t>(index) ? static_cast<std::int64_t>(index)
                                                : std::numeric_limits<std::int64_t>::max()} {}
  slice_item(slice range) : value_{range} {}
  slice_item(ellipsis_t) : value_{ellipsis_t{}} {}
  slice_item(new_axis_t) : value_{new_axis_t{}} {}
  slice_item(boolean_mask mask) : value_{std::move(mask)} {}
  const std::variant<std::int64_t, slice, ellipsis_t, new_axis_t, boolean_mask>& value() const {
    return value_;
  }

private:
  std::variant<std::int64_t, slice, ellipsis_t, new_axis_t, boolean_mask> value_;
};

/// A plan of the rows to read and of what to do with them.
struct slice_plan {
  std::vector<std::int64_t> rows{}; ///< global rows of axis 0, in the order wanted
  std::vector<std::vector<std::int64_t>>
    axes{};                 ///< picks along axes 1, 2, ... of the gathered rows
  tensor mask{};            ///< u8, the mask's part for the gathered rows; undefined without one
  shape_t gathered_shape{}; ///< [rows.size()] + row shape; [] for a scalar
  shape_t shape{};          ///< of the result
};

/// Elements that start:stop:step picks from an axis of `extent`, in order. `invalid_argument` for
/// step 0.
result<std::vector<std::int64_t>> slice_positions(const slice& range, std::int64_t extent);

/// Plans an index of something of shape `shape`. `out_of_range` for an index past an end;
/// `invalid_argument` for step 0, too many items, a second ellipsis, a mask beside other items;
/// `dtype_mismatch`, `shape_mismatch` for the mask. Errors name the item and the axis.
result<slice_plan> plan_slice(const shape_t& shape, std::span<const slice_item> items);

/// Splits a plan's rows by shard: shards ascending, only those that have one. @pre the plan is for
/// these shards' shape.
std::vector<shard_gather> gathers_of(const slice_plan& plan, std::span<const shard_spec> shards);

/// Result from the rows `plan.rows` in that order. Throws `shape_mismatch` when `gathered` has
/// another shape.
tensor apply_slice(const slice_plan& plan, const tensor& gathered);

/// Result by one call of `gather` per shard that the plan touches. A scalar is row 0 of shard 0.
tensor gather_slice(const slice_plan& plan, dtype type, std::span<const shard_spec> shards,
                    const gather_shard_rows& gather);

/// Indexes a whole tensor; shares its memory when whole consecutive rows are picked. Throws as
/// `plan_slice` fails.
tensor slice_tensor(const tensor& whole, std::span<const slice_item> items);
inline tensor slice_tensor(const tensor& whole, std::initializer_list<slice_item> items) {
  return slice_tensor(whole, std::span<const slice_item>{items.begin(), items.size()});
}

} // namespace troupe
