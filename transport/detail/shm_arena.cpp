#include <troupe/transport/detail/shm_arena.hpp>

#include <map>
#include <mutex>
#include <utility>

namespace troupe::detail {

namespace {

constexpr std::size_t alignment = 4096;

} // namespace

/// Pieces that are out: offset and size.
struct shm_arena::ledger {
  std::mutex mutex{};
  std::map<std::size_t, std::size_t> taken{};

  std::optional<std::size_t> take(std::size_t bytes, std::size_t all) {
    const std::lock_guard lock{mutex};
    std::size_t at = 0;
    for (const auto& [begin, size] : taken) {
      if (begin - at >= bytes)
        break;
      at = begin + size;
    }
    if (at > all || all - at < bytes)
      return std::nullopt;
    taken.emplace(at, bytes);
    return at;
  }
  void give_back(std::size_t at) {
    const std::lock_guard lock{mutex};
    taken.erase(at);
  }
};

shm_arena::shm_arena(std::shared_ptr<host_memory> memory, std::size_t begin, std::size_t bytes)
  : memory_{std::move(memory)},
    ledger_{std::make_shared<ledger>()},
    begin_{memory_->data() + begin},
    bytes_{bytes} {}

tensor shm_arena::allocate(dtype type, shape_t shape) {
  const auto wanted = static_cast<std::size_t>(count_of(shape)) * size_of(type);
  const std::size_t bytes = (wanted + alignment - 1) / alignment * alignment;
  const auto at = wanted > 0 ? ledger_->take(bytes, bytes_) : std::nullopt;
  if (!at)
    return tensor{type, std::move(shape)};
  std::byte* const data = begin_ + *at;
  std::shared_ptr<void> owner{
    data, [memory = memory_, ledger = ledger_, at = *at](void*) { ledger->give_back(at); }};
  return tensor{type, std::move(shape), std::move(owner), data};
}

std::optional<std::size_t> shm_arena::offset_of(const std::byte* at) const {
  if (at < begin_ || at >= begin_ + bytes_)
    return std::nullopt;
  return static_cast<std::size_t>(at - begin_);
}

} // namespace troupe::detail
