#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <troupe/core/tensor.hpp>
#include <troupe/transport/detail/host_memory.hpp>

/// Tensors in memory that processes share.
namespace troupe::detail {

/// A member's part of an epoch's memory, given out in pieces that come back when their tensors go.
/// Any thread. The memory stays mapped while a tensor of it lives.
class shm_arena {
public:
  /// An arena of `bytes` at `begin` of `memory`.
  shm_arena(std::shared_ptr<host_memory> memory, std::size_t begin, std::size_t bytes);

  tensor allocate(dtype type, shape_t shape);
  /// Offset in the arena of an address of this process; none: it is elsewhere.
  std::optional<std::size_t> offset_of(const std::byte* at) const;

private:
  struct ledger;
  std::shared_ptr<host_memory> memory_;
  std::shared_ptr<ledger> ledger_;
  std::byte* begin_;
  std::size_t bytes_;
};

} // namespace troupe::detail
