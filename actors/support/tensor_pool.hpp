#pragma once

#include <cstddef>
#include <memory>

#include <troupe/core/tensor.hpp>

namespace troupe {

/// Memory for large tensors that come and go: what a thread receives into. Memory fresh from the
/// system is zeroed page by page before anybody writes to it, which costs as much as the transfer;
/// memory that was in use is not. Small tensors are made as ever.
///
/// `make` is for one thread; tensors may be let go on any thread, also after the pool.
class tensor_pool {
public:
  /// Smaller ones are not kept.
  static constexpr std::size_t kept_from_bytes = std::size_t{256} << 10;

  /// `kept_bytes_max`: memory that lies idle at most.
  explicit tensor_pool(std::size_t kept_bytes_max = std::size_t{128} << 20);

  /// Elements are not initialised.
  tensor make(dtype type, shape_t shape);
  /// Memory that lies idle now.
  std::size_t kept_bytes() const;

private:
  struct shelf;
  std::shared_ptr<shelf> shelf_;
};

} // namespace troupe
