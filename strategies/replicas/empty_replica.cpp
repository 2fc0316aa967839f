#include <utility>

#include <troupe/device/context.hpp>
#include <troupe/strategies/replicas/detail/replica_calls.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/replicas/replica_context.hpp>
#include <troupe/transport/collective_group.hpp>

/// Replicas that have no data in a step: they make the calls of the others, with what changes
/// nothing.
namespace troupe {

using detail::given_without_data;
using detail::neutral_operator;

namespace {

gradient_reducer_options reducer_of(const replica_call& next) {
  return {.op = neutral_operator(next),
          .bf16 = next.type == dtype::bf16,
          .deadline = next.options.deadline};
}

} // namespace

/// False: it goes through host memory, whoever calls it.
bool replica_context::follow_on_device(const replica_call& next) {
  const auto on_device = [this](const tensor& x) { return device().put(x); };
  switch (next.operation.kind) {
    case operation_kind::all_reduce:
      (void)all_reduce(neutral_operator(next),
                       on_device(given_without_data(next, replica_id_in_sync_group())[0]),
                       next.options);
      return true;
    case operation_kind::reduce_gradients: {
      const auto how = reducer_of(next);
      std::vector<device_tensor> bucket;
      for (const auto& each : given_without_data(next, replica_id_in_sync_group()))
        bucket.push_back(on_device(each));
      reduce_bucket(bucket, how);
      return true;
    }
    case operation_kind::finish_gradients: finish_buckets(reducer_of(next)); return true;
    default: return false;
  }
}

void replica_context::follow_on_host(const replica_call& next) {
  const auto given = given_without_data(next, replica_id_in_sync_group());
  const auto& operation = next.operation;
  switch (operation.kind) {
    case operation_kind::barrier:
      barrier();
      if (next.for_empty_replicas)
        next.for_empty_replicas();
      return;
    case operation_kind::all_reduce: (void)all_reduce(operation.op, given, next.options); return;
    case operation_kind::all_gather:
      (void)gather_here(given[0], operation.axis, next.options, next.on_devices, true);
      return;
    case operation_kind::broadcast:
      (void)broadcast_here(given[0], operation.root, next.options, next.on_devices);
      return;
    default: break; // gradients are on devices, and the rest was refused
  }
}

bool replica_context::follow_one_call_as_empty_replica(const std::vector<bool>& empty_replicas) {
  const auto next = state_->await_call(local_, empty_replicas);
  if (!next)
    return false;
  if (!next->on_devices || !follow_on_device(*next))
    follow_on_host(*next);
  return true;
}

void replica_context::tell_empty_replicas(std::function<void()> f) {
  if (live_ == 0 || live_ == state_->count())
    return;
  auto call = detail::described({.kind = operation_kind::barrier});
  call.for_empty_replicas = std::move(f);
  state_->collective(local_, std::move(call), [&](collective_group& group) {
    return group.barrier({.deadline = state_->options().collective_timeout});
  });
}

void replica_context::follow_as_empty_replica(const std::vector<bool>& empty_replicas) {
  while (follow_one_call_as_empty_replica(empty_replicas))
    ;
}

} // namespace troupe
