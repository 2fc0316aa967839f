#include <troupe/device/pool.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace troupe {

namespace {
constexpr std::size_t block_bytes_min = 512;
}

caching_pool::caching_pool(pool_backend backend, pool_options options)
  : backend_{std::move(backend)}, options_{options} {}

std::size_t caching_pool::rounded(std::size_t bytes) {
  if (bytes <= block_bytes_min)
    return block_bytes_min;
  const std::size_t step = std::max(block_bytes_min, std::bit_ceil(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

device_answer caching_pool::take(std::size_t bytes, native_stream stream, pool_block& out) {
  const std::size_t size = rounded(bytes);
  if (size < bytes) // wrapped around
    return {.status = device_status::out_of_memory};
  std::lock_guard lock{mutex_};
  if (auto found = find(size, stream)) {
    ++numbers_.taken_from_cache;
    numbers_.bytes_cached -= size;
    --numbers_.blocks_cached;
    out = {.memory = found->memory, .bytes = size, .stream = stream};
  } else {
    auto room = [&] {
      const auto held = numbers_.bytes_in_use + numbers_.bytes_cached;
      return options_.bytes_max == 0
             || (size <= options_.bytes_max && held <= options_.bytes_max - size);
    };
    void* memory = nullptr;
    device_answer answer{.status = device_status::out_of_memory};
    if (room())
      answer = backend_.allocate(size, memory);
    if (answer.status == device_status::out_of_memory && !free_.empty()) {
      ++numbers_.trims;
      trim_locked(false);
      if (room())
        answer = backend_.allocate(size, memory);
    }
    if (!answer.ok())
      return answer;
    ++numbers_.taken_from_device;
    out = {.memory = memory, .bytes = size, .stream = stream};
  }
  numbers_.bytes_in_use += size;
  ++numbers_.blocks_in_use;
  numbers_.bytes_peak =
    std::max(numbers_.bytes_peak, numbers_.bytes_in_use + numbers_.bytes_cached);
  return {};
}

/// The block of that size that serves `stream` soonest: its own first.
auto caching_pool::find(std::size_t bytes, native_stream stream) -> std::optional<cached> {
  auto line = free_.find(bytes);
  if (line == free_.end())
    return std::nullopt;
  auto& blocks = line->second;
  auto at = std::find_if(blocks.rbegin(), blocks.rend(), [&](const cached& c) {
    return !c.only_events && c.stream.handle == stream.handle;
  });
  if (at == blocks.rend())
    at = std::find_if(blocks.rbegin(), blocks.rend(), [&](cached& c) { return is_free(c); });
  if (at == blocks.rend())
    return std::nullopt;
  auto out = std::move(*at);
  blocks.erase(std::next(at).base());
  if (blocks.empty())
    free_.erase(line);
  forget_events(out);
  return out;
}

bool caching_pool::is_free(cached& c) {
  while (!c.until.empty()) {
    if (!backend_.passed(c.until.back()).ok())
      return false;
    backend_.drop(c.until.back());
    c.until.pop_back();
  }
  return true;
}

void caching_pool::forget_events(cached& c) {
  for (auto event : c.until)
    backend_.drop(event);
  c.until.clear();
}

void caching_pool::give_back(const pool_block& block, const std::vector<native_stream>& used_on) {
  std::lock_guard lock{mutex_};
  numbers_.bytes_in_use -= block.bytes;
  --numbers_.blocks_in_use;
  if (abandoned_)
    return;
  cached c{.memory = block.memory, .stream = block.stream, .only_events = !used_on.empty()};
  bool marked = true;
  auto mark = [&](native_stream stream) {
    native_event event;
    if (stream.handle && backend_.mark(stream, event).ok())
      c.until.push_back(event);
    else
      marked = marked && !stream.handle;
  };
  mark(block.stream);
  for (auto stream : used_on)
    mark(stream);
  if (!marked) { // the device fails: who may still use the block cannot be known
    forget_events(c);
    return;
  }
  numbers_.bytes_cached += block.bytes;
  ++numbers_.blocks_cached;
  free_[block.bytes].push_back(std::move(c));
}

void caching_pool::trim(bool force) {
  std::lock_guard lock{mutex_};
  trim_locked(force);
}

void caching_pool::trim_locked(bool force) {
  for (auto line = free_.begin(); line != free_.end();) {
    auto& blocks = line->second;
    std::erase_if(blocks, [&](cached& c) {
      if (!is_free(c) && !force)
        return false;
      forget_events(c);
      (void)backend_.release(c.memory);
      numbers_.bytes_cached -= line->first;
      --numbers_.blocks_cached;
      return true;
    });
    line = blocks.empty() ? free_.erase(line) : std::next(line);
  }
}

std::uint64_t caching_pool::abandon() {
  std::lock_guard lock{mutex_};
  abandoned_ = true;
  free_.clear();
  numbers_.blocks_cached = 0;
  return std::exchange(numbers_.bytes_cached, 0) + numbers_.bytes_in_use;
}

pool_statistics caching_pool::statistics() const {
  std::lock_guard lock{mutex_};
  return numbers_;
}

} // namespace troupe
