#include <doctest/doctest.h>

#include <troupe/strategies/sharding/partitioner.hpp>
#include <troupe/strategies/sharding/row_owner.hpp>

#include <string>

#include "../../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

std::vector<shard_spec> div_shards(std::int64_t rows, std::int64_t n) {
  std::vector<shard_spec> out;
  for (auto range : shard_rows(rows, n))
    out.push_back({range.begin, range.end, 0});
  return out;
}

row_owner owner(std::int64_t rows, std::uint32_t shards, std::int64_t id) {
  return owner_of_row(rows, shards, id).value_or_throw();
}

} // namespace

TEST_CASE("PS-Q2 owner and local row of 32 rows in 3 shards") {
  CHECK(owner(32, 3, 0) == row_owner{0, 0});
  CHECK(owner(32, 3, 10) == row_owner{0, 10});
  CHECK(owner(32, 3, 11) == row_owner{1, 0});
  CHECK(owner(32, 3, 22) == row_owner{2, 0});
  CHECK(owner(32, 3, 31) == row_owner{2, 9});
}

TEST_CASE("PS-Q2 the owner by formula is the shard whose rows hold the id, for every small split") {
  for (std::int64_t rows = 1; rows <= 30; ++rows)
    for (std::int64_t n = 1; n <= 12; ++n) {
      auto ranges = shard_rows(rows, n);
      for (std::int64_t id = 0; id < rows; ++id) {
        auto at = owner(rows, static_cast<std::uint32_t>(n), id);
        REQUIRE(static_cast<std::int64_t>(at.shard) < n);
        CHECK(ranges[at.shard].begin <= id);
        CHECK(id < ranges[at.shard].end);
        CHECK(at.local_row == id - ranges[at.shard].begin);
      }
    }
}

TEST_CASE("PS-Q3 indices have rank 1 and are i64") {
  CHECK(check_row_indices(tensor::vector<std::int64_t>({0, 4, 4}), 5));
  auto matrix = tensor::of<std::int64_t>({1, 2}, {0, 1});
  CHECK(says(refusal(check_row_indices(matrix, 5), errc::shape_mismatch), "[1, 2]"));
  auto number = tensor::scalar<std::int64_t>(0);
  CHECK(says(refusal(check_row_indices(number, 5), errc::shape_mismatch), "rank 1"));
  auto floats = tensor::vector<float>({0});
  CHECK(says(refusal(check_row_indices(floats, 5), errc::dtype_mismatch), "f32"));
}

TEST_CASE("PS-Q4 shards that are not a div split are refused, naming the first one") {
  CHECK(check_div_layout(30, div_shards(30, 3)));
  CHECK(check_div_layout(2, div_shards(2, 3)));
  std::vector<shard_spec> other{{0, 10, 0}, {10, 19, 0}, {19, 30, 0}};
  CHECK(says(refusal(check_div_layout(30, other), errc::mismatch), "shard 1 has rows [10, 19)"));
  refusal(check_div_layout(31, div_shards(30, 3)), errc::mismatch);
  refusal(check_div_layout(30, {}), errc::mismatch);
  const std::vector<std::int64_t> ids{0, 12};
  refusal(group_by_owner(ids, 30, other), errc::mismatch);
}

TEST_CASE("PS-Q5 ids out of range are refused up front with position and id") {
  for (std::int64_t id : {-1, 13, 1000}) {
    auto why = refusal(owner_of_row(13, 5, id), errc::out_of_range);
    CHECK(says(why, "row " + std::to_string(id) + " of 13 rows"));
  }
  const std::vector<std::int64_t> ids{3, 13};
  CHECK(says(refusal(group_by_owner(ids, 13, div_shards(13, 5)), errc::out_of_range),
             "position 1: row 13"));
  CHECK(says(refusal(group_by_range(ids, div_shards(13, 5)), errc::out_of_range), "row 13"));
  auto indices = tensor::vector<std::int64_t>({0, -1});
  CHECK(says(refusal(check_row_indices(indices, 13), errc::out_of_range), "position 1: row -1"));
  refusal(owner_of_row(13, 0, 1), errc::invalid_argument);
}

TEST_CASE("PS-Q1 indices are grouped by owner with their local rows") {
  const std::vector<std::int64_t> ids{0, 10, 12, 21, 22};
  auto groups = group_by_owner(ids, 30, div_shards(30, 3)).value_or_throw();
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].local_rows == std::vector<std::int64_t>{0});
  CHECK(groups[1].local_rows == std::vector<std::int64_t>{0, 2});
  CHECK(groups[1].positions == std::vector<std::int64_t>{1, 2});
  CHECK(groups[2].local_rows == std::vector<std::int64_t>{1, 2});
  CHECK(groups[2].shard == 2);
  const std::vector<std::int64_t> uneven{0, 10, 11, 12, 30, 31};
  groups = group_by_owner(uneven, 32, div_shards(32, 3)).value_or_throw();
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].local_rows == std::vector<std::int64_t>{0, 10});
  CHECK(groups[1].local_rows == std::vector<std::int64_t>{0, 1});
  CHECK(groups[2].local_rows == std::vector<std::int64_t>{8, 9});
}

TEST_CASE("PS-Q6 rows come back in the order asked, not grouped by shard") {
  auto shards = div_shards(30, 3);
  const std::vector<std::int64_t> ids{12, 0, 29, 12};
  auto groups = group_by_owner(ids, 30, shards).value_or_throw();
  int calls = 0;
  auto rows = gather_groups(groups, dtype::i64, {2}, 4, [&](auto shard, auto local_rows) {
    ++calls;
    tensor out{dtype::i64, {static_cast<std::int64_t>(local_rows.size()), 2}};
    auto to = out.template mutable_as<std::int64_t>();
    for (std::size_t i = 0; i < local_rows.size(); ++i) {
      to[2 * i] = shards[shard].row_begin + local_rows[i];
      to[2 * i + 1] = -to[2 * i];
    }
    return out;
  });
  CHECK(rows == tensor::of<std::int64_t>({4, 2}, {12, -12, 0, 0, 29, -29, 12, -12}));
  CHECK(calls == 3);
}

TEST_CASE("grouping by range serves shards of any sizes, empty ones too") {
  std::vector<shard_spec> shards{{0, 1, 0}, {1, 1, 0}, {1, 5, 0}, {5, 6, 0}};
  const std::vector<std::int64_t> ids{5, 1, 0, 4};
  auto groups = group_by_range(ids, shards).value_or_throw();
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].positions == std::vector<std::int64_t>{2});
  CHECK(groups[1].shard == 2);
  CHECK(groups[1].local_rows == std::vector<std::int64_t>{0, 3});
  CHECK(groups[2].shard == 3);
}

TEST_CASE("a shard that answers with another shape or type is an error") {
  std::vector<shard_gather> groups{{0, {0, 1}, {1, 0}}};
  auto short_answer = [](auto, auto) { return tensor::zeros(dtype::f32, {1, 2}); };
  CHECK_THROWS_AS((void)gather_groups(groups, dtype::f32, {2}, 2, short_answer), error);
  auto wrong_type = [](auto, auto) { return tensor::zeros(dtype::f64, {2, 2}); };
  CHECK_THROWS_AS((void)gather_groups(groups, dtype::f32, {2}, 2, wrong_type), error);
}
