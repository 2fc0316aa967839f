#include <troupe/kernels/cuda.hpp>

#include <troupe/kernels/detail/cuda_map.cuh>
#include <troupe/kernels/detail/scalar_ops.hpp>

namespace troupe::kernels::cuda {

namespace {

template <class T, class F>
int binary(const T* a, const T* b, T* out, std::size_t n, void* stream, F f) {
  return map(arrays<T, T, 2, 1>{{a, b}, {out}}, n, stream, f);
}

} // namespace

#define TROUPE_BINARY(name)                                                         \
  template <class T>                                                                \
  int name(const T* a, const T* b, T* out, std::size_t n, void* stream) {           \
    return binary(a, b, out, n, stream, [] __device__(const T(&in)[2], T(&to)[1]) { \
      to[0] = detail::name##_one(in[0], in[1]);                                     \
    });                                                                             \
  }

TROUPE_BINARY(add)
TROUPE_BINARY(sub)
TROUPE_BINARY(mul)
TROUPE_BINARY(div)
TROUPE_BINARY(min)
TROUPE_BINARY(max)
#undef TROUPE_BINARY

template <class T>
int axpy(T alpha, const T* x, T* y, std::size_t n, void* stream) {
  return binary<T>(y, x, y, n, stream, [alpha] __device__(const T(&in)[2], T(&to)[1]) {
    to[0] = detail::add_one(in[0], detail::mul_one(alpha, in[1]));
  });
}

template <class T>
int scale(T alpha, const T* x, T* out, std::size_t n, void* stream) {
  return map(
    arrays<T, T, 1, 1>{{x}, {out}}, n, stream,
    [alpha] __device__(const T(&in)[1], T(&to)[1]) { to[0] = detail::mul_one(alpha, in[0]); });
}

namespace {

template <class T>
__global__ void fill_all(T value, T* out, std::size_t n) {
  constexpr std::size_t each = 16 / sizeof(T);
  std::size_t i = blockIdx.x * (blockDim.x * each) + threadIdx.x;
#pragma unroll
  for (std::size_t k = 0; k < each; ++k, i += blockDim.x)
    if (i < n)
      out[i] = value;
}

} // namespace

template <class T>
int fill(T value, T* out, std::size_t n, void* stream) {
  if (n == 0)
    return 0;
  fill_all<<<blocks_for(n, block_threads * (16 / sizeof(T))), block_threads, 0,
             stream_of(stream)>>>(value, out, n);
  return launched();
}

#define TROUPE_INSTANTIATE(T)                                      \
  template int add<T>(const T*, const T*, T*, std::size_t, void*); \
  template int sub<T>(const T*, const T*, T*, std::size_t, void*); \
  template int mul<T>(const T*, const T*, T*, std::size_t, void*); \
  template int div<T>(const T*, const T*, T*, std::size_t, void*); \
  template int min<T>(const T*, const T*, T*, std::size_t, void*); \
  template int max<T>(const T*, const T*, T*, std::size_t, void*); \
  template int axpy<T>(T, const T*, T*, std::size_t, void*);       \
  template int scale<T>(T, const T*, T*, std::size_t, void*);      \
  template int fill<T>(T, T*, std::size_t, void*);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
TROUPE_INSTANTIATE(std::int32_t)
TROUPE_INSTANTIATE(std::int64_t)
#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels::cuda
