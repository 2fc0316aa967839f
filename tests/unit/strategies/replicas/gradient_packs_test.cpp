#include <doctest/doctest.h>

#include <troupe/strategies/replicas/gradient_packs.hpp>

#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

using namespace troupe;

namespace {

using sizes = std::vector<std::optional<std::uint64_t>>;
using packs = std::vector<gradient_pack>;
using counts = std::vector<std::uint64_t>;
using parts = std::vector<gradient_part>;

packs grouped(const sizes& bytes, std::int64_t bytes_per_pack) {
  return group_by_bytes(bytes, bytes_per_pack).value_or_throw();
}

packs planned(const sizes& bytes, std::int64_t bytes_per_pack) {
  return plan_gradient_packs(bytes, bytes_per_pack).value_or_throw();
}

parts equal(const counts& elements, std::int64_t num_packs) {
  return plan_equal_parts(elements, num_packs).value_or_throw();
}

template <class T>
std::string refusal(const result<T>& got) {
  REQUIRE_FALSE(got);
  CHECK(got.error().code == errc::invalid_argument);
  return got.error().text;
}

} // namespace

TEST_CASE("SYNC-X10 tensors of 128, 32, 800 and 4 bytes in packs of 200") {
  const sizes bytes{128, 32, 800, 4};
  CHECK(grouped(bytes, 200) == packs{{0, 1, 2}, {3}});
  CHECK(grouped(bytes, 0) == packs{{0, 1, 2, 3}});
  CHECK(grouped({128, std::nullopt, 800, 4}, 200) == packs{{0, 1, 2, 3}});
}

TEST_CASE("SYNC-COL-C a pack ends when it has reached its bytes") {
  CHECK(grouped({100, 100, 100}, 200) == packs{{0, 1}, {2}});
  CHECK(grouped({100, 101, 1}, 201) == packs{{0, 1}, {2}});
  CHECK(grouped({100, 100, 1}, 201) == packs{{0, 1, 2}});
  CHECK(grouped({5, 5, 5}, 1) == packs{{0}, {1}, {2}});
  CHECK(grouped({0, 0, 5, 0}, 5) == packs{{0, 1, 2}, {3}});
  CHECK(grouped({}, 200).empty());
  CHECK(grouped({}, 0).empty());
  const auto huge = std::numeric_limits<std::uint64_t>::max();
  CHECK(grouped({1, huge, huge}, std::numeric_limits<std::int64_t>::max()) == packs{{0, 1}, {2}});
}

TEST_CASE("SYNC-COL-C every tensor is in one pack, every pack but the last is full") {
  for (unsigned pattern = 0; pattern < 4096; ++pattern) // sizes 1 to 4, six of them
    for (std::int64_t full = 1; full <= 9; ++full) {
      sizes bytes;
      for (unsigned i = 0; i < 6; ++i)
        bytes.push_back(1 + (pattern >> (2 * i) & 3u));
      const auto got = grouped(bytes, full);
      std::size_t next = 0;
      for (std::size_t p = 0; p < got.size(); ++p) {
        REQUIRE_FALSE(got[p].empty());
        std::uint64_t held = 0;
        std::uint64_t before_last = 0;
        for (auto tensor : got[p]) {
          REQUIRE(tensor == next++);
          before_last = held;
          held += *bytes[tensor];
        }
        REQUIRE(before_last < static_cast<std::uint64_t>(full));
        if (p + 1 < got.size())
          REQUIRE(held >= static_cast<std::uint64_t>(full));
      }
      REQUIRE(next == bytes.size());
    }
}

TEST_CASE("SYNC-COL-I a negative number of bytes is refused") {
  CHECK(refusal(group_by_bytes(sizes{1}, -1))
        == "gradient packs: bytes_per_pack is -1, must not be negative");
  CHECK(refusal(plan_gradient_packs(sizes{}, -200))
        == "gradient packs: bytes_per_pack is -200, must not be negative");
}

TEST_CASE("SYNC-COL-D packs start at the last gradient") {
  CHECK(planned({128, 32, 800, 4}, 200) == packs{{3, 2}, {1, 0}});
  CHECK(planned({10, 10, 10, 10, 10}, 20) == packs{{4, 3}, {2, 1}, {0}});
  CHECK(planned({10, 20}, 0) == packs{{1, 0}});
  CHECK(planned({10, std::nullopt}, 5) == packs{{1, 0}});
}

TEST_CASE("SYNC-COL-D results come back in the original order") {
  const sizes bytes{128, 32, 800, 4, 60};
  for (std::int64_t full : {0, 1, 100, 200, 1000}) {
    const auto plan = planned(bytes, full);
    std::vector<std::vector<std::unique_ptr<std::size_t>>> results; // move-only, as handles may be
    for (const auto& pack : plan) {
      results.emplace_back();
      for (auto tensor : pack)
        results.back().push_back(std::make_unique<std::size_t>(tensor));
    }
    const auto back = in_original_order(std::span{plan}, std::move(results));
    REQUIRE(back);
    REQUIRE(back->size() == bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      CHECK(*(*back)[i] == i);
  }
}

TEST_CASE("SYNC-COL-D results that do not fit the plan are refused") {
  const auto back = [](const packs& plan, std::vector<std::vector<int>> results) {
    return refusal(in_original_order(std::span{plan}, std::move(results)));
  };
  CHECK(back({{1, 0}}, {}) == "gradient packs: there are 0 packs of results, the plan has 1");
  CHECK(back({{1, 0}, {2}}, {{5, 6}, {}})
        == "gradient packs: pack 1 has 0 results, the plan has 1");
  CHECK(back({{1, 3}}, {{5, 6}}) == "gradient packs: pack 0 has tensor 3, there are 2");
  CHECK(back({{1}, {1}}, {{5}, {6}}) == "gradient packs: tensor 1 is there twice");
}

TEST_CASE("SYNC-NCC-1 a negative number of packs is refused, 0 packs nothing") {
  CHECK(refusal(plan_equal_parts(counts{4}, -1))
        == "gradient packs: num_packs is -1, must be from 0 to 65536");
  CHECK(refusal(plan_equal_parts(counts{4}, 65'537))
        == "gradient packs: num_packs is 65537, must be from 0 to 65536");
  CHECK(equal({4, 0, 2}, 0) == parts{{4, {{0, 0, 4}}}, {0, {}}, {2, {{2, 0, 2}}}});
  CHECK(equal({}, 0).empty());
}

TEST_CASE("SYNC-NCC-2 all elements are cut in equal parts, the last takes the remainder") {
  CHECK(equal({3, 2, 5}, 1) == parts{{10, {{0, 0, 3}, {1, 0, 2}, {2, 0, 5}}}});
  CHECK(equal({3, 2, 5}, 2) == parts{{5, {{0, 0, 3}, {1, 0, 2}}}, {5, {{2, 0, 5}}}});
  CHECK(equal({3, 2, 6}, 3)
        == parts{{3, {{0, 0, 3}}}, {3, {{1, 0, 2}, {2, 0, 1}}}, {5, {{2, 1, 5}}}});
  // Fewer elements than parts: all are the remainder.
  CHECK(equal({1, 1}, 3) == parts{{0, {}}, {0, {}}, {2, {{0, 0, 1}, {1, 0, 1}}}});
  CHECK(equal({}, 2) == parts{{0, {}}, {0, {}}});
  CHECK(refusal(plan_equal_parts(counts{1, std::numeric_limits<std::uint64_t>::max()}, 1))
        == "gradient packs: tensor 1 has 18446744073709551615 elements, the sum is over 64 bits");
}

TEST_CASE("SYNC-NCC-2 cutting back finds each element once, in order") {
  for (unsigned pattern = 0; pattern < 625; ++pattern) // four tensors of 0 to 4 elements
    for (std::int64_t packs = 1; packs <= 7; ++packs) {
      counts elements;
      for (auto rest = pattern; elements.size() < 4; rest /= 5)
        elements.push_back(rest % 5);
      const auto total = std::accumulate(elements.begin(), elements.end(), std::uint64_t{0});
      const auto got = equal(elements, packs);
      REQUIRE(got.size() == static_cast<std::size_t>(packs));
      counts found(4);
      std::size_t current = 0;
      for (std::size_t p = 0; p < got.size(); ++p) {
        std::uint64_t held = 0;
        for (const auto& segment : got[p].segments) {
          REQUIRE(segment.tensor >= current);
          REQUIRE(segment.count > 0);
          REQUIRE(segment.begin == found[segment.tensor]);
          current = segment.tensor;
          found[segment.tensor] += segment.count;
          held += segment.count;
        }
        REQUIRE(held == got[p].count);
        if (p + 1 < got.size())
          REQUIRE(held == total / got.size());
      }
      REQUIRE(found == elements);
    }
}
