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
  if (auto found = find(size, stream)) {
    out = {.memory = found->memory, .bytes = size, .stream = stream};
    forget_events(*found);
    return {};
  }
  void* memory = nullptr;
  const auto trims = statistics().trims;
  auto answer = allocate(size, memory);
  if (answer.status == device_status::out_of_memory && make_room(trims))
    answer = allocate(size, memory);
  if (answer.ok())
    out = {.memory = memory, .bytes = size, .stream = stream};
  return answer;
}

/// Counts the block as in use first, so that the bound holds while the device is asked.
device_answer caching_pool::allocate(std::size_t size, void*& out) {
  {
    std::lock_guard lock{mutex_};
    const auto held = numbers_.bytes_in_use + numbers_.bytes_cached;
    if (options_.bytes_max != 0 && (size > options_.bytes_max || held > options_.bytes_max - size))
      return {.status = device_status::out_of_memory};
    numbers_.bytes_in_use += size;
    ++numbers_.blocks_in_use;
  }
  auto answer = backend_.allocate(size, out);
  std::lock_guard lock{mutex_};
  if (answer.ok()) {
    ++numbers_.taken_from_device;
    numbers_.bytes_peak =
      std::max(numbers_.bytes_peak, numbers_.bytes_in_use + numbers_.bytes_cached);
  } else {
    numbers_.bytes_in_use -= size;
    --numbers_.blocks_in_use;
  }
  return answer;
}

/// Gives the cache back. False when there was nothing, nor had been since there were `trims` trims.
bool caching_pool::make_room(std::uint64_t trims) {
  {
    std::lock_guard lock{mutex_};
    if (numbers_.blocks_cached == 0)
      return numbers_.trims != trims;
    ++numbers_.trims;
  }
  trim(false);
  return true;
}

/// Under the lock: the block is the caller's now.
auto caching_pool::use(std::size_t bytes, blocks& from, blocks::iterator at) -> cached {
  auto out = std::move(*at);
  from.erase(at);
  ++numbers_.taken_from_cache;
  numbers_.bytes_cached -= bytes;
  --numbers_.blocks_cached;
  numbers_.bytes_in_use += bytes;
  ++numbers_.blocks_in_use;
  return out;
}

/// The block of that size that serves `stream` soonest: its own first.
auto caching_pool::find(std::size_t bytes, native_stream stream) -> std::optional<cached> {
  blocks asked;
  {
    std::lock_guard lock{mutex_};
    auto line = free_.find(bytes);
    if (line == free_.end())
      return std::nullopt;
    auto& all = line->second;
    auto at = std::find_if(all.rbegin(), all.rend(), [&](const cached& c) {
      return !c.only_events && c.stream.handle == stream.handle;
    });
    if (at != all.rend()) {
      auto out = use(bytes, all, std::next(at).base());
      if (all.empty())
        free_.erase(line);
      return out;
    }
    asked = std::move(all); // nobody else finds them while the device is asked
    free_.erase(line);
  }
  auto at = std::find_if(asked.rbegin(), asked.rend(), [&](cached& c) { return is_free(c); });
  std::lock_guard lock{mutex_};
  std::optional<cached> out;
  if (at != asked.rend() && !abandoned_)
    out = use(bytes, asked, std::next(at).base());
  put_back(bytes, std::move(asked));
  return out;
}

/// Under the lock. What was abandoned meanwhile is not kept.
void caching_pool::put_back(std::size_t bytes, blocks some) {
  if (some.empty() || abandoned_)
    return;
  auto& all = free_[bytes];
  all.insert(all.begin(), std::make_move_iterator(some.begin()),
             std::make_move_iterator(some.end()));
}

bool caching_pool::is_free(cached& c) {
  if (!mark_all(c))
    return false;
  while (!c.until.empty()) {
    if (!backend_.passed(c.until.back()).ok())
      return false;
    backend_.drop(c.until.back());
    c.until.pop_back();
  }
  return true;
}

/// An event behind each use of the block. False when the device has none to give now: a later one
/// does as well.
bool caching_pool::mark_all(cached& c) {
  while (!c.unmarked.empty()) {
    native_event event;
    if (!backend_.record_event(c.unmarked.back(), event).ok())
      return false;
    c.until.push_back(event);
    c.unmarked.pop_back();
  }
  return true;
}

void caching_pool::forget_events(cached& c) {
  for (auto event : c.until)
    backend_.drop(event);
  c.until.clear();
}

void caching_pool::give_back(const pool_block& block, const std::vector<native_stream>& used_on) {
  cached c{.memory = block.memory, .stream = block.stream, .only_events = !used_on.empty()};
  if (!abandoned_) {
    c.unmarked = used_on;
    c.unmarked.push_back(block.stream);
    std::erase_if(c.unmarked, [](native_stream s) { return !s.handle; });
    (void)mark_all(c);
  }
  std::lock_guard lock{mutex_};
  numbers_.bytes_in_use -= block.bytes;
  --numbers_.blocks_in_use;
  if (abandoned_)
    return;
  numbers_.bytes_cached += block.bytes;
  ++numbers_.blocks_cached;
  free_[block.bytes].push_back(std::move(c));
}

void caching_pool::trim(bool force) {
  std::lock_guard one_at_a_time{trim_mutex_}; // who comes second finds the room that the first made
  std::map<std::size_t, blocks> all;
  {
    std::lock_guard lock{mutex_};
    all = std::exchange(free_, {});
  }
  for (auto& [bytes, some] : all) {
    std::uint64_t released = 0;
    std::erase_if(some, [&](cached& c) {
      if (abandoned_ || (!force && !is_free(c)))
        return false;
      forget_events(c);
      (void)backend_.release(c.memory);
      ++released;
      return true;
    });
    std::lock_guard lock{mutex_};
    if (!abandoned_) {
      numbers_.bytes_cached -= released * bytes;
      numbers_.blocks_cached -= released;
    }
    put_back(bytes, std::move(some));
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
