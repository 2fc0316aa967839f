#include <algorithm>
#include <string>
#include <utility>

#include <troupe/device/context.hpp>
#include <troupe/strategies/replicas/detail/sync_state.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

/// Replicas that have no data in a step: they make the calls of the others, with what changes
/// nothing.
namespace troupe {

namespace {

using detail::neutral;

/// A user's own reduction has no neutral element.
reduce_op neutral_op(const std::string& how) {
  for (auto op : {reduce_op::sum, reduce_op::mean, reduce_op::min, reduce_op::max, reduce_op::prod})
    if (how == to_string(op))
      return op;
  throw_failure(errc::invalid_argument,
                "all_reduce " + how + ": a replica without data cannot take part; use "
                                      "empty_pieces::call");
}

std::int64_t axis_of(const replica_call& gather) {
  return static_cast<std::int64_t>(std::stoul(gather.how.substr(5)));
}

/// For an `all_gather`; an extent of -1: as many rows as one has.
tensor no_rows(const replica_call& gather) {
  auto shape = gather.shapes[0];
  auto& extent = shape.at(static_cast<std::size_t>(axis_of(gather)));
  if (extent >= 0) // where all have to have the same number
    throw_failure(
      errc::invalid_argument,
      "all_gather of " + to_string(gather.shapes[0])
        + " of equal shapes: a replica without data has no rows; use empty_pieces::call");
  extent = 0;
  return tensor::zeros(gather.type, shape);
}

} // namespace

/// False: it goes through host memory, whoever calls it.
bool replica_context::stand_in_on_device(const replica_call& next) {
  if (next.kind == "all_reduce") {
    const auto nothing = neutral(next.type, next.shapes[0], neutral_op(next.how));
    (void)all_reduce(neutral_op(next.how), device().put(nothing), next.options);
    return true;
  }
  if (next.kind != "reduce_gradients" && next.kind != "finish_gradients")
    return false;
  const gradient_reducer_options how{.op = neutral_op(next.how),
                                     .bf16 = next.type == dtype::bf16,
                                     .deadline = next.options.deadline};
  if (next.kind == "finish_gradients") {
    finish_buckets(how);
    return true;
  }
  std::vector<device_tensor> bucket;
  for (const auto& shape : next.shapes)
    bucket.push_back(device().put(tensor::zeros(dtype::f32, shape)));
  reduce_bucket(bucket, how);
  return true;
}

bool replica_context::stand_in_once(const std::vector<bool>& silent) {
  const auto next = state_->await_call(local_, silent);
  if (!next)
    return false;
  if (next->on_devices && stand_in_on_device(*next))
    return true;
  if (next->kind == "barrier") {
    barrier();
    if (next->for_silent)
      next->for_silent();
  } else if (next->kind == "all_reduce") {
    const auto op = neutral_op(next->how);
    std::vector<tensor> xs;
    for (const auto& shape : next->shapes)
      xs.push_back(neutral(next->type, shape, op));
    (void)all_reduce(op, xs, next->options);
  } else if (next->kind == "all_gather") {
    (void)gather_here(no_rows(*next), axis_of(*next), next->options, next->on_devices, true);
  } else if (next->kind == "broadcast") {
    const auto root = static_cast<std::uint32_t>(std::stoul(next->how.substr(5)));
    if (root == replica_id_in_sync_group())
      throw_failure(errc::invalid_argument, "broadcast: replica " + std::to_string(root)
                                              + ", the root, has no data in this step; "
                                                "use empty_pieces::call");
    (void)broadcast_here(tensor::zeros(next->type, next->shapes[0]), root, next->options,
                         next->on_devices);
  } else {
    throw_failure(errc::invalid_argument,
                  next->kind + ": a replica without data cannot take part; use empty_pieces::call");
  }
  return true;
}

void replica_context::tell_silent(std::function<void()> f) {
  if (live_ == 0 || live_ == state_->count())
    return;
  state_->collective(local_, {.kind = "barrier", .for_silent = std::move(f)},
                     [&](collective_group& group) {
                       return group.barrier({.deadline = state_->options().collective_timeout});
                     });
}

void replica_context::stand_in(const std::vector<bool>& silent) {
  while (stand_in_once(silent))
    ;
}

} // namespace troupe
