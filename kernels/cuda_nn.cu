#include <troupe/kernels/cuda.hpp>

#include <troupe/kernels/detail/cuda_reduce.cuh>

#include <limits>

namespace troupe::kernels::cuda {

namespace {

template <class T>
constexpr T infinite = std::numeric_limits<T>::infinity();
template <class T>
constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();

constexpr unsigned rows_per_block = block_threads / 32; // one warp per row

template <class T, bool Adds>
__global__ void bias_rows(const T* bias, T* y, std::size_t n, std::size_t cols) {
  std::size_t i = blockIdx.x * (blockDim.x * std::size_t{4}) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 4; ++k, i += blockDim.x)
    if (i < n)
      y[i] = Adds ? y[i] + bias[i % cols] : bias[i % cols];
}

/// One thread per column; each adds its rows in order. The loads of a warp are adjacent.
template <class T>
__global__ void sum_columns(const T* dy, T* db, std::size_t rows, std::size_t cols) {
  const std::size_t c = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (c >= cols)
    return;
  T sum = T(0);
#pragma unroll 8
  for (std::size_t r = 0; r < rows; ++r)
    sum += dy[r * cols + c];
  db[c] = sum;
}

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }

template <class T>
__device__ inline T warp_sum(T x) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, half);
  return x;
}

template <class T, class Label>
__global__ void softmax_rows(const T* logits, const Label* labels, std::size_t batch,
                             std::size_t classes, T* dlogits, double* row_loss) {
  const std::size_t row = blockIdx.x * static_cast<std::size_t>(rows_per_block) + threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  if (row >= batch)
    return;
  const T* in = logits + row * classes;
  T largest = -infinite<T>;
  for (std::size_t c = lane; c < classes; c += 32)
    largest = in[c] > largest || in[c] != in[c] ? in[c] : largest;
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, largest, half);
    largest = other > largest || other != other ? other : largest;
  }
  T total = T(0);
  for (std::size_t c = lane; c < classes; c += 32)
    total += exp_of(in[c] - largest);
  total = warp_sum(total);
  const auto label =
    static_cast<std::uint64_t>(labels[row]); // a negative label becomes a huge number
  const bool known = label < classes;
  constexpr T nan = not_a_number<T>;
  if (lane == 0)
    row_loss[row] = known
                      ? log(static_cast<double>(total)) - static_cast<double>(in[label] - largest)
                      : static_cast<double>(nan);
  if (!dlogits)
    return;
  __syncwarp(); // all lanes have read the label's logit; it may be overwritten now
  T* out = dlogits + row * classes;
  const T part = T(1) / (total * static_cast<T>(batch));
  for (std::size_t c = lane; c < classes; c += 32) {
    const T p = exp_of(in[c] - largest) * part;
    out[c] = !known ? nan : c == label ? p - T(1) / static_cast<T>(batch) : p;
  }
}

/// hit[row] = 1 where the first of the largest logits is the label's, else 0.
template <class T, class Label>
__global__ void hits(const T* logits, const Label* labels, std::size_t batch, std::size_t classes,
                     std::int32_t* hit) {
  const std::size_t row = blockIdx.x * static_cast<std::size_t>(rows_per_block) + threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  if (row >= batch)
    return;
  const T* in = logits + row * classes;
  T best = -infinite<T>;
  std::size_t at = classes;
  for (std::size_t c = lane; c < classes; c += 32) // a NaN is skipped unless it is the first logit
    if (at == classes ? in[c] == in[c] || c == 0 : in[c] > best) {
      best = in[c];
      at = c;
    }
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, best, half);
    const auto other_at = static_cast<std::size_t>(
      __shfl_xor_sync(0xffffffffu, static_cast<unsigned long long>(at), half));
    if (other_at != classes
        && (at == classes || other > best || (!(best > other) && other_at < at))) {
      best = other;
      at = other_at;
    }
  }
  if (lane == 0)
    hit[row] = at == static_cast<std::uint64_t>(labels[row]) ? 1 : 0;
}

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

} // namespace

template <class T>
int add_bias(const T* bias, T* y, std::size_t rows, std::size_t cols, void* stream) {
  if (rows * cols == 0)
    return 0;
  bias_rows<T, true>
    <<<blocks_for(rows * cols, block_threads * 4), block_threads, 0, stream_of(stream)>>>(
      bias, y, rows * cols, cols);
  return launched();
}

template <class T>
int spread_bias(const T* bias, T* y, std::size_t rows, std::size_t cols, void* stream) {
  if (rows * cols == 0)
    return 0;
  bias_rows<T, false>
    <<<blocks_for(rows * cols, block_threads * 4), block_threads, 0, stream_of(stream)>>>(
      bias, y, rows * cols, cols);
  return launched();
}

template <class T>
int bias_gradient(const T* dy, T* db, std::size_t rows, std::size_t cols, void* stream) {
  if (cols == 0)
    return 0;
  sum_columns<<<blocks_for(cols, 64), 64, 0, stream_of(stream)>>>(dy, db, rows, cols);
  return launched();
}

template <class T>
int relu_forward(const T* x, T* y, std::size_t n, void* stream) {
  return map(arrays<T, T, 1, 1>{{x}, {y}}, n, stream,
             [] __device__(const T(&in)[1], T(&out)[1]) { out[0] = in[0] < T(0) ? T(0) : in[0]; });
}

template <class T>
int relu_backward(const T* y, const T* dy, T* dx, std::size_t n, void* stream) {
  return map(arrays<T, T, 2, 1>{{y, dy}, {dx}}, n, stream,
             [] __device__(const T(&in)[2], T(&out)[1]) { out[0] = in[0] > T(0) ? in[1] : T(0); });
}

std::size_t softmax_scratch_bytes(std::size_t batch) {
  return padded(batch * sizeof(double)) + reduce_scratch_bytes(batch);
}

template <class T, class Label>
int softmax_cross_entropy(const T* logits, const Label* labels, std::size_t batch,
                          std::size_t classes, T* dlogits, double* loss, void* scratch,
                          void* stream) {
  auto* row_loss = static_cast<double*>(scratch);
  void* rest = static_cast<char*>(scratch) + padded(batch * sizeof(double));
  if (batch > 0)
    softmax_rows<<<blocks_for(batch, rows_per_block), block_threads, 0, stream_of(stream)>>>(
      logits, labels, batch, classes, dlogits, row_loss);
  if (const int failed = launched(); failed != 0)
    return failed;
  return reduce<double>(
    row_loss, batch, 0.0, loss, rest, stream, [] __device__(double v) { return v; },
    [] __device__(double a, double b) { return a + b; },
    [batch] __device__(double total) {
      return batch == 0 ? 0.0 : total / static_cast<double>(batch);
    });
}

template <class T, class Label>
int accuracy_count(const T* logits, const Label* labels, std::size_t batch, std::size_t classes,
                   std::int64_t* correct, void* scratch, void* stream) {
  auto* hit = static_cast<std::int32_t*>(scratch);
  void* rest = static_cast<char*>(scratch) + padded(batch * sizeof(double));
  if (batch > 0)
    hits<<<blocks_for(batch, rows_per_block), block_threads, 0, stream_of(stream)>>>(
      logits, labels, batch, classes, hit);
  if (const int failed = launched(); failed != 0)
    return failed;
  return sum(hit, batch, correct, rest, stream);
}

#define TROUPE_INSTANTIATE_LABEL(T, Label)                                                       \
  template int softmax_cross_entropy<T, Label>(const T*, const Label*, std::size_t, std::size_t, \
                                               T*, double*, void*, void*);                       \
  template int accuracy_count<T, Label>(const T*, const Label*, std::size_t, std::size_t,        \
                                        std::int64_t*, void*, void*);
#define TROUPE_INSTANTIATE(T)                                                   \
  template int add_bias<T>(const T*, T*, std::size_t, std::size_t, void*);      \
  template int spread_bias<T>(const T*, T*, std::size_t, std::size_t, void*);   \
  template int bias_gradient<T>(const T*, T*, std::size_t, std::size_t, void*); \
  template int relu_forward<T>(const T*, T*, std::size_t, void*);               \
  template int relu_backward<T>(const T*, const T*, T*, std::size_t, void*);    \
  TROUPE_INSTANTIATE_LABEL(T, std::uint8_t)                                     \
  TROUPE_INSTANTIATE_LABEL(T, std::int32_t)                                     \
  TROUPE_INSTANTIATE_LABEL(T, std::int64_t)

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE
#undef TROUPE_INSTANTIATE_LABEL

} // namespace troupe::kernels::cuda
