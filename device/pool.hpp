#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <troupe/core/device_port.hpp>

/// A caching allocator: blocks that come back are kept and handed out again, in stream order.
namespace troupe {

/// The functions that the pool uses. Calls come without the pool's lock, since each may hang in a
/// driver.
struct pool_backend {
  std::function<device_answer(std::size_t bytes, void*& out)> allocate{};
  std::function<device_answer(void* memory)> release{};
  /// An event behind all that the stream holds now.
  std::function<device_answer(native_stream stream, native_event& out)> record_event{};
  /// `ok` once the event passed.
  std::function<device_answer(native_event event)> passed{};
  std::function<void(native_event event)> drop{};
};

struct pool_options {
  std::uint64_t bytes_max = 0; ///< in use and cached together; 0: what the device gives
};

struct pool_statistics {
  std::uint64_t bytes_in_use = 0;
  std::uint64_t bytes_cached = 0;
  std::uint64_t bytes_peak = 0; ///< highest of in use and cached together
  std::uint64_t blocks_in_use = 0;
  std::uint64_t blocks_cached = 0;
  std::uint64_t taken_from_cache = 0;
  std::uint64_t taken_from_device = 0;
  std::uint64_t trims = 0; ///< times that the cache was given back because the device was full
};

/// A piece of memory that the pool gave out.
struct pool_block {
  void* memory = nullptr;
  std::size_t bytes = 0; ///< as rounded up
  native_stream stream{};
};

/// A pool of device memory. Any thread. A block that comes back on the stream it was taken for may
/// be taken for the same stream at once, since what uses it next runs behind what used it last;
/// another stream gets it once the events passed that were recorded when it came back. A block that
/// other streams used as well waits for events on those too. Sizes are rounded up to 512 bytes, or
/// to an eighth of the next power of two. When the device is full the cache is given back and the
/// device asked again, once. A block whose events can't be made when it comes back is kept until
/// they can.
class caching_pool {
public:
  caching_pool(pool_backend backend, pool_options options);
  /// @pre `clear` was called, or what is left shall be left.
  ~caching_pool() = default;
  caching_pool(const caching_pool&) = delete;
  caching_pool& operator=(const caching_pool&) = delete;

  /// Takes a block of at least `bytes`. The answer is `out_of_memory` when there is none. 0 bytes
  /// take the smallest block.
  device_answer take(std::size_t bytes, native_stream stream, pool_block& out);
  /// `used_on`: streams beside the block's own that may still use it.
  void give_back(const pool_block& block, const std::vector<native_stream>& used_on);
  /// Gives all cached blocks back to the device whose events passed; with `force`, all.
  void trim(bool force = false);
  /// Forgets what is cached without touching the device, after the device failed. The number of
  /// blocks forgotten.
  std::uint64_t abandon();
  pool_statistics statistics() const;
  /// The bytes that a request of `bytes` takes.
  static std::size_t rounded(std::size_t bytes);

private:
  struct cached {
    void* memory = nullptr;
    native_stream stream{};
    std::vector<native_event> until{};     ///< others than `stream` wait for these
    std::vector<native_stream> unmarked{}; ///< that no event could be made for yet
    bool only_events = false;              ///< other streams used it too: `stream` waits as well
  };
  using blocks = std::vector<cached>;
  bool is_free(cached& c);
  bool mark_all(cached& c);
  std::optional<cached> find(std::size_t bytes, native_stream stream);
  device_answer allocate(std::size_t size, void*& out);
  bool make_room(std::uint64_t trims);
  cached use(std::size_t bytes, blocks& from, blocks::iterator at);
  void put_back(std::size_t bytes, blocks some);
  void forget_events(cached& c);

  const pool_backend backend_;
  const pool_options options_;
  std::mutex trim_mutex_{}; ///< held while the device is asked; taken before the other
  mutable std::mutex mutex_{};
  std::map<std::size_t, blocks> free_{}; ///< by rounded size
  pool_statistics numbers_{};
  std::atomic<bool> abandoned_{false}; ///< set under the lock
};

} // namespace troupe
