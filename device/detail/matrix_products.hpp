#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include <troupe/core/device_port.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::detail {

/// Row-major matrices as they lie: c = op(a) op(b) + beta c, with c: [rows, cols] and `inner` the
/// length of the sums.
struct product {
  dtype type = dtype::f32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t inner = 0;
  bool a_transposed = false; ///< a lies as [inner, rows]
  bool b_transposed = false; ///< b lies as [cols, inner]
  double beta = 0;           ///< 0 or 1
};

/// cuBLAS on one stream. The library is loaded, and its handle made, with the first product. Sums
/// are of full products (no TF32). One thread at a time. On a device that is not well at the end
/// the handle is left behind: giving it back may hang.
class matrix_products {
public:
  matrix_products(native_stream stream, std::uint32_t device, std::function<bool()> is_well)
    : stream_{stream}, device_{device}, is_well_{std::move(is_well)} {}
  ~matrix_products();
  matrix_products(const matrix_products&) = delete;
  matrix_products& operator=(const matrix_products&) = delete;
  /// Enqueues. The answer is `unavailable` without the library.
  device_answer run(const product& what);

private:
  device_answer prepare();
  [[maybe_unused]] const native_stream stream_; // as is the next, in a build without CUDA
  [[maybe_unused]] const std::uint32_t device_;
  [[maybe_unused]] const std::function<bool()> is_well_;
  [[maybe_unused]] void* handle_ = nullptr;
};

} // namespace troupe::detail
