#include <troupe/kernels/cuda.hpp>

#include <troupe/kernels/detail/cuda_reduce.cuh>
#include <troupe/kernels/detail/scalar_ops.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace troupe::kernels::cuda {

std::size_t reduce_scratch_bytes(std::size_t n) {
  return (partial_count(n) * sizeof(two_words) + 255) / 256 * 256 + 256;
}

template <class T>
int sum(const T* x, std::size_t n, sum_t<T>* out, void* scratch, void* stream) {
  using acc = sum_t<T>;
  return reduce<acc>(
    x, n, acc(0), out, scratch, stream, [] __device__(T v) { return static_cast<acc>(v); },
    [] __device__(acc a, acc b) { return detail::add_one(a, b); },
    [] __device__(acc total) { return total; });
}

namespace {

__extension__ typedef __int128 widest_int;

/// Rounds once, as the CPU does.
__device__ inline double as_double(two_words x) {
  const widest_int whole = static_cast<widest_int>(x.upper) * (widest_int{1} << 32) + x.lower;
  return static_cast<double>(whole);
}

} // namespace

template <class T>
int mean(const T* x, std::size_t n, double* out, void* scratch, void* stream) {
  if constexpr (std::is_integral_v<T>)
    return reduce<two_words>(
      x, n, two_words{}, out, scratch, stream,
      [] __device__(T v) {
        const auto wide = static_cast<std::int64_t>(v);
        return two_words{wide >> 32, wide & 0xffff'ffff};
      },
      [] __device__(two_words a, two_words b) {
        return two_words{a.upper + b.upper, a.lower + b.lower};
      },
      [n] __device__(two_words total) { return as_double(total) / static_cast<double>(n); });
  using acc = sum_t<T>;
  return reduce<acc>(
    x, n, acc(0), out, scratch, stream, [] __device__(T v) { return static_cast<acc>(v); },
    [] __device__(acc a, acc b) { return detail::add_one(a, b); },
    [n] __device__(acc total) { return static_cast<double>(total) / static_cast<double>(n); });
}

template <class T>
int max_element(const T* x, std::size_t n, T* out, void* scratch, void* stream) {
  constexpr T lowest = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                            : std::numeric_limits<T>::lowest();
  return reduce<T>(
    x, n, lowest, out, scratch, stream, [] __device__(T v) { return v; },
    [] __device__(T a, T b) { return detail::max_one(a, b); },
    [] __device__(T largest) { return detail::plain_value(largest); });
}

template <class T>
int l2_norm(const T* x, std::size_t n, double* out, void* scratch, void* stream) {
  static_assert(sizeof(T) == 4, "the squares of doubles may leave double's range");
  return reduce<double>(
    x, n, 0.0, out, scratch, stream,
    [] __device__(T v) {
      const double d = static_cast<double>(v);
      return d * d;
    },
    [] __device__(double a, double b) { return a + b; },
    [] __device__(double total) { return __dsqrt_rn(total); });
}

#define TROUPE_INSTANTIATE(T)                                          \
  template int sum<T>(const T*, std::size_t, sum_t<T>*, void*, void*); \
  template int mean<T>(const T*, std::size_t, double*, void*, void*);  \
  template int max_element<T>(const T*, std::size_t, T*, void*, void*);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
TROUPE_INSTANTIATE(std::int32_t)
TROUPE_INSTANTIATE(std::int64_t)
#undef TROUPE_INSTANTIATE
template int l2_norm<float>(const float*, std::size_t, double*, void*, void*);

} // namespace troupe::kernels::cuda
