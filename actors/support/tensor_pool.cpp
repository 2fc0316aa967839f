#include <troupe/actors/support/tensor_pool.hpp>

#include <map>
#include <mutex>
#include <utility>

namespace troupe {

struct tensor_pool::shelf {
  explicit shelf(std::size_t max) : bytes_max{max} {}

  const std::size_t bytes_max;
  std::mutex mutex{};
  std::multimap<std::size_t, tensor> idle{}; // by size
  std::size_t bytes = 0;

  // The smallest that is large enough, and not so large that most of it would be wasted.
  tensor take(std::size_t wanted) {
    const std::lock_guard lock{mutex};
    const auto at = idle.lower_bound(wanted);
    if (at == idle.end() || at->first > 2 * wanted)
      return {};
    tensor out = std::move(at->second);
    bytes -= at->first;
    idle.erase(at);
    return out;
  }

  void put(tensor memory) {
    const std::size_t size = memory.size_bytes();
    std::multimap<std::size_t, tensor> dropped; // freed without the lock
    const std::lock_guard lock{mutex};
    if (size > bytes_max)
      return;
    while (bytes + size > bytes_max) {
      const auto smallest = idle.begin();
      bytes -= smallest->first;
      dropped.insert(idle.extract(smallest));
    }
    idle.emplace(size, std::move(memory));
    bytes += size;
  }
};

tensor_pool::tensor_pool(std::size_t kept_bytes_max)
  : shelf_{std::make_shared<shelf>(kept_bytes_max)} {}

tensor tensor_pool::make(dtype type, shape_t shape) {
  if (!is_sane(shape, type))
    return tensor{type, std::move(shape)}; // says why not
  const std::size_t bytes = static_cast<std::size_t>(count_of(shape)) * size_of(type);
  if (bytes < kept_from_bytes)
    return tensor{type, std::move(shape)};
  tensor memory = shelf_->take(bytes);
  if (!memory.defined())
    memory = tensor{dtype::u8, {static_cast<std::int64_t>(bytes)}};
  std::byte* const data = memory.mutable_bytes().data();
  // The last handle puts the memory back; its lock orders what was read before what is written.
  std::shared_ptr<void> owner{
    data, [shelf = shelf_, memory](void*) mutable { shelf->put(std::move(memory)); }};
  return tensor{type, std::move(shape), std::move(owner), data};
}

std::size_t tensor_pool::kept_bytes() const {
  const std::lock_guard lock{shelf_->mutex};
  return shelf_->bytes;
}

} // namespace troupe
