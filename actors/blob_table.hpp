#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <troupe/core/ids.hpp>
#include <troupe/core/result.hpp>

namespace troupe {

enum class blob_role : std::uint8_t { argument = 0, result = 1 };

/// A closure's argument or result that is too large for a message.
struct blob_key {
  closure_id closure{};
  attempt_no attempt{}; ///< 0 for arguments, which all attempts share
  blob_role role = blob_role::argument;
  friend auto operator<=>(const blob_key&, const blob_key&) = default;
  TROUPE_FIELDS(blob_key, closure, attempt, role)
};

/// Blobs by key, bounded by `bytes_max`. Any thread.
class blob_table {
public:
  explicit blob_table(std::uint64_t bytes_max = std::uint64_t{4} << 30) : bytes_max_{bytes_max} {}
  /// Replaces one of the same key. `too_large` names the sizes when the table would be over its
  /// bound.
  result<void> put(const blob_key& key, std::string bytes);
  /// Shares the bytes: they stay valid after `drop`.
  std::shared_ptr<const std::string> get(const blob_key& key) const;
  void drop(const blob_key& key);
  /// All blobs of a closure.
  void drop(const closure_id& closure);
  std::uint64_t size_bytes() const;

private:
  mutable std::mutex mutex_;
  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
  std::map<blob_key, std::shared_ptr<const std::string>> blobs_{};
};

} // namespace troupe
