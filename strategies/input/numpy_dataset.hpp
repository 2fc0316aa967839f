#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/data/dataset.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

/// Datasets of arrays that a program has. Any thread, in cross-replica or default context, else
/// `wrong_state`.
namespace troupe {

/// A dataset of one element a row, with a part for each array. The arrays are copied, once, in
/// blocks of whole rows of at most 64 MiB, a longer row alone: the program may write to them
/// afterwards, and so may the owner of memory that a tensor borrows. Throws `shape_mismatch` when
/// row counts differ and `invalid_argument` for a scalar, an undefined tensor, or no array.
dataset make_numpy_dataset(const strategy& s, const std::vector<tensor>& arrays);
dataset make_numpy_dataset(const strategy& s, const tensor& array);
/// A dataset of the arrays of a file: of "x.npy" its array, of "x.npz" all arrays in its order,
/// read when they are first iterated (npy.hpp). Throws `invalid_argument` naming a path with
/// another ending.
dataset make_numpy_dataset(const strategy& s, const std::string& path);

/// The tensors one behind the other along a new axis 0: what a list of arrays is. Throws
/// `shape_mismatch`, `dtype_mismatch` naming the one that differs, `invalid_argument` for none.
tensor stacked(const std::vector<tensor>& list);

namespace detail {

inline constexpr std::int64_t numpy_block_bytes_max = 64 << 20;

/// Rows that are copied at once, at least one.
std::int64_t numpy_block_rows(const tensor& array, std::int64_t block_bytes_max);
/// A copy, made block by block.
tensor copy_in_row_blocks(const tensor& array,
                          std::int64_t block_bytes_max = numpy_block_bytes_max);

} // namespace detail
} // namespace troupe
