#include <troupe/strategies/sharding/placement.hpp>

#include <troupe/core/error.hpp>

namespace troupe {

namespace {

void expect_servers(std::uint32_t servers) {
  if (servers == 0)
    throw_failure(errc::invalid_argument, "placement: servers is 0");
}

} // namespace

std::uint32_t round_robin_placement::next(std::uint32_t servers, std::uint64_t) {
  expect_servers(servers);
  return static_cast<std::uint32_t>(count_++ % servers);
}

std::uint32_t by_bytes_placement::next(std::uint32_t servers, std::uint64_t bytes) {
  expect_servers(servers);
  if (bytes_.size() < servers)
    bytes_.resize(servers, 0);
  std::uint32_t least = 0;
  for (std::uint32_t i = 1; i < servers; ++i)
    if (bytes_[i] < bytes_[least])
      least = i;
  bytes_[least] += bytes;
  return least;
}

std::unique_ptr<placement_policy> make_placement(placement how) {
  switch (how) {
    case placement::round_robin: return std::make_unique<round_robin_placement>();
    case placement::by_bytes: return std::make_unique<by_bytes_placement>();
  }
  throw_failure(errc::invalid_argument,
                "placement(" + std::to_string(static_cast<int>(how)) + ") is not a placement");
}

} // namespace troupe
