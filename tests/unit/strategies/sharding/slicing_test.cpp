#include <doctest/doctest.h>

#include <troupe/strategies/sharding/partitioner.hpp>
#include <troupe/strategies/sharding/slicing.hpp>
#include <troupe/strategies/sharding/variable_ops.hpp>

#include <limits>
#include <optional>
#include <string>
#include <type_traits>

using namespace troupe;

namespace {

using ints = std::vector<std::int64_t>;
using items = std::vector<slice_item>;

// Rows [1,2], [3,4] ... [15,16].
tensor reference_rows() {
  tensor out{dtype::i64, {8, 2}};
  for (std::int64_t i = 0; i < 16; ++i)
    out.mutable_as<std::int64_t>()[static_cast<std::size_t>(i)] = i + 1;
  return out;
}

// In shards of 3, 3 and 2 rows.
const std::vector<shard_spec>& reference_shards() {
  static const std::vector<shard_spec> shards{{0, 3, 0}, {3, 6, 1}, {6, 8, 0}};
  return shards;
}

tensor pick_rows(const tensor& from, std::span<const std::int64_t> rows) {
  std::vector<tensor> parts{from.rows(0, 0)};
  for (auto row : rows)
    parts.push_back(from.rows(row, row + 1));
  return concatenate(parts);
}

// The sharded answer; it must be the whole tensor's.
tensor sliced(const tensor& whole, const std::vector<shard_spec>& shards, const items& index) {
  auto plan = plan_slice(whole.shape(), index).value_or_throw();
  auto from_shards = gather_slice(plan, whole.type(), shards, [&](auto shard, auto local_rows) {
    const auto& at = shards[shard];
    return pick_rows(whole.rows(at.row_begin, at.row_end), local_rows);
  });
  CHECK(from_shards.shape() == plan.shape);
  CHECK(from_shards == slice_tensor(whole, index));
  return from_shards;
}

tensor sliced(const items& index) { return sliced(reference_rows(), reference_shards(), index); }

// Whole rows of the reference, by number.
tensor rows_of(const ints& rows) { return pick_rows(reference_rows(), rows); }

tensor numbers(shape_t shape, const ints& values) {
  return tensor::of<std::int64_t>(std::move(shape), values);
}

constexpr auto none = std::nullopt;

errc refusal(const shape_t& shape, const items& index, const std::string& part) {
  auto plan = plan_slice(shape, index);
  REQUIRE_FALSE(plan);
  INFO(plan.error().text);
  CHECK(plan.error().text.find(part) != std::string::npos);
  return plan.error().code;
}

// start:stop:step written out without any arithmetic on ranges: walk from every element that a walk
// could begin with.
ints walk(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
          std::optional<std::int64_t> step_given, std::int64_t n) {
  const auto step = step_given.value_or(1);
  auto from_end = [n](std::int64_t at) { return at < 0 ? at + n : at; };
  ints out;
  if (step > 0) {
    auto at = start ? from_end(*start) : 0;
    if (at < 0)
      at = 0;
    const auto end = stop ? from_end(*stop) : n;
    for (; at < n && at < end; at += step)
      out.push_back(at);
  } else {
    auto at = start ? from_end(*start) : n - 1;
    if (at > n - 1)
      at = n - 1;
    const auto end = stop ? from_end(*stop) : -1;
    for (; at >= 0 && at > end; at += step)
      out.push_back(at);
  }
  return out;
}

} // namespace

TEST_CASE("PS-SLICE-ROWS forward slices of 8 rows in shards 3, 3, 2") {
  CHECK(sliced({slice{}}) == reference_rows());
  CHECK(sliced({slice{none, 2}}) == rows_of({0, 1}));
  CHECK(sliced({slice{5}}) == rows_of({5, 6, 7}));
  CHECK(sliced({slice{5, -1}}) == rows_of({5, 6}));
  CHECK(sliced({slice{none, none, 5}}) == rows_of({0, 5}));
  CHECK(sliced({slice{1, none, 6}}) == rows_of({1, 7}));
  CHECK(sliced({slice{1, none, 7}}) == rows_of({1}));
  CHECK(sliced({slice{2, 7}}) == rows_of({2, 3, 4, 5, 6}));
  CHECK(sliced({slice{2, 7, 3}}) == rows_of({2, 5}));
}

TEST_CASE("PS-SLICE-BACKWARD slices with a negative step") {
  CHECK(sliced({slice{none, none, -1}}) == rows_of({7, 6, 5, 4, 3, 2, 1, 0}));
  CHECK(sliced({slice{2, -8, -1}}) == rows_of({2, 1}));
  CHECK(sliced({slice{2, -10, -1}}) == rows_of({2, 1, 0}));
  CHECK(sliced({slice{-1, -3, -1}}) == rows_of({7, 6}));
  CHECK(sliced({slice{none, none, -5}}) == rows_of({7, 2}));
  CHECK(sliced({slice{6, 5, -6}}) == rows_of({6}));
  CHECK(sliced({slice{6, none, -7}}) == rows_of({6}));
  CHECK(sliced({slice{7, 1, -2}}) == rows_of({7, 5, 3}));
  CHECK(sliced({slice{7, 1, -4}}) == rows_of({7, 3}));
}

TEST_CASE("PS-SLICE-EMPTY slices of no rows keep the columns") {
  for (const auto& range :
       {slice{0, 0}, slice{5, 3}, slice{3, 5, -1}, slice{-1, 0}, slice{2, -1, -1}}) {
    auto x = sliced({range});
    CHECK(x.shape() == shape_t{0, 2});
    CHECK(x.type() == dtype::i64);
  }
}

TEST_CASE("PS-SLICE-AXES indices and slices on other axes") {
  CHECK(sliced({slice{}, 0}) == numbers({8}, {1, 3, 5, 7, 9, 11, 13, 15}));
  CHECK(sliced({slice{}, slice{0, 1}}) == numbers({8, 1}, {1, 3, 5, 7, 9, 11, 13, 15}));
  CHECK(sliced({2}) == numbers({2}, {5, 6}));
  CHECK(sliced({6}) == numbers({2}, {13, 14}));
  CHECK(sliced({2, 1}) == tensor::scalar<std::int64_t>(6));
  CHECK(sliced({-2}) == numbers({2}, {13, 14}));
  CHECK(sliced({slice{none, none, -7}, slice{none, none, -1}}) == numbers({2, 2}, {16, 15, 2, 1}));
}

TEST_CASE("PS-SLICE-ELLIPSIS an ellipsis takes the axes that are left, even none") {
  CHECK(sliced({ellipsis}) == reference_rows());
  CHECK(sliced({ellipsis, 0}) == numbers({8}, {1, 3, 5, 7, 9, 11, 13, 15}));
  CHECK(sliced({slice{0, 1}, ellipsis}) == numbers({1, 2}, {1, 2}));
  CHECK(sliced({2, 1, ellipsis}) == tensor::scalar<std::int64_t>(6));
  CHECK(sliced(items{}) == reference_rows());
}

TEST_CASE("PS-SLICE-NEWAXIS a new axis has extent 1 wherever it stands") {
  CHECK(sliced({new_axis}) == reference_rows().reshaped({1, 8, 2}));
  CHECK(sliced({new_axis, ellipsis}) == reference_rows().reshaped({1, 8, 2}));
  CHECK(sliced({ellipsis, new_axis}) == reference_rows().reshaped({8, 2, 1}));
  CHECK(sliced({slice{1, 3}, new_axis, 1}) == numbers({2, 1}, {4, 6}));
}

TEST_CASE("PS-SLICE-MASK a mask of elements over 10 gives 11 to 16") {
  auto mask = apply_binary(binary_op::greater, reference_rows(), tensor::scalar<std::int64_t>(10));
  CHECK(sliced({boolean_mask{mask}}) == numbers({6}, {11, 12, 13, 14, 15, 16}));
  auto odd = apply_binary(binary_op::equal, reference_rows(), tensor::scalar<std::int64_t>(9));
  CHECK(sliced({boolean_mask{odd}}) == numbers({1}, {9}));
  CHECK(sliced({boolean_mask{tensor::zeros(dtype::u8, {8, 2})}}) == numbers({0}, {}));
  auto some_rows = tensor::vector<std::uint8_t>({1, 0, 0, 0, 7, 0, 0, 1});
  CHECK(sliced({boolean_mask{some_rows}}) == rows_of({0, 4, 7}));
}

TEST_CASE("PS-SLICE-MASK a mask that does not fit is refused") {
  const boolean_mask wide{tensor::zeros(dtype::u8, {8, 3})};
  CHECK(refusal({8, 2}, {wide}, "[8, 3] is not a prefix of [8, 2]") == errc::shape_mismatch);
  const boolean_mask deep{tensor::zeros(dtype::u8, {8, 2, 1})};
  CHECK(refusal({8, 2}, {deep}, "is not a prefix of") == errc::shape_mismatch);
  const boolean_mask floats{tensor::zeros(dtype::f32, {8})};
  CHECK(refusal({8, 2}, {floats}, "must be of u8") == errc::dtype_mismatch);
  CHECK(refusal({8, 2}, {boolean_mask{}}, "must be of u8") == errc::dtype_mismatch);
  const boolean_mask good{tensor::zeros(dtype::u8, {8})};
  CHECK(refusal({8, 2}, {good, 0}, "must be the only item") == errc::invalid_argument);
}

TEST_CASE("PS-X1 indices 100 and -100 are out of bounds and named with the axis") {
  CHECK(refusal({8, 2}, {100}, "item 0: 100 is out of bounds for axis 0 with extent 8")
        == errc::out_of_range);
  CHECK(refusal({8, 2}, {-100}, "-100") == errc::out_of_range);
  CHECK(refusal({8, 2}, {8}, "axis 0") == errc::out_of_range);
  CHECK(refusal({8, 2}, {-9}, "axis 0") == errc::out_of_range);
  CHECK(refusal({8, 2}, {slice{}, 2}, "item 1: 2 is out of bounds for axis 1")
        == errc::out_of_range);
  CHECK(refusal({0, 2}, {0}, "extent 0") == errc::out_of_range);
  CHECK(refusal({8, 2}, {~std::uint64_t{0}}, "axis 0") == errc::out_of_range);
  CHECK(sliced({7}) == numbers({2}, {15, 16}));
  CHECK(sliced({-8}) == numbers({2}, {1, 2}));
}

TEST_CASE(
  "PS-X2 tensors, floats and booleans as bounds or indices do not compile; step 0 is refused") {
  static_assert(!std::is_constructible_v<slice_bound, tensor>);
  static_assert(!std::is_constructible_v<slice_bound, double>);
  static_assert(!std::is_constructible_v<slice_bound, bool>);
  static_assert(!std::is_constructible_v<slice_item, tensor>);
  static_assert(!std::is_constructible_v<slice_item, double>);
  static_assert(!std::is_constructible_v<slice_item, bool>);
  static_assert(std::is_constructible_v<slice_item, unsigned>);
  CHECK(refusal({8, 2}, {slice{none, none, 0}}, "item 0: slice step is 0")
        == errc::invalid_argument);
  CHECK(refusal({8, 2}, {0, slice{0, 0, 0}}, "item 1") == errc::invalid_argument);
}

TEST_CASE("PS-X4 a start past an end is moved to it") {
  CHECK(sliced({slice{-10, none, 3}}) == rows_of({0, 3, 6}));
  CHECK(sliced({slice{8, none, -2}}) == rows_of({7, 5, 3, 1}));
}

TEST_CASE("PS-X4 every start, stop and step from -12 to 12, or none, slices 8 rows as numpy does") {
  std::vector<std::optional<std::int64_t>> bounds{none};
  for (std::int64_t i = -12; i <= 12; ++i)
    bounds.push_back(i);
  int wrong = 0;
  int combinations = 0;
  for (auto start : bounds)
    for (auto stop : bounds)
      for (auto step : bounds) {
        if (step == 0)
          continue;
        slice range;
        if (start)
          range.start = *start;
        if (stop)
          range.stop = *stop;
        if (step)
          range.step = *step;
        const std::vector<slice_item> index{range};
        auto plan = plan_slice({8, 2}, index).value_or_throw();
        ++combinations;
        wrong += plan.rows != walk(start, stop, step, 8);
      }
  CHECK(combinations == 26 * 26 * 25);
  CHECK(wrong == 0);
}

TEST_CASE("PS-X4 bounds at the ends of the number range are moved too") {
  constexpr auto low = std::numeric_limits<std::int64_t>::lowest();
  constexpr auto high = std::numeric_limits<std::int64_t>::max();
  CHECK(*slice_positions(slice{low, high}, 3) == ints{0, 1, 2});
  CHECK(*slice_positions(slice{high, low, -1}, 3) == ints{2, 1, 0});
  CHECK(*slice_positions(slice{none, none, high}, 3) == ints{0});
  CHECK(*slice_positions(slice{none, none, low}, 3) == ints{2});
  CHECK(*slice_positions(slice{0, ~std::uint64_t{0}}, 3) == ints{0, 1, 2});
  CHECK(slice_positions(slice{}, 0)->empty());
}

TEST_CASE("slicing: too many items and two ellipses are refused") {
  CHECK(refusal({8, 2}, {0, 0, 0}, "3 items for the 2 axes of [8, 2]") == errc::invalid_argument);
  CHECK(refusal({}, {0}, "1 items for the 0 axes") == errc::invalid_argument);
  CHECK(refusal({8, 2}, {ellipsis, ellipsis}, "2 ellipses") == errc::invalid_argument);
}

TEST_CASE("slicing: inner axes of a rank 4 tensor are picked in any mix") {
  tensor whole{dtype::f32, {4, 3, 2, 5}};
  for (std::size_t i = 0; i < 120; ++i)
    whole.mutable_as<float>()[i] = static_cast<float>(i);
  std::vector<shard_spec> shards{{0, 2, 0}, {2, 4, 0}};
  auto x = sliced(whole, shards, {slice{none, none, -2}, slice{1, 3}, 1, slice{none, none, 2}});
  REQUIRE(x.shape() == shape_t{2, 2, 3});
  std::size_t at = 0;
  for (int row : {3, 1})
    for (int second : {1, 2})
      for (int last : {0, 2, 4})
        CHECK(x.as<float>()[at++] == static_cast<float>(((row * 3 + second) * 2 + 1) * 5 + last));
  CHECK(sliced(whole, shards, {1, slice{}, 0}).shape() == shape_t{3, 5});
  CHECK(sliced(whole, shards, {slice{}, slice{2, 2}}).shape() == shape_t{4, 0, 2, 5});
}

TEST_CASE("slicing: a scalar takes an ellipsis and new axes") {
  auto number = tensor::scalar(2.5f);
  std::vector<shard_spec> shards{{0, 1, 0}};
  const items index{new_axis, ellipsis};
  auto plan = plan_slice({}, index).value_or_throw();
  auto x = gather_slice(plan, dtype::f32, shards, [&](auto, auto) { return number.reshaped({1}); });
  CHECK(x == tensor::vector<float>({2.5f}));
  CHECK(slice_tensor(number, {ellipsis}).item<float>() == 2.5f);
}

TEST_CASE("slicing: only the shards that hold picked rows are asked, once each") {
  const items index{slice{4, 7}};
  auto plan = plan_slice({8, 2}, index).value_or_throw();
  auto gathers = gathers_of(plan, reference_shards());
  REQUIRE(gathers.size() == 2);
  CHECK(gathers[0].shard == 1);
  CHECK(gathers[0].local_rows == ints{1, 2});
  CHECK(gathers[1].shard == 2);
  CHECK(gathers[1].local_rows == ints{0});
  CHECK(gathers[1].positions == ints{2});
}

TEST_CASE(
  "slicing: consecutive whole rows share the tensor's memory; other rows of a wrong shape throw") {
  auto whole = reference_rows();
  const auto slice_of_rows = slice_tensor(whole, {slice{2, 5}});
  const auto rows = whole.rows(2, 5);
  CHECK(slice_of_rows.bytes().data() == rows.bytes().data());
  const items index{slice{2, 5}};
  auto plan = plan_slice({8, 2}, index).value_or_throw();
  CHECK_THROWS_AS((void)apply_slice(plan, whole), error);
}
