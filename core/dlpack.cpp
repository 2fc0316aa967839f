#include <troupe/core/dlpack.hpp>

#include <optional>
#include <string>
#include <utility>

#include <dlpack/dlpack.h>

namespace troupe {

namespace {

DLDataType type_of(dtype type) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(type));
  switch (type) {
    case dtype::u8: return {kDLUInt, bits, 1};
    case dtype::i8:
    case dtype::i32:
    case dtype::i64: return {kDLInt, bits, 1};
    case dtype::bf16: return {kDLBfloat, bits, 1};
    case dtype::f16:
    case dtype::f32:
    case dtype::f64: return {kDLFloat, bits, 1};
  }
  return {kDLOpaqueHandle, bits, 1};
}

std::optional<dtype> type_from(const DLDataType& type) {
  for (auto each : {dtype::u8, dtype::i8, dtype::i32, dtype::i64, dtype::f16, dtype::bf16,
                    dtype::f32, dtype::f64}) {
    const auto t = type_of(each);
    if (t.code == type.code && t.bits == type.bits && type.lanes == 1)
      return each;
  }
  return std::nullopt;
}

/// What the receiver holds: the shape that DLPack points to, and the memory.
struct handed_out {
  DLManagedTensor managed{};
  shape_t shape{};
  std::shared_ptr<void> owner{};
};

std::string text_of(const DLDataType& type) {
  return "type code " + std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits in "
         + std::to_string(type.lanes) + " lanes";
}

/// The first axis whose stride is not row-major's, if any. Axes of one element may have any.
std::optional<int> strange_stride(const DLTensor& x) {
  if (!x.strides)
    return std::nullopt;
  std::int64_t expected = 1;
  for (int axis = x.ndim - 1; axis >= 0; --axis) {
    if (x.shape[axis] != 1 && x.strides[axis] != expected)
      return axis;
    expected *= x.shape[axis];
  }
  return std::nullopt;
}

failure refuse(const std::string& why) {
  return make_failure(errc::invalid_argument, "from_dlpack: " + why);
}

result<detail::dlpack_parts> parts_of(const DLTensor& x) {
  detail::dlpack_parts out;
  auto type = type_from(x.dtype);
  if (!type)
    return refuse("unsupported DLPack dtype " + text_of(x.dtype));
  out.type = *type;
  if (x.ndim < 0 || (x.ndim > 0 && !x.shape))
    return refuse("ndim is " + std::to_string(x.ndim));
  out.shape.assign(x.shape, x.shape + x.ndim);
  if (!is_sane(out.shape, out.type))
    return refuse("shape is " + to_string(out.shape));
  const bool any = count_of(out.shape) != 0;
  if (auto axis = any ? strange_stride(x) : std::nullopt)
    return refuse("the stride of axis " + std::to_string(*axis) + " is "
                  + std::to_string(x.strides[*axis]) + ", which is not row-major for shape "
                  + to_string(out.shape));
  switch (x.device.device_type) {
    case kDLCPU:
    case kDLCUDAHost: out.device = {device_kind::cpu, 0}; break;
    case kDLCUDA:
    case kDLCUDAManaged:
      out.device = {device_kind::gpu, static_cast<std::uint32_t>(x.device.device_id)};
      break;
    default:
      return refuse("the device type is " + std::to_string(x.device.device_type)
                    + ", expected CPU or CUDA");
  }
  if (any && !x.data)
    return refuse("data is null");
  out.data = static_cast<std::byte*>(x.data) + x.byte_offset;
  return out;
}

} // namespace

namespace detail {

DLManagedTensor* make_dlpack(dlpack_parts parts) {
  auto* out = new handed_out{.shape = std::move(parts.shape), .owner = std::move(parts.owner)};
  auto& x = out->managed.dl_tensor;
  x.data = parts.data;
  x.device = parts.device.kind == device_kind::cpu
               ? DLDevice{kDLCPU, 0}
               : DLDevice{kDLCUDA, static_cast<int>(parts.device.index)};
  x.ndim = static_cast<int>(out->shape.size());
  x.dtype = type_of(parts.type);
  x.shape = out->shape.data();
  x.strides = nullptr;
  x.byte_offset = 0;
  out->managed.manager_ctx = out;
  out->managed.deleter = [](DLManagedTensor* self) {
    delete static_cast<handed_out*>(self->manager_ctx);
  };
  return &out->managed;
}

result<dlpack_parts> take_dlpack(DLManagedTensor* x) {
  if (!x)
    return refuse("the tensor is null");
  std::shared_ptr<void> owner{x, [](void* p) {
                                auto* self = static_cast<DLManagedTensor*>(p);
                                if (self->deleter)
                                  self->deleter(self);
                              }};
  auto out = parts_of(x->dl_tensor);
  if (out)
    out->owner = std::move(owner);
  return out;
}

} // namespace detail

DLManagedTensor* to_dlpack(const tensor& x) {
  auto held = std::make_shared<tensor>(x);
  auto* data = held->mutable_bytes().data();
  return detail::make_dlpack(
    {.type = x.type(), .shape = x.shape(), .device = {}, .data = data, .owner = std::move(held)});
}

result<tensor> from_dlpack(DLManagedTensor* x) {
  auto parts = detail::take_dlpack(x);
  if (!parts)
    return parts.error();
  if (parts->device.kind != device_kind::cpu)
    return refuse("the tensor is on " + to_string(parts->device) + ", expected host memory");
  if (count_of(parts->shape) == 0)
    return tensor{parts->type, std::move(parts->shape)};
  return tensor{parts->type, std::move(parts->shape), std::move(parts->owner), parts->data};
}

} // namespace troupe
