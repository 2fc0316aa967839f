#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/reduce.hpp>

#include <troupe/kernels/detail/scalar_ops.hpp>
#include <troupe/kernels/detail/simd.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace troupe::kernels {

namespace {

constexpr std::size_t block_len = 1024;
constexpr std::size_t lane_count = 32;

__extension__ typedef __int128 widest_int;

/// One block: `n` <= block_len elements of `x`, each mapped to Acc by `f`.
template <class Acc, class T, class F>
Acc reduce_block(const T* x, std::size_t n, F f) {
  Acc lanes[lane_count] = {};
  std::size_t i = 0;
  for (; i + lane_count <= n; i += lane_count)
    for (std::size_t j = 0; j < lane_count; ++j)
      lanes[j] = detail::add_one(lanes[j], f(x[i + j]));
  for (std::size_t j = 0; i + j < n; ++j)
    lanes[j] = detail::add_one(lanes[j], f(x[i + j]));
  if constexpr (std::is_floating_point_v<Acc>) {
    using v = detail::widest_simd<Acc>;
    constexpr std::size_t each = sizeof(v) / sizeof(Acc);
    v parts[lane_count / each];
    for (std::size_t u = 0; u < lane_count / each; ++u)
      parts[u] = v::load(lanes + u * each);
    return detail::fold(parts, [](auto p, auto q) { return p + q; });
  } else {
    for (std::size_t half = lane_count / 2; half > 0; half /= 2)
      for (std::size_t j = 0; j < half; ++j)
        lanes[j] = detail::add_one(lanes[j], lanes[j + half]);
    return lanes[0];
  }
}

template <class Acc, class T, class F>
Acc reduce_pairwise(std::span<const T> x, F f) {
  Acc pending[std::numeric_limits<std::size_t>::digits] = {}; // one for each bit of the block count
  std::size_t depth = 0;
  std::size_t blocks = 0;
  for (std::size_t at = 0; at < x.size(); at += block_len) {
    const std::size_t left = x.size() - at;
    pending[depth++] = reduce_block<Acc>(x.data() + at, left < block_len ? left : block_len, f);
    ++blocks;
    for (std::size_t carry = blocks; carry % 2 == 0; carry /= 2, --depth)
      pending[depth - 2] = detail::add_one(pending[depth - 2], pending[depth - 1]);
  }
  for (; depth > 1; --depth)
    pending[depth - 2] = detail::add_one(pending[depth - 2], pending[depth - 1]);
  return pending[0];
}

template <class T>
double largest_magnitude(std::span<const T> x) {
  double largest = 0;
  for (T v : x)
    largest = detail::max_one(largest, std::fabs(static_cast<double>(v)));
  return largest;
}

} // namespace

template <class T>
sum_t<T> sum(std::span<const T> x) {
  return reduce_pairwise<sum_t<T>>(x, [](T v) { return static_cast<sum_t<T>>(v); });
}

template <class T>
double mean(std::span<const T> x) {
  if (x.empty())
    return std::numeric_limits<double>::quiet_NaN();
  const auto count = static_cast<double>(x.size());
  constexpr std::size_t fits_len = std::size_t{1} << 32; // so many of i32 in an i64
  if constexpr (std::is_integral_v<T>)
    if (sizeof(T) == 8 || x.size() > fits_len)
      return static_cast<double>(reduce_pairwise<widest_int>(x, [](T v) { return widest_int{v}; }))
             / count;
  return static_cast<double>(sum<T>(x)) / count;
}

/// Any order gives the same bits: zeros come out positive and NaNs as the one quiet NaN. Of many
/// lanes none waits for its own last step, so that memory bounds the loop. NaNs are looked for
/// apart, in two elements at a time.
template <class T>
T max_element(std::span<const T> x) {
  constexpr T lowest = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                            : std::numeric_limits<T>::lowest();
  T even[lane_count];
  T odd[lane_count];
  detail::mask_t<T> unordered[lane_count] = {};
  for (std::size_t j = 0; j < lane_count; ++j)
    even[j] = odd[j] = lowest;
  const T* p = x.data();
  std::size_t i = 0;
  for (; i + 2 * lane_count <= x.size(); i += 2 * lane_count)
    for (std::size_t j = 0; j < lane_count; ++j) {
      const T a = p[i + j];
      const T b = p[i + j + lane_count];
      even[j] = a > even[j] ? a : even[j];
      odd[j] = b > odd[j] ? b : odd[j];
      unordered[j] |= detail::unordered(a, b);
    }
  T out = lowest;
  for (; i < x.size(); ++i)
    out = detail::max_one(out, p[i]);
  for (std::size_t j = 0; j < lane_count; ++j) {
    out = detail::max_one(out, detail::max_one(even[j], odd[j]));
    if (unordered[j] != 0)
      return std::numeric_limits<T>::quiet_NaN();
  }
  return detail::plain_value(out);
}

template <class T>
double l2_norm(std::span<const T> x) {
  const double squares = reduce_pairwise<double>(x, [](T v) {
    const double d = static_cast<double>(v);
    return d * d;
  });
  // Squares of floats always fit. Those of doubles may overflow, or vanish or lose digits below
  // ~1e-290.
  if (squares >= 1e-290 && squares <= std::numeric_limits<double>::max())
    return std::sqrt(squares);
  if (squares != squares)
    return squares;
  const double largest = largest_magnitude(x);
  if (largest == 0 || largest > std::numeric_limits<double>::max())
    return largest;
  const double scaled = reduce_pairwise<double>(x, [largest](T v) {
    const double d = static_cast<double>(v) / largest;
    return d * d;
  });
  return largest * std::sqrt(scaled);
}

template sum_t<float> sum<float>(std::span<const float>);
template sum_t<double> sum<double>(std::span<const double>);
template sum_t<std::int32_t> sum<std::int32_t>(std::span<const std::int32_t>);
template sum_t<std::int64_t> sum<std::int64_t>(std::span<const std::int64_t>);
template double mean<float>(std::span<const float>);
template double mean<double>(std::span<const double>);
template double mean<std::int32_t>(std::span<const std::int32_t>);
template double mean<std::int64_t>(std::span<const std::int64_t>);
template float max_element<float>(std::span<const float>);
template double max_element<double>(std::span<const double>);
template std::int32_t max_element<std::int32_t>(std::span<const std::int32_t>);
template std::int64_t max_element<std::int64_t>(std::span<const std::int64_t>);
template double l2_norm<float>(std::span<const float>);
template double l2_norm<double>(std::span<const double>);

} // namespace troupe::kernels
