#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/core/tensor.hpp>
#include <troupe/device/device.hpp>

struct DLManagedTensor;

namespace troupe {

/// A dense row-major array that knows where it lives: in the memory of a device of this process. A
/// handle, as `tensor` is; moving it is one call. What is on its way is ordered by the stream that
/// the call names: work on that stream may use the result at once, others wait for an event.
class device_tensor;

/// A copy that is on its way to the host: `device_tensor::start_to_host`.
class host_copy {
public:
  explicit operator bool() const { return static_cast<bool>(done_); }
  /// Waits for the copy and puts it into `out`, which has its dtype and number of elements.
  result<void> finish(tensor& out, duration timeout = std::chrono::seconds{60});

private:
  friend class device_tensor;
  std::shared_ptr<device> on_{};
  device_memory staged_{};
  stream_event done_{};
  troupe::dtype type_ = dtype::f32;
  std::size_t bytes_ = 0;
};

class device_tensor {
public:
  /// No value.
  device_tensor() = default;
  /// An uninitialised tensor, for work on `stream`. `device_memory` when it does not fit.
  static result<device_tensor> make(const std::shared_ptr<device>& on, const device_stream& stream,
                                    dtype type, shape_t shape);
  /// A tensor in memory that `owner` keeps alive; the owner is let go of behind the streams of
  /// `used_on`. @pre `data` holds all elements.
  static device_tensor wrap(const std::shared_ptr<device>& on, dtype type, shape_t shape,
                            std::shared_ptr<void> owner, void* data);
  /// A copy of `x` on the device, through pinned memory of the host.
  static result<device_tensor> from_host(const std::shared_ptr<device>& on,
                                         const device_stream& stream, const tensor& x);

  bool defined() const { return data_ != nullptr; }
  /// `gpu:0`. @pre defined
  const device_id& where() const { return on_->id(); }
  const std::shared_ptr<device>& on() const { return on_; }
  troupe::dtype type() const { return type_; }
  const shape_t& shape() const& { return shape_; }
  shape_t shape() && { return std::move(shape_); }
  /// Number of elements.
  std::int64_t size() const { return size_; }
  std::size_t size_bytes() const { return static_cast<std::size_t>(size_) * size_of(type_); }
  /// The device's address; the host may read it on CPUs alone.
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    require(dtype_of<T>::value);
    return static_cast<T*>(data_);
  }
  /// View with another shape of the same size; throws `shape_mismatch`.
  device_tensor reshaped(shape_t shape) const;
  /// Tells that another stream uses the tensor too: see `device_memory::used_on`.
  void used_on(const device_stream& stream) const;
  const std::shared_ptr<void>& owner() const { return owner_; }

  /// A copy on another device, of whatever kind; the same tensor when it lives there already.
  /// Between devices of different kinds it waits for what `stream`, of this one's device, holds.
  result<device_tensor> to(const std::shared_ptr<device>& other, const device_stream& other_stream,
                           const device_stream& stream) const;
  /// A copy in host memory. Waits for what `stream` holds, until `timeout`.
  result<tensor> to_host(const device_stream& stream,
                         duration timeout = std::chrono::seconds{60}) const;

  /// Starts `to_host` without waiting: the copy runs on `stream` while the caller goes on, and may
  /// let go of this tensor.
  result<host_copy> start_to_host(const device_stream& stream) const;

private:
  void require(dtype type) const;
  std::shared_ptr<device> on_{};
  troupe::dtype type_ = dtype::f32;
  shape_t shape_{};
  std::int64_t size_ = 0;
  device_memory memory_{}; ///< of the pool, or adopted
  std::shared_ptr<void> owner_{};
  void* data_ = nullptr;
};

/// DLPack out: the receiver calls its deleter. Work on the tensor must have ended, or the receiver
/// must be told the stream.
DLManagedTensor* to_dlpack(const device_tensor& x);
/// DLPack in: takes `x` over, also when it refuses. `device_unavailable` when it lives on another
/// device than `on`; `invalid_argument` names what does not fit: strides, lanes, element type.
result<device_tensor> from_dlpack(DLManagedTensor* x, const std::shared_ptr<device>& on);

} // namespace troupe
