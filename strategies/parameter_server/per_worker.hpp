#pragma once

#include <memory>

#include <troupe/core/fields.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/strategies/runtime/fwd.hpp>

namespace troupe {

/// Ownership of a per-worker resource: the last handle that goes drops it on all workers.
/// Implemented by the cluster.
class resource_lease {
public:
  virtual ~resource_lease() = default;
};

/// A T on every worker, built there. As an argument of `schedule` it stands for the T of the worker
/// that runs the closure, chosen anew at each attempt. A handle; any thread.
template <class T>
class per_worker {
public:
  per_worker() = default;
  per_worker(resource_id id, std::shared_ptr<coordinator_client> owner,
             std::shared_ptr<resource_lease> lease)
    : id_{id}, owner_{std::move(owner)}, lease_{std::move(lease)} {}
  resource_id id() const { return id_; }
  const std::shared_ptr<coordinator_client>& owner() const { return owner_; }
  const std::shared_ptr<resource_lease>& lease() const { return lease_; }

private:
  resource_id id_{};
  std::shared_ptr<coordinator_client> owner_{};
  std::shared_ptr<resource_lease> lease_{};
};

/// A T of the executing worker that steps change: `per_worker_value<float>& total` in a step's
/// parameters. The step has it for itself while it runs: of the steps of a worker that take the
/// same value one runs at a time, on however many threads; the others wait on theirs, hear of
/// being cancelled, and their deadlines don't count the wait. A step that hangs and is given up
/// keeps it: `input_failed` then, naming the closure.
template <class T>
struct per_worker_value {
  T value{};
};

} // namespace troupe
