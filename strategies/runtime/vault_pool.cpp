#include <troupe/strategies/runtime/detail/vault_pool.hpp>

namespace troupe {

result<std::unique_ptr<server_vault>> vault_pool::take(std::uint32_t server) {
  {
    std::lock_guard lock{mutex_};
    if (auto at = idle_.find(server); at != idle_.end()) {
      auto out = std::move(at->second);
      idle_.erase(at);
      return out;
    }
    ++opened_;
  }
  return open_(server);
}

void vault_pool::give_back(std::uint32_t server, std::unique_ptr<server_vault> vault) {
  std::lock_guard lock{mutex_};
  if (!closed_)
    idle_.try_emplace(server, std::move(vault));
}

void vault_pool::close() {
  std::lock_guard lock{mutex_};
  closed_ = true;
  idle_.clear();
}

std::uint64_t vault_pool::opened() const {
  std::lock_guard lock{mutex_};
  return opened_;
}

vaults::~vaults() {
  for (auto& [server, vault] : held_)
    if (vault)
      from_.give_back(server, std::move(vault));
}

} // namespace troupe
