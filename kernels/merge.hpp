// Element-wise reduction of several arrays into one, in the order in which they are given: what
// every collective operation comes to, whatever carried the arrays.
//
// out[i] = ((s[0][i] op s[1][i]) op s[2][i]) ..., divided by `divide_by`, then rounded. Elements of
// f16 and bf16 are widened to float, merged there and rounded at the end; integers wrap. A sum that
// is divided (a mean) is formed in a type that it fits: those of integers in 64 or 128 bits, and
// the division drops the fraction; those of bf16 in double, since float ends where bf16 does. A
// NaN on either side of min and max comes through. The bits
// depend on the elements and the order of the sources alone, not on how the arrays are cut.
//
// Pure functions, any thread, no allocation. An out may be one of the sources; else arrays are
// disjoint. Data stands at multiples of its element's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/core/tensor.hpp>

namespace troupe::kernels {

enum class merge_op : std::uint8_t { sum = 0, min = 1, max = 2, prod = 3 };

/// How f32 elements are stored or rounded: as they are, or in 16 bits.
enum class encoding : std::uint8_t { plain = 0, bf16 = 1, f16 = 2 };

/// Bytes of an element of `type` stored in `as`. @pre `as` is plain or `type` is f32.
std::size_t size_of(dtype type, encoding as);

struct merge_source {
  const std::byte* data = nullptr;
  encoding stored = encoding::plain;
};

struct merge_spec {
  merge_op op = merge_op::sum;
  dtype type = dtype::f32;
  std::int64_t divide_by = 1; ///< 1: not at all
  /// The encoding that a source that is stored plain counts as, and what the result is rounded to:
  /// plain for any type but f32.
  encoding round = encoding::plain;
};

/// Merges `count` elements of each source into every out (all plain). One source: a copy, widened,
/// divided and rounded as told. @pre there is a source and an out.
void merge(const merge_spec& spec, std::span<const merge_source> sources,
           std::span<std::byte* const> outs, std::size_t count);

/// `count` floats into 16 bits each. @pre `to` is not plain.
void encode(encoding to, const std::byte* in, std::byte* out, std::size_t count);

} // namespace troupe::kernels
