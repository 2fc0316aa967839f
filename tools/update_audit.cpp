#include "update_audit.hpp"

#include <algorithm>

namespace tool {

namespace {

constexpr std::uint64_t cells_max = 65'536;

void add_difference(effect_difference& to, std::uint64_t expected, std::uint64_t actual) {
  to.lost += expected > actual ? expected - actual : 0;
  to.doubled += actual > expected ? actual - expected : 0;
}

} // namespace

effect_difference compare_cells(std::span<const std::uint64_t> expected,
                                std::span<const std::int64_t> actual) {
  if (expected.empty() || actual.size() % expected.size() != 0)
    troupe::throw_failure(troupe::errc::invalid_argument, "audit: " + std::to_string(actual.size())
                                                            + " cells, expected a multiple of "
                                                            + std::to_string(expected.size()));
  effect_difference out;
  for (std::size_t i = 0; i < actual.size(); ++i)
    add_difference(out, expected[i % expected.size()],
                   static_cast<std::uint64_t>(std::max<std::int64_t>(actual[i], 0)));
  return out;
}

effect_difference compare_versions(std::uint64_t expected, std::span<const std::uint64_t> before,
                                   std::span<const std::uint64_t> after) {
  if (before.size() != after.size())
    troupe::throw_failure(troupe::errc::invalid_argument,
                          "audit: " + std::to_string(before.size()) + " shards before training, "
                            + std::to_string(after.size()) + " after");
  effect_difference out;
  for (std::size_t i = 0; i < after.size(); ++i)
    add_difference(out, expected, after[i] - before[i]);
  return out;
}

troupe::tensor audit_rows(std::uint64_t seq, std::uint64_t cells, std::uint32_t servers) {
  troupe::tensor out{troupe::dtype::i64, {static_cast<std::int64_t>(servers)}};
  auto rows = out.mutable_as<std::int64_t>();
  for (std::uint32_t s = 0; s < servers; ++s)
    rows[s] = static_cast<std::int64_t>(s * cells + seq % cells);
  return out;
}

std::uint64_t audit_cells(std::uint64_t steps) {
  return steps == 0 ? cells_max : std::min(steps, cells_max);
}

} // namespace tool
