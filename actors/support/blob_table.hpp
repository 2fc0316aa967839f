#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <troupe/core/ids.hpp>
#include <troupe/core/limits.hpp>
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
  explicit blob_table(std::uint64_t bytes_max = limits::blob_bytes) : bytes_max_{bytes_max} {}
  /// Results are taken only of closures for which it holds; not set: of all. A worker that is slow
  /// to hear of its fence may send one for a closure that ended elsewhere, and nobody would drop
  /// it.
  void take_results_if(std::function<bool(const closure_id&)> is_open);
  /// Keeps a blob in place of one of the same key. `too_large` names the sizes when the table would
  /// be over its bound; `cancelled`: a result that nobody waits for.
  result<void> put(const blob_key& key, std::string bytes);
  /// The bytes of a blob, shared: they stay valid after `drop`.
  std::shared_ptr<const std::string> get(const blob_key& key) const;
  void drop(const blob_key& key);
  /// Drops all blobs of a closure.
  void drop(const closure_id& closure);
  std::uint64_t size_bytes() const;
  std::uint64_t bytes_max() const { return bytes_max_; }
  /// Without the lock: a closure's end looks here before it asks to drop.
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

private:
  mutable std::mutex mutex_;
  const std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
  std::atomic<std::size_t> count_{0}; ///< of blobs_
  std::function<bool(const closure_id&)> is_open_{};
  std::map<blob_key, std::shared_ptr<const std::string>> blobs_{};
};

} // namespace troupe
