#include <troupe/transport/collective_table.hpp>

#include <utility>

#include <troupe/transport/detail/collective_plan.hpp>

namespace troupe {

namespace {

constexpr std::uint32_t any_size = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t any_bytes = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

// Rank order first: its algorithms serve both orders at two members.
std::vector<collective_row> default_rows() {
  using k = collective_kind;
  using o = reduction_order;
  using a = collective_algorithm;
  return {
    {k::all_reduce, o::rank, 2, 2, 64 * kib, a::exchange},
    {k::all_reduce, o::rank, 3, 8, 16 * kib, a::exchange},
    {k::all_reduce, o::rank, 9, any_size, 1 * kib, a::exchange},
    {k::all_reduce, o::rank, 2, any_size, any_bytes, a::direct},
    {k::all_reduce, o::fixed, 2, 2, 64 * kib, a::exchange},
    {k::all_reduce, o::fixed, 2, 2, any_bytes, a::direct},
    {k::all_reduce, o::fixed, 3, any_size, 16 * kib, a::recursive_doubling},
    {k::all_reduce, o::fixed, 3, any_size, any_bytes, a::halving_doubling},
    {k::all_reduce, o::fixed, 3, 8, 16 * kib, a::exchange}, // no power of two from here
    {k::all_reduce, o::fixed, 3, any_size, 8 * mib, a::direct},
    {k::all_reduce, o::fixed, 3, any_size, any_bytes, a::ring},
    {k::broadcast, o::rank, 2, 2, any_bytes, a::flat},
    {k::broadcast, o::rank, 3, any_size, 64 * kib, a::flat},
    {k::broadcast, o::rank, 3, any_size, any_bytes, a::spread},
    {k::reduce, o::rank, 2, 2, any_bytes, a::flat},
    {k::reduce, o::rank, 3, any_size, 64 * kib, a::flat},
    {k::reduce, o::rank, 3, any_size, any_bytes, a::spread},
  };
}

// Slots that are used again too soon are still in the other core's cache: a cache's worth of them
// at least is used in turn.
std::vector<slot_row> default_slots() {
  return {{256 * kib, 32 * kib, 32}, {any_bytes, 128 * kib, 4}};
}

const collective_row* find(const std::vector<collective_row>& rows, collective_kind kind,
                           reduction_order order, std::uint32_t size, std::size_t bytes) {
  for (const collective_row& row : rows)
    if (row.kind == kind && (row.order == order || kind != collective_kind::all_reduce)
        && size >= row.size_min && size <= row.size_max && bytes <= row.bytes_max
        && detail::can_plan(kind, row.algorithm, size))
      return &row;
  return nullptr;
}

} // namespace

collective_table::collective_table() : rows_{default_rows()}, slots_{default_slots()} {}

collective_table::collective_table(std::vector<collective_row> rows, std::vector<slot_row> slots)
  : rows_{std::move(rows)}, slots_{slots.empty() ? default_slots() : std::move(slots)} {}

slot_row collective_table::slots_for(std::size_t bytes) const {
  for (const slot_row& row : slots_)
    if (bytes <= row.bytes_max)
      return row;
  return slots_.back();
}

collective_algorithm collective_table::pick(collective_kind kind, reduction_order order,
                                            std::uint32_t size, std::size_t bytes) const {
  if (const collective_row* row = find(rows_, kind, order, size, bytes))
    return row->algorithm;
  static const std::vector<collective_row> defaults = default_rows();
  if (const collective_row* row = find(defaults, kind, order, size, bytes))
    return row->algorithm;
  return collective_algorithm::direct;
}

} // namespace troupe
