#pragma once

#include <span>
#include <vector>

#include <troupe/core/step_host.hpp>
#include <troupe/device/context.hpp>
#include <troupe/strategies/parameter_server/variable.hpp>
#include <troupe/strategies/sharding/embedding.hpp>

namespace troupe {

/// What a running step reaches. Made for the step's own lane and valid while it runs. Every call
/// may throw `troupe::error`; `cancelled` when the closure was cancelled, which a step should let
/// pass.
class worker_context {
public:
  explicit worker_context(step_host& host) : host_{host} {}
  worker_context(const worker_context&) = delete;
  worker_context& operator=(const worker_context&) = delete;

  /// Current values, each shard at one version. In one process the blocks are the servers' own
  /// memory: no copy.
  std::vector<variable_value> read(const variable_list& variables);
  variable_value read(const variable& v);
  /// Pushes one gradient a variable; the servers run the optimizer. Applied once, however often the
  /// closure is run.
  void apply(const variable_list& variables, std::span<const tensor> gradients);
  void apply(const variable& v, const tensor& gradient);
  /// Rows of a look-up's gradient.
  void apply(const variable& v, const sparse_gradient& gradient);

  /// The variable of that name, made on the servers if there is none yet: the first specification
  /// wins, another is `mismatch`. Its initial values follow a rule; tensors and functions don't
  /// travel from a step.
  variable get_or_create(const variable_options& options);

  /// True once the closure was cancelled: a long step asks now and then, and returns.
  bool cancelled() { return host_.cancelled(); }
  /// 1 for the first run of this closure, 2 after one lost worker, ...
  attempt_no attempt() const { return host_.attempt(); }
  closure_id closure() const { return host_.closure(); }
  /// `worker:N`.
  task_id worker() const { return host_.task(); }
  /// In simulation: the step computes for so long. Nothing in production.
  void compute(duration d) { host_.compute(d); }
  step_host& host() { return host_; }

  // --- the device that the step runs on: see `runtime_options::devices`

  /// Streams, tensors and kernels of the lane's device. `device_unavailable` when it can't be
  /// opened. A failure of the device itself is not the step's: the worker leaves, and others run
  /// the closure again.
  device_context& device() { return host_.device(); }
  stream_event submit(const device_stream& stream, device_op op) {
    return device().submit(stream, std::move(op));
  }
  void depends(const device_stream& stream, const stream_event& event) {
    device().depends(stream, event);
  }
  void wait(const stream_event& event, duration timeout = std::chrono::seconds{60}) {
    device().wait(event, timeout);
  }

private:
  step_host& host_;
};

} // namespace troupe
