#include <utility>

#include <troupe/device/context.hpp>
#include <troupe/strategies/replicas/detail/replica_calls.hpp>
#include <troupe/strategies/replicas/detail/sync_state.hpp>
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
bool replica_context::stand_in_on_device(const replica_call& next) {
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

void replica_context::stand_in_on_host(const replica_call& next) {
  const auto given = given_without_data(next, replica_id_in_sync_group());
  const auto& operation = next.operation;
  switch (operation.kind) {
    case operation_kind::barrier:
      barrier();
      if (next.for_silent)
        next.for_silent();
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

bool replica_context::stand_in_once(const std::vector<bool>& silent) {
  const auto next = state_->await_call(local_, silent);
  if (!next)
    return false;
  if (!next->on_devices || !stand_in_on_device(*next))
    stand_in_on_host(*next);
  return true;
}

void replica_context::tell_silent(std::function<void()> f) {
  if (live_ == 0 || live_ == state_->count())
    return;
  auto call = detail::described({.kind = operation_kind::barrier});
  call.for_silent = std::move(f);
  state_->collective(local_, std::move(call), [&](collective_group& group) {
    return group.barrier({.deadline = state_->options().collective_timeout});
  });
}

void replica_context::stand_in(const std::vector<bool>& silent) {
  while (stand_in_once(silent))
    ;
}

} // namespace troupe
