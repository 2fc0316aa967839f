#include <troupe/kernels/cuda.hpp>

#include <troupe/kernels/detail/cuda_map.cuh>
#include <troupe/kernels/detail/scalar_ops.hpp>

#include <cub/device/device_radix_sort.cuh>

#include <limits>

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned rows_per_block = block_threads / 32; // one warp per row

__device__ inline void count_bad(std::int64_t* bad_rows) {
  atomicAdd(reinterpret_cast<unsigned long long*>(bad_rows), 1ull);
}

template <class T>
__global__ void gather(const T* table, std::size_t table_rows, std::size_t cols,
                       const std::int64_t* rows, std::size_t n, T* out, std::int64_t* bad_rows) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(rows_per_block) + threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  if (i >= n)
    return;
  const auto row = static_cast<std::uint64_t>(rows[i]); // a negative row becomes a huge number
  const bool known = row < table_rows;
  if (!known && lane == 0)
    count_bad(bad_rows);
  for (std::size_t c = lane; c < cols; c += 32)
    out[i * cols + c] = known ? table[row * cols + c] : T(0);
}

__global__ void number(std::size_t n, std::uint32_t* index) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < n)
    index[i] = static_cast<std::uint32_t>(i);
}

/// One warp per sorted position: the warp at the first position of a run of equal rows adds the
/// whole run, in order.
template <class T>
__global__ void add_runs(T* table, std::size_t table_rows, std::size_t cols,
                         const std::int64_t* sorted, const std::uint32_t* index, std::size_t n,
                         const T* values, std::int64_t* bad_rows) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(rows_per_block) + threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  if (i >= n)
    return;
  const std::int64_t row = sorted[i];
  if (static_cast<std::uint64_t>(row) >= table_rows) {
    if (lane == 0)
      count_bad(bad_rows);
    return;
  }
  if (i > 0 && sorted[i - 1] == row)
    return;
  T* at = table + static_cast<std::size_t>(row) * cols;
  for (std::size_t c = lane; c < cols; c += 32) {
    T sum = at[c];
    for (std::size_t k = i; k < n && sorted[k] == row; ++k)
      sum = detail::add_one(sum, values[index[k] * cols + c]);
    at[c] = sum;
  }
}

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::size_t sort_bytes(std::size_t n) {
  std::size_t bytes = 0;
  cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<const std::int64_t*>(nullptr),
                                  static_cast<std::int64_t*>(nullptr),
                                  static_cast<const std::uint32_t*>(nullptr),
                                  static_cast<std::uint32_t*>(nullptr), static_cast<int>(n));
  return padded(bytes);
}

} // namespace

template <class T>
int gather_rows(const T* table, std::size_t table_rows, std::size_t cols, const std::int64_t* rows,
                std::size_t n, T* out, std::int64_t* bad_rows, void* stream) {
  if (n * cols == 0)
    return 0;
  gather<<<blocks_for(n, rows_per_block), block_threads, 0, stream_of(stream)>>>(
    table, table_rows, cols, rows, n, out, bad_rows);
  return launched();
}

std::size_t scatter_scratch_bytes(std::size_t n) {
  return padded(n * sizeof(std::int64_t)) + 2 * padded(n * sizeof(std::uint32_t)) + sort_bytes(n);
}

template <class T>
int scatter_add_rows(T* table, std::size_t table_rows, std::size_t cols, const std::int64_t* rows,
                     std::size_t n, const T* values, std::int64_t* bad_rows, void* scratch,
                     void* stream) {
  if (n * cols == 0)
    return 0;
  if (n > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return static_cast<int>(cudaErrorInvalidValue);
  auto* at = static_cast<char*>(scratch);
  auto* sorted = reinterpret_cast<std::int64_t*>(at);
  at += padded(n * sizeof(std::int64_t));
  auto* from = reinterpret_cast<std::uint32_t*>(at);
  at += padded(n * sizeof(std::uint32_t));
  auto* index = reinterpret_cast<std::uint32_t*>(at);
  at += padded(n * sizeof(std::uint32_t));
  std::size_t bytes = sort_bytes(n);
  number<<<blocks_for(n, block_threads), block_threads, 0, stream_of(stream)>>>(n, from);
  if (const int failed = launched(); failed != 0)
    return failed;
  const auto sort = cub::DeviceRadixSort::SortPairs(at, bytes, rows, sorted, from, index,
                                                    static_cast<int>(n), 0, 64, stream_of(stream));
  if (sort != cudaSuccess)
    return static_cast<int>(sort);
  add_runs<<<blocks_for(n, rows_per_block), block_threads, 0, stream_of(stream)>>>(
    table, table_rows, cols, sorted, index, n, values, bad_rows);
  return launched();
}

#define TROUPE_INSTANTIATE(T)                                                                      \
  template int gather_rows<T>(const T*, std::size_t, std::size_t, const std::int64_t*,             \
                              std::size_t, T*, std::int64_t*, void*);                              \
  template int scatter_add_rows<T>(T*, std::size_t, std::size_t, const std::int64_t*, std::size_t, \
                                   const T*, std::int64_t*, void*, void*);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
TROUPE_INSTANTIATE(std::int32_t)
TROUPE_INSTANTIATE(std::int64_t)
TROUPE_INSTANTIATE(std::uint8_t)
#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels::cuda
