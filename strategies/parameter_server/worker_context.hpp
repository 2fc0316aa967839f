#pragma once

#include <span>
#include <vector>

#include <troupe/core/step_host.hpp>
#include <troupe/device/context.hpp>
#include <troupe/device/step_device.hpp>
#include <troupe/strategies/parameter_server/variable.hpp>
#include <troupe/strategies/sharding/embedding.hpp>

namespace troupe {

/// The cluster as a running step reaches it. Made for the step's own thread and valid while the
/// step runs. Every call may throw `troupe::error`: `cancelled` when the closure was cancelled,
/// which a step should let pass, and `unavailable` for a server that does not answer.
class worker_context {
public:
  explicit worker_context(step_host& host) : host_{host} {}
  worker_context(const worker_context&) = delete;
  worker_context& operator=(const worker_context&) = delete;

  /// Current values, whole variables in blocks of rows, each shard at one version. Throws
  /// `unknown_variable`. In one process the blocks are the servers' own memory: no copy.
  std::vector<variable_value> read(const variable_list& variables);
  variable_value read(const variable& v);
  /// Pushes one gradient for each variable; the servers run the optimizer. `gradients[i]`: the
  /// dtype and shape of `variables[i]`. Applied once, however often the closure is run;
  /// acknowledged by the end of the closure. Throws `invalid_argument` when the counts differ,
  /// `shape_mismatch`, `dtype_mismatch`, `wrong_state` for a variable without an optimizer.
  void apply(const variable_list& variables, std::span<const tensor> gradients);
  void apply(const variable& v, const tensor& gradient);
  /// Pushes a gradient of some rows, as look-ups have: `indices` i64 [n], `values` [n] + row shape.
  /// Throws as above, and `out_of_range` naming the index.
  void apply(const variable& v, const sparse_gradient& gradient);

  /// The variable of that name, made on the servers if there is none yet: the first specification
  /// wins, another is `mismatch`. Throws `invalid_argument` for an empty name and for `initial`
  /// that is not a rule. Its initial values follow a rule; tensors and functions don't travel from
  /// a step.
  variable get_or_create(const variable_options& options);

  /// True once the closure was cancelled: a long step asks now and then, and returns.
  bool cancelled() { return host_.cancelled(); }
  /// Number of this run of the closure: 1, then 2 after one lost worker, ...
  attempt_no attempt() const { return host_.attempt(); }
  /// Id of the closure, the same for all attempts.
  closure_id closure() const { return host_.closure(); }
  /// The worker that runs the step: `worker:N`.
  task_id worker() const { return host_.task(); }
  /// Takes `d` of virtual time in a simulation. Does nothing in production.
  void compute(duration d) { host_.compute(d); }
  step_host& host() { return host_; }

  // --- the device that the step runs on: see `runtime_options::devices`

  /// Streams, tensors and kernels of the thread's device. `device_unavailable` when it can't be
  /// opened. A failure of the device itself is not the step's: the worker leaves, and others run
  /// the closure again.
  device_context& device() { return device_of(host_); }
  stream_event submit(const device_stream& stream, device_op op) {
    return device().submit(stream, std::move(op));
  }
  void wait_event(const device_stream& stream, const stream_event& event) {
    device().wait_event(stream, event);
  }
  /// Former name of `wait_event`.
  [[deprecated("use wait_event")]] void depends(const device_stream& stream,
                                                const stream_event& event) {
    wait_event(stream, event);
  }
  void wait(const stream_event& event, duration timeout = std::chrono::seconds{60}) {
    device().wait(event, timeout);
  }

private:
  step_host& host_;
};

namespace detail {

/// The handle of variable `id` inside a step. Throws `unknown_variable`.
variable variable_in_step(worker_context& ctx, variable_id id);

} // namespace detail
} // namespace troupe
