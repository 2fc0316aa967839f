#pragma once

#include <cstdint>
#include <memory>
#include <vector>

/// Chooses the server of each new shard. One object per strategy; one thread at a time.
namespace troupe {

/// How new shards are spread over the servers.
enum class placement : std::uint8_t {
  round_robin = 0, ///< server 0, 1, 2, ... in turn, whatever their size
  by_bytes = 1,    ///< to the server that was given the fewest bytes so far
};

/// A rule that gives each new shard a server.
class placement_policy {
public:
  virtual ~placement_policy() = default;
  /// Server of the next shard of `bytes` bytes, below `servers`. Throws `invalid_argument` when
  /// `servers` is 0.
  virtual std::uint32_t next(std::uint32_t servers, std::uint64_t bytes) = 0;
};

/// Counts created variables, a sharded one once per shard; the server is the count modulo the
/// number of servers.
class round_robin_placement final : public placement_policy {
public:
  std::uint32_t next(std::uint32_t servers, std::uint64_t bytes = 0) override;
  /// Shards placed so far.
  std::uint64_t count() const noexcept { return count_; }

private:
  std::uint64_t count_ = 0;
};

/// Gives the server with the fewest bytes; among equals the lowest index.
class by_bytes_placement final : public placement_policy {
public:
  std::uint32_t next(std::uint32_t servers, std::uint64_t bytes) override;
  /// Bytes given to each server so far.
  const std::vector<std::uint64_t>& bytes() const noexcept { return bytes_; }

private:
  std::vector<std::uint64_t> bytes_{};
};

/// A fresh policy. Throws `invalid_argument` for a value outside the enum.
std::unique_ptr<placement_policy> make_placement(placement how);

} // namespace troupe
