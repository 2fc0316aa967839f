#include <troupe/strategies/replicas/replica_context.hpp>

#include <cstring>
#include <utility>

#include <troupe/device/context.hpp>
#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/replicas/detail/gather_parts.hpp>
#include <troupe/strategies/replicas/detail/replica_calls.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/replicas/detail/tensor_reduce.hpp>
#include <troupe/strategies/replicas/detail/tensor_rows.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe {

using detail::context_kind;
using detail::innermost_mode;
using detail::replica_engine;

replica_context::replica_context(std::shared_ptr<replica_engine> state, std::uint32_t local)
  : state_{std::move(state)}, local_{local} {}

std::uint32_t replica_context::replica_id_in_sync_group() const {
  return state_->first_id() + local_;
}
std::uint32_t replica_context::num_replicas_in_sync() const { return state_->count(); }
std::vector<std::string> replica_context::devices() const {
  return {state_->options().devices[local_]};
}

device_context& replica_context::device() {
  if (!device_)
    device_ = state_->device_of(local_);
  return *device_;
}

/// Throws `wrong_state` outside the function of this replica, naming the context that is active.
void replica_context::check_current(const char* what) const {
  auto* mode = innermost_mode();
  if (mode ? mode->kind == context_kind::replica && mode->replica == this : state_->is_standard())
    return;
  std::string text = std::string{what} + ": ";
  if (!mode || mode->kind != context_kind::replica)
    text += "must be called inside a function that a strategy runs on its replicas";
  else if (mode->strategy != state_)
    text += "the replica context belongs to another strategy, " + state_->text() + ", "
            + mode->strategy->text() + " is active";
  else
    text += "the replica context belongs to another replica";
  throw_failure(errc::wrong_state, text);
}

namespace {

/// Makes copies of tensors of one type. Those that fit into one bucket are parts of one block,
/// which is the result: the reduction then packs and unpacks nothing.
tensor copied(std::span<tensor> xs, std::size_t bucket_bytes) {
  std::int64_t elements = 0;
  for (const auto& x : xs)
    elements += x.size();
  const auto type = xs[0].type();
  if (xs.size() == 1 || static_cast<std::size_t>(elements) * size_of(type) > bucket_bytes) {
    for (auto& x : xs)
      x = x.clone();
    return {};
  }
  tensor bucket{type, {elements}};
  const auto owner = std::make_shared<tensor>(bucket);
  auto* at = bucket.mutable_bytes().data();
  for (auto& x : xs) {
    if (x.size_bytes() > 0)
      std::memcpy(at, x.bytes().data(), x.size_bytes());
    x = tensor{type, x.shape(), owner, at};
    at += x.size_bytes();
  }
  return bucket;
}

} // namespace

tensor replica_context::all_reduce(const reduction& op, const tensor& x,
                                   const collective_options& options) {
  check_current("all_reduce");
  return reduce_here(op, {x}, options, false)[0];
}

std::vector<tensor> replica_context::all_reduce(const reduction& op, const std::vector<tensor>& xs,
                                                const collective_options& options) {
  check_current("all_reduce");
  return reduce_here(op, xs, options, false);
}

std::vector<tensor> replica_context::reduce_here(const reduction& op, const std::vector<tensor>& xs,
                                                 const collective_options& options,
                                                 bool of_devices) {
  if (xs.empty())
    return {};
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (!xs[i].defined())
      throw_failure(errc::invalid_argument,
                    "all_reduce: tensor " + std::to_string(i) + " of this replica has no value");
  std::vector<tensor> out;
  if (state_->count() == 1) {
    for (const auto& x : xs)
      out.push_back(detail::reduce_tensors("all_reduce", op, {&x, 1}));
    return out;
  }
  if (op.op == reduce_op::user && divisor() != state_->count()) {
    for (const auto& x : xs)
      out.push_back(
        detail::reduce_rows(op, gather_here(detail::row_of(x), 0, options, of_devices, true)));
    return out;
  }
  // One call for each run of tensors of a type: a mean of integers is another operation.
  for (std::size_t at = 0; at < xs.size();) {
    std::size_t end = at + 1;
    while (end < xs.size() && xs[end].type() == xs[at].type())
      ++end;
    for (auto& each : reduce_alike(op, std::span{xs}.subspan(at, end - at), options, of_devices))
      out.push_back(std::move(each));
    at = end;
  }
  return out;
}

/// Tensors of one type.
std::vector<tensor> replica_context::reduce_alike(const reduction& op, std::span<const tensor> xs,
                                                  const collective_options& options,
                                                  bool of_devices) {
  const auto type = xs[0].type();
  // The group divides by all its members, and integers in their own type.
  const bool apart =
    op.op == reduce_op::mean && (detail::is_integer(type) || divisor() != state_->count());
  const auto how = apart ? reduction{reduce_op::sum} : op;
  auto with = state_->own_deadline(options);
  auto call = detail::described(
    {.kind = operation_kind::all_reduce, .op = op.op, .user = op.user.name}, type, {xs[0].shape()});
  call.on_devices = of_devices;
  std::vector<tensor> own;
  for (const auto& x : xs)
    own.push_back(apart ? detail::mean_summand(x) : x);
  for (const auto& x : xs.subspan(1))
    call.shapes.push_back(x.shape());
  with.what = state_->words_for(call, options.what);
  call.options = options;
  auto bucket = copied(own, with.bucket_bytes);
  state_->collective(local_, std::move(call), [&](collective_group& group) {
    return bucket.defined() ? group.all_reduce(bucket, how, with)
                            : group.all_reduce(std::span{own}, how, with);
  });
  for (auto& each : own)
    if (apart)
      each = detail::mean_of(each, type, divisor());
  return own;
}

tensor replica_context::all_gather(const tensor& x, std::int64_t axis,
                                   const collective_options& options) {
  check_current("all_gather");
  return gather_here(x, axis, options, false, gathers_any_extent());
}

bool replica_context::gathers_any_extent() const { return !state_->policy().requires_equal_shapes; }

tensor replica_context::gather_here(const tensor& x, std::int64_t axis,
                                    const collective_options& options, bool of_devices,
                                    bool any_extent) {
  if (!x.defined())
    throw_failure(errc::invalid_argument, "all_gather: the tensor of this replica has no value");
  if (state_->count() == 1)
    return detail::concatenate_along("all_gather", {&x, 1}, axis);
  const auto rank = static_cast<std::int64_t>(x.rank());
  if (rank == 0)
    throw_failure(errc::invalid_argument,
                  "all_gather: a scalar has no axis to gather along; add a dimension first");
  if (axis < 0 || axis >= rank)
    throw_failure(errc::out_of_range, "all_gather: axis is " + std::to_string(axis)
                                        + ", expected 0 to " + std::to_string(rank - 1));
  auto call = detail::described({.kind = operation_kind::all_gather, .axis = axis});
  call.on_devices = of_devices;
  auto with = state_->own_deadline(options);
  with.what = state_->words_for(call, options.what);
  const auto named = to_string(call).size();
  call.type = x.type();
  call.shapes = {x.shape()};
  if (any_extent)
    call.shapes[0][static_cast<std::size_t>(axis)] = -1;
  with.detail = to_string(call).substr(named); // workers compare it by what they tell each other
  call.options = options;
  std::vector<tensor> parts;
  state_->collective(local_, std::move(call), [&](collective_group& group) {
    return detail::gather_parts(group, x, static_cast<std::size_t>(axis), any_extent, with, parts);
  });
  return detail::concatenate_along("all_gather", parts, axis);
}

sparse_gradient replica_context::all_reduce(const reduction& op, const sparse_gradient& x) {
  if (op.op != reduce_op::sum && op.op != reduce_op::mean)
    throw_failure(errc::invalid_argument, "all_reduce: sparse values support sum and mean, not "
                                            + std::string{to_string(op.op)});
  sparse_gradient out{.indices = all_gather(x.indices, 0), .values = all_gather(x.values, 0)};
  if (op.op == reduce_op::mean)
    out.values = detail::divide(out.values, divisor());
  return out;
}

tensor replica_context::broadcast(const tensor& x, std::uint32_t root,
                                  const collective_options& options) {
  check_current("broadcast");
  return broadcast_here(x, root, options, false);
}

tensor replica_context::broadcast_here(const tensor& x, std::uint32_t root,
                                       const collective_options& options, bool of_devices) {
  if (root >= state_->count())
    throw_failure(errc::out_of_range, "broadcast: root is " + std::to_string(root) + " of "
                                        + std::to_string(state_->count()) + " replicas");
  if (!x.defined())
    throw_failure(errc::invalid_argument, "broadcast: the tensor of this replica has no value");
  auto out = x.clone();
  if (state_->count() == 1)
    return out;
  auto with = state_->own_deadline(options);
  auto call =
    detail::described({.kind = operation_kind::broadcast, .root = root}, x.type(), {x.shape()});
  call.on_devices = of_devices;
  with.what = state_->words_for(call, options.what);
  call.options = options;
  state_->collective(local_, std::move(call),
                     [&](collective_group& group) { return group.broadcast(out, root, with); });
  return out;
}

void replica_context::set_placed(std::vector<std::shared_ptr<const detail::placed_input>> inputs) {
  placed_ = std::move(inputs);
}

void replica_context::barrier() {
  check_current("barrier");
  if (state_->count() == 1)
    return;
  state_->collective(local_, detail::described({.kind = operation_kind::barrier}),
                     [&](collective_group& group) {
                       return group.barrier({.deadline = state_->options().collective_timeout});
                     });
}

std::shared_ptr<void> replica_context::merge(std::string what, std::shared_ptr<void> arguments,
                                             detail::merge_body body) {
  check_current("merge_call");
  return state_->merge(local_, std::move(what), std::move(arguments), body);
}

} // namespace troupe
