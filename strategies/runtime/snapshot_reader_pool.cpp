#include <troupe/strategies/runtime/detail/snapshot_reader_pool.hpp>

namespace troupe {

result<std::unique_ptr<snapshot_reader>> snapshot_reader_pool::take(std::uint32_t server) {
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

void snapshot_reader_pool::give_back(std::uint32_t server,
                                     std::unique_ptr<snapshot_reader> reader) {
  std::lock_guard lock{mutex_};
  if (!closed_)
    idle_.try_emplace(server, std::move(reader));
}

void snapshot_reader_pool::close() {
  std::lock_guard lock{mutex_};
  closed_ = true;
  idle_.clear();
}

std::uint64_t snapshot_reader_pool::opened() const {
  std::lock_guard lock{mutex_};
  return opened_;
}

snapshot_readers::~snapshot_readers() {
  for (auto& [server, reader] : held_)
    if (reader)
      from_.give_back(server, std::move(reader));
}

} // namespace troupe
