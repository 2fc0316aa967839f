#include <troupe/actors/support/blob_table.hpp>

namespace troupe {

void blob_table::take_results_if(std::function<bool(const closure_id&)> is_open) {
  std::lock_guard lock{mutex_};
  is_open_ = std::move(is_open);
}

result<void> blob_table::put(const blob_key& key, std::string bytes) {
  std::lock_guard lock{mutex_};
  if (key.role == blob_role::result && is_open_ && !is_open_(key.closure))
    return make_failure(errc::cancelled, "result of closure " + std::to_string(key.closure.seq)
                                           + " attempt " + std::to_string(value_of(key.attempt))
                                           + ": the closure has ended");
  auto at = blobs_.find(key);
  std::uint64_t before = at == blobs_.end() ? 0 : at->second->size();
  if (bytes_ - before + bytes.size() > bytes_max_)
    return make_failure(errc::too_large, "blob of closure " + std::to_string(key.closure.seq) + ": "
                                           + std::to_string(bytes.size()) + " bytes beside "
                                           + std::to_string(bytes_) + " of at most "
                                           + std::to_string(bytes_max_));
  bytes_ = bytes_ - before + bytes.size();
  blobs_[key] = std::make_shared<const std::string>(std::move(bytes));
  count_ = blobs_.size();
  return {};
}

std::shared_ptr<const std::string> blob_table::get(const blob_key& key) const {
  std::lock_guard lock{mutex_};
  auto at = blobs_.find(key);
  return at == blobs_.end() ? nullptr : at->second;
}

void blob_table::drop(const blob_key& key) {
  std::lock_guard lock{mutex_};
  if (auto at = blobs_.find(key); at != blobs_.end()) {
    bytes_ -= at->second->size();
    blobs_.erase(at);
    count_ = blobs_.size();
  }
}

void blob_table::drop(const closure_id& closure) {
  std::lock_guard lock{mutex_};
  auto at =
    blobs_.lower_bound(blob_key{.closure = closure, .attempt = {}, .role = blob_role::argument});
  while (at != blobs_.end() && at->first.closure == closure) {
    bytes_ -= at->second->size();
    at = blobs_.erase(at);
  }
  count_ = blobs_.size();
}

std::uint64_t blob_table::size_bytes() const {
  std::lock_guard lock{mutex_};
  return bytes_;
}

} // namespace troupe
