#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/device/ops.hpp>
#include <troupe/device/tensor.hpp>

namespace troupe {

/// A thread's own view of its device: `ctx.device()` of a step. It has a stream of its own, and
/// makes others by name. Everything throws `troupe::error` instead of returning it. One thread at a
/// time; kept from step to step, so that streams and pool stay warm.
class device_context {
public:
  /// `device_unavailable` and the like when the first stream can't be made.
  static result<std::shared_ptr<device_context>> make(std::shared_ptr<device> on,
                                                      const std::string& name = "compute");
  /// Gives the streams to the next context: a device has a bounded number of them.
  ~device_context();
  device_context(const device_context&) = delete;
  device_context& operator=(const device_context&) = delete;

  const device_id& id() const { return on_->id(); }
  const device_facts& facts() const { return on_->facts(); }
  const std::shared_ptr<device>& on() const { return on_; }

  // --- streams and events

  /// The thread's stream: calls that take no stream run there.
  const device_stream& stream() const { return main_; }
  /// Another stream of this thread, made when its name is first asked for.
  const device_stream& stream(const std::string& name);
  stream_event submit(device_op op) { return submit(main_, std::move(op)); }
  stream_event submit(const device_stream& stream, device_op op);
  /// Puts `op` at the end of the stream, for an operation that nobody waits for.
  void enqueue(const device_stream& stream, const device_op& op);
  void wait_event(const device_stream& stream, const stream_event& event);
  /// Former name of `wait_event`.
  [[deprecated("use wait_event")]] void depends(const device_stream& stream,
                                                const stream_event& event) {
    wait_event(stream, event);
  }
  stream_event record_event(const device_stream& stream);
  void wait(const stream_event& event, duration timeout = std::chrono::seconds{60});
  /// Waits for all that the thread's stream holds.
  void wait() { wait(record_event(main_)); }

  // --- tensors and kernels

  device_tensor empty(dtype type, shape_t shape);
  device_tensor put(const tensor& x);
  /// A copy of `x` in host memory. Waits for what the thread's stream holds.
  tensor get(const device_tensor& x);
  /// `get` in two halves: the copy runs on `stream` meanwhile.
  host_copy start_get(const device_tensor& x, const device_stream& stream);
  void finish_get(host_copy& coming, tensor& out);
  /// Kernels on the thread's stream. Their results are returned, not thrown: see `check`.
  device_ops& ops() { return ops_; }
  device_ops ops_on(const device_stream& stream) { return device_ops{on_, stream}; }
  /// Throws the failure of `done`, if it is one.
  void check(const result<void>& done);

  /// Sets the origin of this context's failures: the incarnation of the worker that a thread
  /// serves. Called by the thread.
  void speak_for(const origin& self) { self_ = self; }

private:
  device_context(std::shared_ptr<device> on, device_stream main);
  template <class T>
  T own(result<T> got);
  const std::shared_ptr<device> on_;
  const device_stream main_;
  device_ops ops_;
  std::map<std::string, device_stream> streams_{};
  origin self_{};
};

} // namespace troupe
