#include <troupe/device/tensor.hpp>

#include <cstring>
#include <utility>

#include <troupe/core/dlpack.hpp>

namespace troupe {

result<device_tensor> device_tensor::make(const std::shared_ptr<device>& on,
                                          const device_stream& stream, dtype type, shape_t shape) {
  if (!is_sane(shape, type))
    return make_failure(
      errc::invalid_argument,
      to_string(on->id()) + ": a tensor of " + to_string(type) + " and shape " + to_string(shape));
  device_tensor out;
  out.on_ = on;
  out.type_ = type;
  out.size_ = count_of(shape);
  out.shape_ = std::move(shape);
  auto memory = on->allocate(out.size_bytes(), stream);
  if (!memory)
    return memory.error();
  out.memory_ = std::move(*memory);
  out.owner_ = out.memory_.owner();
  out.data_ = out.memory_.data();
  return out;
}

device_tensor device_tensor::wrap(const std::shared_ptr<device>& on, dtype type, shape_t shape,
                                  std::shared_ptr<void> owner, void* data) {
  device_tensor out;
  out.on_ = on;
  out.type_ = type;
  out.size_ = count_of(shape);
  out.shape_ = std::move(shape);
  out.memory_ = on->adopt(std::move(owner), data, out.size_bytes());
  out.owner_ = out.memory_.owner();
  out.data_ = data;
  return out;
}

result<device_tensor> device_tensor::from_host(const std::shared_ptr<device>& on,
                                               const device_stream& stream, const tensor& x) {
  auto out = make(on, stream, x.type(), x.shape());
  if (!out || x.size() == 0)
    return out;
  if (on->id().kind == device_kind::cpu) { // the operation itself keeps the source alive
    auto put = on->enqueue(stream, {.name = "copy", .run = [x, to = *out](const launch_site&) {
                                      std::memcpy(to.data(), x.bytes().data(), x.size_bytes());
                                      return device_answer{};
                                    }});
    if (!put)
      return put.error();
    return out;
  }
  // Pinned: the copy is a copy of the device's then, and the caller's tensor is free at once.
  auto staged = on->allocate_host(x.size_bytes(), stream);
  if (!staged)
    return staged.error();
  std::memcpy(staged->data(), x.bytes().data(), x.size_bytes());
  auto copied =
    on->copy(stream, out->data(), staged->data(), x.size_bytes(), copy_kind::host_to_device);
  if (!copied)
    return copied.error();
  return out;
}

void device_tensor::require(dtype type) const {
  if (type != type_)
    throw_failure(errc::dtype_mismatch,
                  "a device tensor of " + to_string(type_) + " was read as " + to_string(type));
}

device_tensor device_tensor::reshaped(shape_t shape) const {
  if (!is_sane(shape, type_) || count_of(shape) != size_)
    throw_failure(errc::shape_mismatch, "a device tensor of shape " + to_string(shape_)
                                          + " cannot have shape " + to_string(shape));
  auto out = *this;
  out.shape_ = std::move(shape);
  return out;
}

void device_tensor::used_on(const device_stream& stream) const { memory_.used_on(stream); }

result<host_copy> device_tensor::start_to_host(const device_stream& stream) const {
  host_copy out;
  out.on_ = on_;
  out.type_ = type_;
  out.bytes_ = size_bytes();
  auto staged = on_->allocate_host(out.bytes_, stream);
  if (!staged)
    return staged.error();
  out.staged_ = std::move(*staged);
  memory_.used_on(stream); // the caller may let go of it at once
  auto copied = on_->copy(stream, out.staged_.data(), data_, out.bytes_, copy_kind::device_to_host);
  if (!copied)
    return copied.error();
  out.done_ = std::move(*copied);
  return out;
}

result<void> host_copy::finish(tensor& out, duration timeout) {
  if (!done_)
    return make_failure(errc::wrong_state, "no copy to the host was started");
  if (out.type() != type_ || out.size_bytes() != bytes_)
    return make_failure(errc::shape_mismatch, "a copy of " + std::to_string(bytes_)
                                                + " bytes to a tensor of " + to_string(out.type())
                                                + to_string(out.shape()));
  if (auto done = on_->wait(done_, timeout); !done)
    return done;
  if (bytes_ != 0)
    std::memcpy(out.mutable_bytes().data(), staged_.data(), bytes_);
  return {};
}

result<tensor> device_tensor::to_host(const device_stream& stream, duration timeout) const {
  tensor out{type_, shape_};
  auto coming = start_to_host(stream);
  if (!coming)
    return coming.error();
  if (auto done = coming->finish(out, timeout); !done)
    return done.error();
  return out;
}

result<device_tensor> device_tensor::to(const std::shared_ptr<device>& other,
                                        const device_stream& other_stream,
                                        const device_stream& stream) const {
  if (other == on_)
    return *this;
  auto host = to_host(stream);
  if (!host)
    return host.error();
  return from_host(other, other_stream, *host);
}

namespace {

/// Keeps the tensor, and with it its memory, for whoever took it as DLPack.
std::shared_ptr<void> holder_of(const device_tensor& x) {
  return std::make_shared<device_tensor>(x);
}

} // namespace

DLManagedTensor* to_dlpack(const device_tensor& x) {
  return detail::make_dlpack({.type = x.type(),
                              .shape = x.shape(),
                              .device = x.where(),
                              .data = static_cast<std::byte*>(x.data()),
                              .owner = holder_of(x)});
}

result<device_tensor> from_dlpack(DLManagedTensor* x, const std::shared_ptr<device>& on) {
  auto parts = detail::take_dlpack(x);
  if (!parts)
    return parts.error();
  const auto& at = parts->device;
  if (at.kind != on->id().kind || (at.kind == device_kind::gpu && at.index != on->id().index))
    return make_failure(errc::device_unavailable, "from_dlpack: the tensor is on " + to_string(at)
                                                    + ", expected " + to_string(on->id()));
  return device_tensor::wrap(on, parts->type, std::move(parts->shape), std::move(parts->owner),
                             parts->data);
}

} // namespace troupe
