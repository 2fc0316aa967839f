#include <troupe/transport/collective_table.hpp>

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
    {k::all_reduce, o::fixed, 3, any_size, 8 * mib, a::halving_doubling},
    {k::all_reduce, o::fixed, 3, 8, any_bytes, a::direct},
    {k::all_reduce, o::fixed, 9, any_size, any_bytes, a::ring},
    {k::broadcast, o::rank, 2, 2, any_bytes, a::flat},
    {k::broadcast, o::rank, 3, any_size, 64 * kib, a::flat},
    {k::broadcast, o::rank, 3, any_size, any_bytes, a::spread},
    {k::reduce, o::rank, 2, 2, any_bytes, a::flat},
    {k::reduce, o::rank, 3, any_size, 64 * kib, a::flat},
    {k::reduce, o::rank, 3, any_size, any_bytes, a::spread},
  };
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

collective_table::collective_table() : rows_{default_rows()} {}

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
