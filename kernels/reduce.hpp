// Reductions of one span to one number, in one fixed order.
//
// Order of `sum` (and of the squares in `l2_norm`): the array is cut into blocks of 1024 elements,
// counted from its start. In a block, lane j of 32 adds elements j, j + 32, j + 64, ... in that
// order; the lanes are folded in halves (lane j += lane j + 16, then + 8, 4, 2, 1). Block results
// are merged pairwise like the carries of a binary counter (blocks 0 and 1, 2 and 3, then those
// two, ...); what is left at the end is merged from the last to the first. The result depends on
// the elements and their number alone, not on threads, vector width or machine; the rounding error
// grows with log(n).
//
// Pure functions, any thread, no allocation. Source: Higham, "The accuracy of floating point
// summation", SIAM J. Sci. Comput. 14 (1993), pairwise summation.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

namespace troupe::kernels {

/// Type of a sum: std::int64_t for integers (wraps on overflow), else the element type.
template <class T>
using sum_t = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;

/// Sum of all elements; 0 for none. T: float, double, std::int32_t, std::int64_t.
template <class T>
sum_t<T> sum(std::span<const T> x);

/// Sum divided by the count, in double; NaN for no elements. The sum of integers is as wide as it
/// has to be, and rounded once: it does not wrap. T: as for `sum`.
template <class T>
double mean(std::span<const T> x);

/// Largest element; the quiet NaN when one is NaN; for no elements the lowest value (-infinity for
/// floats). A zero comes out as +0, whatever the signs of the zeros among the elements, so that the
/// bits depend on no order, vector width or device.
/// T: as for `sum`.
template <class T>
T max_element(std::span<const T> x);

/// Euclidean norm, accumulated in double and scaled when the squares leave double's range; 0 for no
/// elements, NaN when one is NaN, else infinity when one is infinite. T: float, double.
template <class T>
double l2_norm(std::span<const T> x);

} // namespace troupe::kernels
