#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <troupe/transport/collective_types.hpp>

/// The choice of the algorithm for an operation over channels, and of the pieces in which data goes
/// through shared memory: one table, looked up by what the members have in common, so that all of
/// them find the same. Source of the default: measurements on loopback.
namespace troupe {

struct collective_row {
  collective_kind kind = collective_kind::all_reduce;
  reduction_order order = reduction_order::rank; ///< the order that the caller asked for
  std::uint32_t size_min = 2;                    ///< members
  std::uint32_t size_max = std::numeric_limits<std::uint32_t>::max();
  std::size_t bytes_max = std::numeric_limits<std::size_t>::max(); ///< of the whole vector
  collective_algorithm algorithm = collective_algorithm::direct;
};

/// How shared memory between processes is cut for a vector.
struct slot_row {
  std::size_t bytes_max = std::numeric_limits<std::size_t>::max(); ///< of the whole vector
  std::size_t share_bytes = 0; ///< what a member merges at a time
  std::uint32_t slots = 1;     ///< as many of these are under way
};

class collective_table {
public:
  /// The default.
  collective_table();
  /// The first row that fits and can be done by that many members counts; without one, the default
  /// table's.
  explicit collective_table(std::vector<collective_row> rows, std::vector<slot_row> slots = {});

  collective_algorithm pick(collective_kind kind, reduction_order order, std::uint32_t size,
                            std::size_t bytes) const;
  slot_row slots_for(std::size_t bytes) const;
  const std::vector<collective_row>& rows() const { return rows_; }

private:
  std::vector<collective_row> rows_;
  std::vector<slot_row> slots_;
};

} // namespace troupe
