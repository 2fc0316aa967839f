#pragma once

#include <cstddef>
#include <memory>

#include <troupe/core/device_port.hpp>
#include <troupe/core/result.hpp>
#include <troupe/core/tensor.hpp>

/// Tensors from and to other libraries without a copy, by the DLPack convention (version 0.6, the
/// one that all of them understand; its header is dlpack/dlpack.h).
struct DLManagedTensor;

namespace troupe {

/// Hands out a view of `x`, whose elements stay alive until the receiver calls the deleter.
DLManagedTensor* to_dlpack(const tensor& x);

/// Takes `x` over, also when it refuses: its deleter is called with the last tensor that views it.
/// `invalid_argument` names what does not fit: a device that is not the CPU, strides that are not
/// row-major, vector lanes, an element type that Troupe has not.
result<tensor> from_dlpack(DLManagedTensor* x);

namespace detail {

/// The parts of both, for memory wherever it lies.
struct dlpack_parts {
  dtype type = dtype::f32;
  shape_t shape{};
  device_id device{};
  std::byte* data = nullptr;
  std::shared_ptr<void> owner{};
};
DLManagedTensor* make_dlpack(dlpack_parts parts);
result<dlpack_parts> take_dlpack(DLManagedTensor* x);

} // namespace detail

} // namespace troupe
