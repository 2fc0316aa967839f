// Initial values of variables from a counter-based generator: an element's value depends on (seed,
// variable name, element number) alone, so any split of a variable into shards, on any machines,
// gives the same bits.
//
// Generator: Philox4x32-10 with key = XXH3-64(name, seed) and counter = {element / 4 (two words),
// attempt, 0}; element e = row * cols + col takes word e % 4 (for the normal distributions the pair
// of words that holds it). Distributions are computed in double with portable_math.hpp and rounded
// once. Any thread, no allocation. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011 (Philox); Box and Muller 1958; Glorot and Bengio 2010; He et al. 2015;
// the Keras initializer pages for the exact ranges.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::kernels {

/// The values that the elements are filled with. The numbers are part of messages: don't renumber.
enum class initializer_kind : std::uint8_t {
  zeros = 0,
  ones = 1,
  constant = 2,         ///< a
  identity = 3,         ///< 1 where row == col, else 0
  uniform = 4,          ///< uniform in [a, b)
  normal = 5,           ///< mean a, standard deviation b
  truncated_normal = 6, ///< normal, drawn again while farther than 2 b from a
  glorot_uniform = 7,   ///< uniform in [-l, l), l = sqrt(6 / (fan_in + fan_out))
  he_normal = 8, ///< truncated normal of mean 0 and final standard deviation sqrt(2 / fan_in)
};

/// An initializer and its numbers.
struct initializer_spec {
  initializer_kind kind = initializer_kind::zeros;
  double a = 0;           ///< constant's value, uniform's low, the normals' mean
  double b = 1;           ///< uniform's high, the normals' standard deviation
  std::uint64_t seed = 0; ///< with the name and the element: everything that randomness depends on
  std::uint64_t fan_in = 0;  ///< 0: the number of rows of the whole variable
  std::uint64_t fan_out = 0; ///< 0: the number of columns
};

/// The whole variable, not the shard: the first dimension and the product of the others.
struct row_shape {
  std::size_t rows = 0;
  std::size_t cols = 0;
};

/// The reason why `spec` is not usable, none when it is: a text naming the field and its value.
/// `integral`: for an integer variable, which only zeros, ones, constant and identity can fill.
std::optional<std::string> invalid_initializer(const initializer_spec& spec, bool integral = false);

/// Fills `out` = rows [row_begin, row_begin + out.size() / cols) of the variable `name` of shape
/// `shape`. T: float, double, std::int32_t, std::int64_t. Errors: std::invalid_argument when `spec`
/// is not usable for T, when `out` isn't whole rows or passes the end; nothing is written then.
template <class T>
void fill_rows(const initializer_spec& spec, std::string_view name, const row_shape& shape,
               std::size_t row_begin, std::span<T> out);

/// A block of Philox4x32-10: four random words for a counter and a key.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);

} // namespace troupe::kernels
