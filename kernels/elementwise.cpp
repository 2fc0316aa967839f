#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/elementwise.hpp>

#include <troupe/kernels/detail/check.hpp>
#include <troupe/kernels/detail/scalar_ops.hpp>
#include <troupe/kernels/detail/simd.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe::kernels {

namespace {

template <class T, class F>
void binary(const char* name, std::span<const T> a, std::span<const T> b, std::span<T> out, F f) {
  detail::expect_size(name, "a.size()", a.size(), out.size());
  detail::expect_size(name, "b.size()", b.size(), out.size());
  const T* pa = a.data();
  const T* pb = b.data();
  T* po = out.data();
  const std::size_t n = out.size();
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    po[i] = f(pa[i], pb[i]);
}

/// The same for `f` on lanes of floats, where compilers need more steps than there are.
template <class T, class F>
void binary_simd(const char* name, std::span<const T> a, std::span<const T> b, std::span<T> out,
                 F f) {
  detail::expect_size(name, "a.size()", a.size(), out.size());
  detail::expect_size(name, "b.size()", b.size(), out.size());
  const T* pa = a.data();
  const T* pb = b.data();
  T* po = out.data();
  detail::in_widest_steps<T>(out.size(), [=](auto width, std::size_t i) {
    using v = typename decltype(width)::type;
    f(v::load(pa + i), v::load(pb + i)).store(po + i);
  });
}

} // namespace

template <class T>
void add(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out) {
  binary("add", a, b, out, [](T x, T y) { return detail::add_one(x, y); });
}

template <class T>
void sub(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out) {
  binary("sub", a, b, out, [](T x, T y) { return detail::sub_one(x, y); });
}

template <class T>
void mul(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out) {
  binary("mul", a, b, out, [](T x, T y) { return detail::mul_one(x, y); });
}

template <class T>
void div(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out) {
  binary("div", a, b, out, [](T x, T y) { return detail::div_one(x, y); });
}

template <class T>
void min(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out) {
  if constexpr (std::is_floating_point_v<T>)
    binary_simd("min", a, b, out, [](auto x, auto y) { return detail::smaller(x, y); });
  else
    binary("min", a, b, out, [](T x, T y) { return detail::min_one(x, y); });
}

template <class T>
void max(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out) {
  if constexpr (std::is_floating_point_v<T>)
    binary_simd("max", a, b, out, [](auto x, auto y) { return detail::larger(x, y); });
  else
    binary("max", a, b, out, [](T x, T y) { return detail::max_one(x, y); });
}

template <class T>
void axpy(same_t<T> alpha, std::span<const same_t<T>> x, std::span<T> y) {
  detail::expect_size("axpy", "x.size()", x.size(), y.size());
  const T* px = x.data();
  T* py = y.data();
  const std::size_t n = y.size();
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    py[i] = detail::add_one(py[i], detail::mul_one(alpha, px[i]));
}

template <class T>
void scale(same_t<T> alpha, std::span<const same_t<T>> x, std::span<T> out) {
  detail::expect_size("scale", "x.size()", x.size(), out.size());
  const T* px = x.data();
  T* po = out.data();
  const std::size_t n = out.size();
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    po[i] = detail::mul_one(alpha, px[i]);
}

template <class T>
void fill(same_t<T> value, std::span<T> out) {
  T* po = out.data();
  const std::size_t n = out.size();
  for (std::size_t i = 0; i < n; ++i)
    po[i] = value;
}

template <class T>
bool any_zero(std::span<T> x) {
  const T* px = x.data();
  const std::size_t n = x.size();
  unsigned found = 0; // no early exit, so that the loop vectorises
  for (std::size_t i = 0; i < n; ++i)
    found |= px[i] == T(0) ? 1u : 0u;
  return found != 0;
}

#define TROUPE_BINARY(name, T) \
  template void name<T>(std::span<const same_t<T>>, std::span<const same_t<T>>, std::span<T>);
#define TROUPE_INSTANTIATE(T)                                                  \
  TROUPE_BINARY(add, T)                                                        \
  TROUPE_BINARY(sub, T)                                                        \
  TROUPE_BINARY(mul, T)                                                        \
  TROUPE_BINARY(div, T)                                                        \
  TROUPE_BINARY(min, T)                                                        \
  TROUPE_BINARY(max, T)                                                        \
  template void axpy<T>(same_t<T>, std::span<const same_t<T>>, std::span<T>);  \
  template void scale<T>(same_t<T>, std::span<const same_t<T>>, std::span<T>); \
  template void fill<T>(same_t<T>, std::span<T>);                              \
  template bool any_zero<T>(std::span<T>);                                     \
  template bool any_zero<const T>(std::span<const T>);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
TROUPE_INSTANTIATE(std::int32_t)
TROUPE_INSTANTIATE(std::int64_t)

#undef TROUPE_INSTANTIATE
#undef TROUPE_BINARY

} // namespace troupe::kernels
