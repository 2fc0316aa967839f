#include <doctest/doctest.h>

#include <troupe/strategies/sharding/partitioner.hpp>

#include <optional>
#include <string>

#include "../../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

using parts = std::vector<std::int64_t>;

std::vector<std::int64_t> sizes(std::int64_t rows, std::int64_t n) {
  std::vector<std::int64_t> out;
  for (auto range : shard_rows(rows, n))
    out.push_back(range.size());
  return out;
}

std::int64_t count(const partitioner& how, const shape_t& shape, dtype type = dtype::f32) {
  return shard_count(shape, type, &how).value_or_throw();
}

std::string refusal(const partitioner& how, const shape_t& shape) {
  auto n = shard_count(shape, dtype::f32, &how);
  REQUIRE_FALSE(n);
  CHECK(n.error().code == errc::invalid_argument);
  return n.error().text;
}

std::vector<std::uint32_t> servers_of(const std::vector<shard_spec>& shards) {
  std::vector<std::uint32_t> out;
  for (const auto& shard : shards)
    out.push_back(shard.server);
  return out;
}

} // namespace

TEST_CASE("PS-PART-1 Fixed(2) on [10,3] gives [2,1], at most one part per row") {
  fixed_shards_partitioner how{2};
  CHECK(how({10, 3}, dtype::f32) == parts{2, 1});
  CHECK(how({1, 3}, dtype::f32) == parts{1, 1});
  CHECK(how({0, 3}, dtype::f32) == parts{1, 1});
}

TEST_CASE("PS-PART-2 MinSize(4, max 2) on [6,1] gives [2,1]") {
  CHECK(min_size_partitioner{4, 2}({6, 1}, dtype::f32) == parts{2, 1});
}

TEST_CASE("PS-PART-3 MinSize(256 KiB) on [1024,1024] gives 16, or 2 with max 2, or 1 by default") {
  for (std::int64_t most : {16, 17, 100})
    CHECK(min_size_partitioner{256 << 10, most}({1024, 1024}, dtype::f32) == parts{16, 1});
  CHECK(min_size_partitioner{256 << 10, 2}({1024, 1024}, dtype::f32) == parts{2, 1});
  CHECK(min_size_partitioner{}({1024, 1024}, dtype::f32) == parts{1, 1});
}

TEST_CASE("PS-PART-4 MinSize(64 MiB, max 2) leaves ten int64 a plain variable on each server") {
  partitioner how = min_size_partitioner{64 << 20, 2};
  CHECK(count(how, {10}, dtype::i64) == 1);
  round_robin_placement where;
  for (std::uint32_t server : {0u, 1u}) {
    auto shards = plan_shards({10}, dtype::i64, &how, where, 2).value_or_throw();
    CHECK(shards == std::vector<shard_spec>{{0, 10, server}});
  }
}

TEST_CASE("min_size_partitioner: parts have the least size at most, as its declaration says") {
  for (std::int64_t rows = 1; rows < 40; ++rows)
    for (std::int64_t least = 1; least < 200; least += 7) {
      const auto bytes = rows * 4;
      const auto n = min_size_partitioner{least, 1000}({rows}, dtype::f32)[0];
      if (n < rows) {
        CHECK(n * least >= bytes);      // no part has more, but for its rounding to rows
        CHECK((n - 1) * least < bytes); // and one part less would have
      }
    }
}

TEST_CASE("PS-PART-5 MinSize(72, max 2) cuts a 6x6 kernel in 2 and leaves the bias of 6 whole") {
  partitioner how = min_size_partitioner{72, 2};
  CHECK(count(how, {6, 6}) == 2);
  CHECK(count(how, {6}) == 1);
}

TEST_CASE("PS-PART-6 MinSize(48, max 3) cuts a 6x6 kernel in 3 and leaves the bias of 6 whole") {
  partitioner how = min_size_partitioner{48, 3};
  CHECK(count(how, {6, 6}) == 3);
  CHECK(count(how, {6}) == 1);
}

TEST_CASE("PS-PART-7 MinSize(256 KiB, max 2) cuts [8,16384] into two of [4,16384]") {
  partitioner how = min_size_partitioner{256 << 10, 2};
  CHECK(count(how, {8, 16384}) == 2);
  CHECK(sizes(8, 2) == parts{4, 4});
}

TEST_CASE("PS-PART-8 MinSize(64 MiB, max 10) cuts [60000,1000] in 4") {
  CHECK(min_size_partitioner{64 << 20, 10}({60000, 1000}, dtype::f32) == parts{4, 1});
}

TEST_CASE("PS-PART-9 MaxSize(4) on [6,1] gives [6,1], with max 2 [2,1]") {
  CHECK(max_size_partitioner{4}({6, 1}, dtype::f32) == parts{6, 1});
  CHECK(max_size_partitioner{4, 2}({6, 1}, dtype::f32) == parts{2, 1});
}

TEST_CASE("PS-PART-10 MaxSize(1024) on [6,1] gives [1,1]") {
  CHECK(max_size_partitioner{1024}({6, 1}, dtype::f32) == parts{1, 1});
}

TEST_CASE("PS-PART-11 MaxSize(8) on [10,3] gives one row each, though a row is 12 bytes") {
  CHECK(max_size_partitioner{8}({10, 3}, dtype::f32) == parts{10, 1});
}

TEST_CASE("PS-PART-12 MaxSize(6400) on [100,32] gives 2 shards of 50 rows") {
  CHECK(max_size_partitioner{6400}({100, 32}, dtype::f32) == parts{2, 1});
  CHECK(max_size_partitioner{6399}({100, 32}, dtype::f32) == parts{3, 1});
  CHECK(max_size_partitioner{6400}({0, 32}, dtype::f32) == parts{1, 1});
  CHECK(max_size_partitioner{6400}({100, 0}, dtype::f32) == parts{1, 1});
}

TEST_CASE(
  "PS-PART-ERRORS arguments below 1 are refused at construction, Fixed(0) and max_shards=0 too") {
  CHECK(says(thrown([] { fixed_shards_partitioner{0}; }), "shards is 0"));
  CHECK(says(thrown([] { fixed_shards_partitioner{-3}; }), "shards is -3"));
  CHECK(says(thrown([] { min_size_partitioner{0}; }), "min_shard_bytes is 0"));
  CHECK(says(thrown([] { min_size_partitioner{1, 0}; }), "max_shards is 0"));
  CHECK(says(thrown([] { min_size_partitioner{1, 1, 0}; }), "bytes_per_string is 0"));
  CHECK(says(thrown([] { max_size_partitioner{0}; }), "max_shard_bytes is 0"));
  CHECK(says(thrown([] { max_size_partitioner{1, 0}; }), "max_shards is 0"));
  CHECK(says(thrown([] { max_size_partitioner{1, -1}; }), "max_shards is -1"));
  CHECK(says(thrown([] { max_size_partitioner{1, 1, 0}; }), "bytes_per_string is 0"));
}

TEST_CASE("PS-PART-ERRORS a scalar and a shape that is not known are refused when asked") {
  for (const partitioner& how :
       {partitioner{fixed_shards_partitioner{2}}, partitioner{min_size_partitioner{4, 2}},
        partitioner{max_size_partitioner{4}}}) {
    CHECK(says(thrown([&] { (void)how({}, dtype::f32); }), "scalar"));
    CHECK(says(thrown([&] { (void)how({-1, 4}, dtype::f32); }), "[-1, 4]"));
  }
}

TEST_CASE("PS-H1 a variable is cut when there is a partitioner, an axis, and more than one part") {
  round_robin_placement where;
  partitioner two = fixed_shards_partitioner{2};
  CHECK(plan_shards({4, 2}, dtype::f32, &two, where, 3)->size() == 2);
  CHECK(plan_shards({4, 2}, dtype::f32, nullptr, where, 3)->size() == 1);
  partitioner none;
  CHECK(plan_shards({4, 2}, dtype::f32, &none, where, 3)->size() == 1);
  CHECK(*plan_shards({}, dtype::f32, &two, where, 3) == std::vector<shard_spec>{{0, 1, 1}});
  partitioner one = [](const shape_t&, dtype) { return parts{1, 1}; };
  CHECK(*plan_shards({4, 2}, dtype::f32, &one, where, 3) == std::vector<shard_spec>{{0, 4, 2}});
}

TEST_CASE("PS-H2 a partitioner that returns none, 0, or cuts another axis is refused by name") {
  CHECK(says(refusal([](const shape_t&, dtype) { return parts{}; }, {4, 4}), "user partitioner"));
  CHECK(says(refusal([](const shape_t&, dtype) { return parts{0, 1}; }, {4, 4}), "[0, 1]"));
  CHECK(says(refusal([](const shape_t&, dtype) { return parts{-2, 1}; }, {4, 4}), "[-2, 1]"));
  CHECK(says(refusal([](const shape_t&, dtype) { return parts{2, 2, 1}; }, {4, 4, 4}), "axis 0"));
  CHECK(says(refusal([](const shape_t&, dtype) { return parts{1, 1, 0}; }, {4, 4, 4}), "axis 0"));
  CHECK(says(refusal([](const shape_t&, dtype) { return parts{1, 1, 1}; }, {4, 4}), "more axes"));
  struct named {
    parts operator()(const shape_t&, dtype) const { return {}; }
    std::string describe() const { return "halves"; }
  };
  CHECK(says(refusal(named{}, {4}), "halves gave []"));
  CHECK(partitioner{min_size_partitioner{5, 2}}.name() == "min_size_partitioner(5, 2)");
}

TEST_CASE("PS-H2 a refused variable does not move the placement counter") {
  round_robin_placement where;
  partitioner bad = [](const shape_t&, dtype) { return parts{0}; };
  CHECK_FALSE(plan_shards({4}, dtype::f32, &bad, where, 2));
  CHECK_FALSE(plan_shards({-4}, dtype::f32, nullptr, where, 2));
  CHECK_FALSE(plan_shards({4}, dtype::f32, nullptr, where, 0));
  CHECK(where.count() == 0);
}

TEST_CASE("PS-H3 four parts asked for three rows give three shards of one row") {
  round_robin_placement where;
  partitioner four = [](const shape_t&, dtype) { return parts{4}; };
  auto shards = plan_shards({3, 2}, dtype::f32, &four, where, 8).value_or_throw();
  CHECK(shards == std::vector<shard_spec>{{0, 1, 0}, {1, 2, 1}, {2, 3, 2}});
  CHECK(plan_shards({0, 2}, dtype::f32, &four, where, 8)->size() == 1);
}

TEST_CASE("PS-H4 div split: the first extra shards get one row more, without a gap") {
  for (std::int64_t rows = 0; rows <= 40; ++rows)
    for (std::int64_t n = 1; n <= 12; ++n) {
      auto ranges = shard_rows(rows, n);
      REQUIRE(static_cast<std::int64_t>(ranges.size()) == n);
      std::int64_t begin = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        auto range = ranges[static_cast<std::size_t>(i)];
        CHECK(range.begin == begin);
        CHECK(range.size() == rows / n + (i < rows % n ? 1 : 0));
        begin = range.end;
      }
      CHECK(begin == rows);
    }
  CHECK(says(thrown([] { shard_rows(3, 0); }), "n is 0"));
  CHECK(says(thrown([] { shard_rows(-3, 1); }), "-3"));
}

TEST_CASE("PS-H5 worked div splits") {
  CHECK(shard_rows(13, 5) == std::vector<row_range>{{0, 3}, {3, 6}, {6, 9}, {9, 11}, {11, 13}});
  CHECK(shard_rows(10, 4) == std::vector<row_range>{{0, 3}, {3, 6}, {6, 8}, {8, 10}});
  CHECK(sizes(5, 2) == parts{3, 2});
  CHECK(sizes(32, 3) == parts{11, 11, 10});
  CHECK(sizes(7, 3) == parts{3, 2, 2});
}

TEST_CASE(
  "PS-H6 shards are placed by the same round robin, and the next variable goes on from there") {
  round_robin_placement where;
  partitioner four = fixed_shards_partitioner{4};
  auto shards = plan_shards({10}, dtype::i64, &four, where, 2).value_or_throw();
  CHECK(shards == std::vector<shard_spec>{{0, 3, 0}, {3, 6, 1}, {6, 8, 0}, {8, 10, 1}});
  CHECK(plan_shards({}, dtype::f32, &four, where, 2)->front().server == 0);
}

TEST_CASE("PS-H7 three shards on two servers leave the next variable to server 1") {
  round_robin_placement where;
  partitioner three = fixed_shards_partitioner{3};
  CHECK(servers_of(*plan_shards({9}, dtype::f32, &three, where, 2))
        == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(plan_shards({9}, dtype::f32, nullptr, where, 2)->front().server == 1);
}

TEST_CASE("PS-H8 shard i is named w/part_i, a single one just w") {
  variable_spec spec;
  spec.name = "w";
  spec.shards = {{0, 1, 0}, {1, 2, 1}};
  CHECK(spec.shard_name(1) == "w/part_1");
  spec.shards.pop_back();
  CHECK(spec.shard_name(0) == "w");
}

TEST_CASE("PS-H9 five rows in two shards are rows 0 to 2 on ps0 and 3, 4 on ps1") {
  round_robin_placement where;
  partitioner two = fixed_shards_partitioner{2};
  CHECK(*plan_shards({5, 2}, dtype::i64, &two, where, 2)
        == std::vector<shard_spec>{{0, 3, 0}, {3, 5, 1}});
}

TEST_CASE("PS-V1 four scalars over three servers land on 0, 1, 2, 0") {
  round_robin_placement where;
  std::vector<std::uint32_t> servers;
  for (int i = 0; i < 4; ++i)
    servers.push_back(plan_shards({}, dtype::f32, nullptr, where, 3)->front().server);
  CHECK(servers == std::vector<std::uint32_t>{0, 1, 2, 0});
}

TEST_CASE("PS-V2 the counter counts every shard, and each strategy has its own") {
  round_robin_placement first;
  round_robin_placement second;
  partitioner three = fixed_shards_partitioner{3};
  (void)plan_shards({9}, dtype::f32, &three, first, 2);
  (void)plan_shards({}, dtype::f32, &three, first, 2);
  CHECK(first.count() == 4);
  CHECK(second.count() == 0);
  CHECK(second.next(2) == 0);
}

TEST_CASE("PS-V5 a colocated variable goes to the same server, whole, and the counter stays") {
  CHECK(plan_colocated({9, 2}, 4) == std::vector<shard_spec>{{0, 9, 4}});
  CHECK(plan_colocated({}, 4) == std::vector<shard_spec>{{0, 1, 4}});
}

TEST_CASE("PS-V6 round robin ignores sizes; placement by bytes follows them") {
  round_robin_placement blind;
  by_bytes_placement seeing;
  std::vector<std::uint32_t> by_turn;
  std::vector<std::uint32_t> by_size;
  for (std::uint64_t bytes : {100, 1, 1, 1, 200}) {
    by_turn.push_back(blind.next(2, bytes));
    by_size.push_back(seeing.next(2, bytes));
  }
  CHECK(by_turn == std::vector<std::uint32_t>{0, 1, 0, 1, 0});
  CHECK(by_size == std::vector<std::uint32_t>{0, 1, 1, 1, 1});
  CHECK(seeing.bytes() == std::vector<std::uint64_t>{100, 203});
  CHECK(seeing.next(3, 1) == 2);
}

TEST_CASE("placement by bytes counts what each shard holds") {
  by_bytes_placement where;
  partitioner two = fixed_shards_partitioner{2};
  (void)plan_shards({5, 2}, dtype::f64, &two, where, 2);
  CHECK(where.bytes() == std::vector<std::uint64_t>{48, 32});
  CHECK(make_placement(placement::by_bytes)->next(2, 7) == 0);
  CHECK(make_placement(placement::round_robin)->next(2, 7) == 0);
  CHECK(says(thrown([] { make_placement(static_cast<placement>(9)); }), "placement(9)"));
  CHECK(says(thrown([] { round_robin_placement{}.next(0); }), "servers is 0"));
}
