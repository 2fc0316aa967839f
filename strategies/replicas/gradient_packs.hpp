#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <troupe/core/result.hpp>

/// Which dense tensors of a batch share a collective. Plans only: they count bytes and elements and
/// touch no tensor. Pure functions; any thread. Source: TensorFlow's cross-device operations, rows
/// SYNC-COL-C, COL-D, NCC-1 and NCC-2.
namespace troupe {

/// Positions, in the caller's order of tensors, that one collective carries one after the other.
using gradient_pack = std::vector<std::size_t>;

/// Groups neighbours: a pack takes tensors until it holds `bytes_per_pack` or more, then the next
/// one starts (row SYNC-COL-C). One pack when `bytes_per_pack` is 0 or any size is unknown; no pack
/// without tensors. Never an empty pack. `invalid_argument` when `bytes_per_pack` is negative.
result<std::vector<gradient_pack>> group_by_bytes(
  std::span<const std::optional<std::uint64_t>> sizes_bytes, std::int64_t bytes_per_pack);

/// The same over the tensors from last to first, for the last layer's gradients are ready first
/// (row SYNC-COL-D). Positions are the caller's.
result<std::vector<gradient_pack>> plan_gradient_packs(
  std::span<const std::optional<std::uint64_t>> sizes_bytes, std::int64_t bytes_per_pack);

/// Undoes the packs' order: `results[p][i]` belongs to tensor `packs[p][i]`. `invalid_argument`
/// when the shapes of `packs` and `results` differ or a tensor is missing, there twice or past the
/// end.
template <class T>
result<std::vector<T>> in_original_order(std::span<const gradient_pack> packs,
                                         std::vector<std::vector<T>> results);

/// Elements [begin, begin + count) of a tensor's flattened elements.
struct tensor_segment {
  std::size_t tensor = 0;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  friend bool operator==(const tensor_segment&, const tensor_segment&) = default;
};

/// What one all-reduce carries: segments in the tensors' order. Without segments there is nothing
/// to send.
struct gradient_part {
  std::uint64_t count = 0; ///< elements
  std::vector<tensor_segment> segments{};
  friend bool operator==(const gradient_part&, const gradient_part&) = default;
};

/// Cuts tensors of these numbers of elements, laid end to end, in `num_packs` equal parts; the last
/// takes the remainder (row SYNC-NCC-2). 0: no packing, a part per tensor. `invalid_argument` when
/// `num_packs` is negative (row SYNC-NCC-1) or over 65,536.
result<std::vector<gradient_part>> plan_equal_parts(std::span<const std::uint64_t> counts,
                                                    std::int64_t num_packs);

// -- implementation ------------------------------------------------------------------------------

namespace detail {
/// Whether `sizes[p]` is the size of pack p and the packs hold each of their positions once.
result<void> check_packs(std::span<const gradient_pack> packs, std::span<const std::size_t> sizes);
} // namespace detail

template <class T>
result<std::vector<T>> in_original_order(std::span<const gradient_pack> packs,
                                         std::vector<std::vector<T>> results) {
  std::vector<std::size_t> sizes;
  std::size_t total = 0;
  for (const auto& part : results) {
    sizes.push_back(part.size());
    total += part.size();
  }
  if (auto fine = detail::check_packs(packs, sizes); !fine)
    return fine.error();
  std::vector<std::optional<T>> slots(total);
  for (std::size_t p = 0; p < packs.size(); ++p)
    for (std::size_t i = 0; i < packs[p].size(); ++i)
      slots[packs[p][i]].emplace(std::move(results[p][i]));
  std::vector<T> out;
  out.reserve(total);
  for (auto& slot : slots)
    out.push_back(std::move(*slot));
  return out;
}

} // namespace troupe
