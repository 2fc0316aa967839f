#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <troupe/troupe.hpp>

/// Counts that tell whether every step took effect exactly once on every shard. Each attempt of a
/// step adds 1 to its cell on every server and writes its number into a second variable; in the end
/// the cells are compared with the steps that finished. Source: docs/protocol.md, effect once.
namespace tool {

/// Updates that are missing and updates that are too many.
struct effect_difference {
  std::uint64_t lost = 0;
  std::uint64_t doubled = 0;
};

/// Adds up |expected - actual| over cells. `actual`: expected.size() cells for each of the shards,
/// shard by shard.
effect_difference compare_cells(std::span<const std::uint64_t> expected,
                                std::span<const std::int64_t> actual);

/// Adds up |expected - actual| over shards that count what they applied. `expected`: of each.
effect_difference compare_versions(std::uint64_t expected, std::span<const std::uint64_t> before,
                                   std::span<const std::uint64_t> after);

/// The rows of an audit variable that one closure writes: its cell on every server.
troupe::tensor audit_rows(std::uint64_t seq, std::uint64_t cells, std::uint32_t servers);

/// Cells a server for a run of so many steps; 0: unknown. At most 65,536.
std::uint64_t audit_cells(std::uint64_t steps);

} // namespace tool
