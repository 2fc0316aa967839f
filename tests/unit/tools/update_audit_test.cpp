// Goal: an update that is missing or doubled on any one shard is counted, and the two never cancel.
#include "update_audit.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace tool;

TEST_CASE("audit: equal cells on all shards are neither lost nor doubled") {
  const auto d =
    compare_cells(std::vector<std::uint64_t>{1, 1, 0}, std::vector<std::int64_t>{1, 1, 0, 1, 1, 0});
  CHECK(d.lost == 0);
  CHECK(d.doubled == 0);
}

TEST_CASE("audit: one lost and one doubled on different shards are both counted") {
  const auto d =
    compare_cells(std::vector<std::uint64_t>{1, 1, 2}, std::vector<std::int64_t>{1, 0, 2, 2, 1, 3});
  CHECK(d.lost == 1);
  CHECK(d.doubled == 2);
}

TEST_CASE("audit: a negative cell counts as lost") {
  CHECK(compare_cells(std::vector<std::uint64_t>{1}, std::vector<std::int64_t>{-3}).lost == 1);
}

TEST_CASE("audit: cells that don't fit the shards are refused") {
  CHECK_THROWS_AS(
    compare_cells(std::vector<std::uint64_t>{1, 1}, std::vector<std::int64_t>{1, 1, 1}),
    troupe::error);
  CHECK_THROWS_AS(compare_cells({}, {}), troupe::error);
}

TEST_CASE("audit: versions are compared shard by shard") {
  const std::vector<std::uint64_t> before{0, 10, 5};
  const std::vector<std::uint64_t> after{4, 13, 10};
  const auto d = compare_versions(4, before, after);
  CHECK(d.lost == 1);
  CHECK(d.doubled == 1);
  CHECK_THROWS_AS(compare_versions(4, before, std::vector<std::uint64_t>{4}), troupe::error);
}

TEST_CASE("audit: a closure has the same cell on every server's shard") {
  const auto rows = audit_rows(12, 10, 3);
  CHECK(rows == troupe::tensor::vector<std::int64_t>({2, 12, 22}));
  CHECK(audit_cells(0) == 65'536);
  CHECK(audit_cells(937) == 937);
  CHECK(audit_cells(1'000'000) == 65'536);
}
