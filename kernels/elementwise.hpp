// Element-wise arithmetic on spans. Pure functions, any thread, no allocation.
//
// Element types: float, double, std::int32_t, std::int64_t (instantiated in the .cpp). `T` is taken
// from `out`; with containers name it: `add<float>(a, b, out)`. Memory: `out` may be exactly `a` or
// exactly `b` or disjoint from both; a shifted overlap is undefined. Errors: std::invalid_argument
// naming the argument when sizes differ; nothing is written then. Integers: overflow wraps; x / 0
// is 0 (ask `any_zero` first where that is an error); lowest / -1 is lowest; division truncates.
// Floats: IEEE; a NaN on either side of min and max comes through. The same input gives the same
// bits on every machine (detail/strict_math.hpp).
#pragma once

#include <span>
#include <type_traits>

namespace troupe::kernels {

/// `T`, but not deduced from this argument.
template <class T>
using same_t = std::type_identity_t<T>;

/// out[i] = a[i] + b[i].
template <class T>
void add(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out);

/// out[i] = a[i] - b[i].
template <class T>
void sub(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out);

/// out[i] = a[i] * b[i].
template <class T>
void mul(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out);

/// out[i] = a[i] / b[i].
template <class T>
void div(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out);

/// out[i] = the smaller of a[i] and b[i]: of two equals, so of zeros of both signs, b[i]; of two
/// NaNs a[i].
template <class T>
void min(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out);

/// out[i] = the larger of a[i] and b[i]; of equals and NaNs as in `min`.
template <class T>
void max(std::span<const same_t<T>> a, std::span<const same_t<T>> b, std::span<T> out);

/// y[i] += alpha * x[i]; the product is rounded before the sum.
template <class T>
void axpy(same_t<T> alpha, std::span<const same_t<T>> x, std::span<T> y);

/// out[i] = alpha * x[i].
template <class T>
void scale(same_t<T> alpha, std::span<const same_t<T>> x, std::span<T> out);

/// out[i] = value.
template <class T>
void fill(same_t<T> value, std::span<T> out);

/// True when some element equals zero.
template <class T>
bool any_zero(std::span<T> x);

} // namespace troupe::kernels
