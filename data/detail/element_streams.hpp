#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <troupe/data/dataset_types.hpp>
#include <troupe/data/detail/stream.hpp>

/// Streams of elements: rows made into elements, mapped, zipped, batched.
namespace troupe::detail {

/// Memory for batches. A block comes back when the last tensor on it goes, on whichever thread that
/// happens.
class buffer_pool : public std::enable_shared_from_this<buffer_pool> {
public:
  buffer_pool() = default;
  ~buffer_pool();
  buffer_pool(const buffer_pool&) = delete;
  buffer_pool& operator=(const buffer_pool&) = delete;
  /// Elements are not initialised. @pre `shape` is sane.
  tensor make(dtype type, shape_t shape);

private:
  struct block {
    void* at = nullptr;
    std::size_t size_bytes = 0;
  };
  void give_back(block x) noexcept;
  static constexpr std::size_t free_len_max = 8;
  std::mutex lock_;
  std::vector<block> free_{};
};

/// `rows` of `store`.
stream_ptr<element> make_row_elements(std::shared_ptr<const row_store> store,
                                      stream_ptr<row_no> rows);
stream_ptr<element> make_map(stream_ptr<element> input, element_function function);
stream_ptr<element> make_zip(stream_ptr<element> a, stream_ptr<element> b);
/// Gathers the rows straight into the batch.
stream_ptr<element> make_row_batch(std::shared_ptr<const row_store> store, stream_ptr<row_no> rows,
                                   std::size_t size, bool drop_remainder);
stream_ptr<element> make_batch(stream_ptr<element> input, std::size_t size, bool drop_remainder);

/// Calls `function`; throws `invalid_argument` when a part of its result has no value.
element map_one(const element_function& function, const element& x);

} // namespace troupe::detail
