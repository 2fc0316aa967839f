#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/replicas/detail/tensor_reduce.hpp>
#include <troupe/strategies/replicas/detail/tensor_rows.hpp>
#include <troupe/strategies/replicas/detail/worker_calls.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

/// Reductions and gathers that the program calls, over the components of distributed values.
namespace troupe {

using detail::replica_engine;

namespace {

bool is_zero(const tensor& x) {
  const auto bytes = x.bytes();
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte each) { return each == std::byte{}; });
}

[[noreturn]] void refuse_shape(const replica_engine& state, const char* what, std::size_t i,
                               const shape_t& shape, const shape_t& first) {
  throw_failure(errc::shape_mismatch, std::string{what} + ": component " + std::to_string(i)
                                        + " has shape " + to_string(shape) + ", component 0 "
                                        + to_string(first) + "; " + state.text()
                                        + " requires equal shapes");
}

void check_count(const replica_engine& state, const char* what, std::size_t components) {
  if (components != state.local_count())
    throw_failure(errc::invalid_argument,
                  std::string{what} + ": the value has " + std::to_string(components)
                    + " components, " + state.text() + " has " + std::to_string(state.local_count())
                    + " replicas here");
}

/// What an absent component holds is nothing.
per_replica<tensor> present(const per_replica<tensor>& value) {
  if (value.absent().empty())
    return value;
  std::vector<tensor> out;
  for (std::size_t i = 0; i < value.size(); ++i)
    out.push_back(value.is_absent(i) ? tensor{} : value[i]);
  return per_replica<tensor>{std::move(out), value.is_mirrored()};
}

/// The components that have a value.
std::vector<tensor> with_value(const char* what, const per_replica<tensor>& value) {
  std::vector<tensor> out;
  for (const auto& each : value)
    if (each.defined())
      out.push_back(each);
  if (out.empty())
    throw_failure(errc::invalid_argument, std::string{what} + ": no component has a value");
  return out;
}

/// One replica's part in a reduction over several workers. `x`: undefined where the replica had no
/// data; `like`: has the type and shape that it would have.
tensor reduce_over_replicas(replica_context& ctx, const reduction& op, const tensor& x,
                            const tensor& like,
                            const std::optional<std::vector<std::int64_t>>& axis) {
  const bool mean = op.op == reduce_op::mean, there = x.defined();
  if (op.op == reduce_op::user && !axis) {
    const auto count = ctx.all_reduce(reduce_op::sum, std::int64_t{there ? 1 : 0});
    return count == ctx.num_replicas_in_sync()
             ? ctx.all_reduce(op, x)
             : detail::reduce_rows(
               op, ctx.all_gather(there ? detail::row_of(x) : detail::no_row_like(like)));
  }
  auto mine = there ? x : detail::neutral(like.type(), like.shape(), op.op);
  if (!axis && !mean)
    return ctx.all_reduce(op, mine);
  std::int64_t elements = 1;
  auto part =
    axis ? detail::reduce_axes("reduce", op, mine, *axis, elements) : detail::mean_summand(mine);
  if (!mean)
    return ctx.all_reduce(op, part);
  const auto total = ctx.all_reduce(reduce_op::sum, there ? elements : 0);
  return detail::mean_of(ctx.all_reduce(reduce_op::sum, part), mine.type(), total);
}

} // namespace

/// A component without a value is that of a replica that had no data: it counts for nothing.
tensor strategy::reduce(const reduction& op, const per_replica<tensor>& components,
                        std::optional<std::vector<std::int64_t>> axis) const {
  state_->require_cross_replica("reduce");
  check_count(*state_, "reduce", components.size());
  const auto value = present(components);
  const bool one = state_->count() == 1;
  if (value.is_mirrored() && !axis && !one) {
    if (op.op == reduce_op::mean)
      return value[0];
    if (op.op == reduce_op::sum)
      throw_failure(errc::invalid_argument,
                    "reduce: a mirrored value cannot be reduced with sum: its components are equal "
                    "already");
  }
  const bool mean = op.op == reduce_op::mean;
  if (state_->options().workers > 1) {
    const auto like = with_value("reduce", components)[0];
    auto all = run( // nothing by reference: a thread that is left behind may outlive this call
      [op, axis, like](replica_context& ctx, const tensor& x) {
        return reduce_over_replicas(ctx, op, x, like, axis);
      },
      value);
    return all[0];
  }
  const auto there = with_value("reduce", value);
  if (!axis)
    return detail::reduce_tensors("reduce", op, there);
  detail::require_one_type("reduce", there);
  std::vector<tensor> parts;
  std::int64_t total = 0;
  for (const auto& each : there) {
    std::int64_t elements = 0;
    parts.push_back(detail::reduce_axes("reduce", op, each, *axis, elements));
    total += elements;
  }
  if (!mean)
    return detail::reduce_tensors("reduce", op, parts);
  return detail::mean_of(detail::reduce_tensors("reduce", reduce_op::sum, parts), there[0].type(),
                         total);
}

tensor strategy::reduce(const reduction& op, const per_replica<tensor>& value,
                        std::int64_t axis) const {
  return reduce(op, value, std::vector<std::int64_t>{axis});
}

tensor strategy::reduce(const reduction& op, const tensor& value,
                        std::optional<std::vector<std::int64_t>> axis) const {
  state_->require_cross_replica("reduce");
  if (state_->options().links)
    return detail::reduce_over_workers(*state_, op, value, std::move(axis));
  auto own = value;
  if (axis) {
    std::int64_t elements = 0;
    own = detail::reduce_axes("reduce", op, value, *axis, elements);
    if (op.op == reduce_op::mean)
      own = detail::mean_of(own, value.type(), elements);
  }
  if (state_->count() == 1 || op.op == reduce_op::mean)
    return own;
  if (state_->options().workers == 1 && is_zero(own))
    return own; // zeros stay zeros, whatever the number of replicas
  if (op.op == reduce_op::min || op.op == reduce_op::max)
    return own; // of equal values
  throw_failure(errc::invalid_argument, "reduce: a non-distributed value cannot be reduced with "
                                          + std::string{troupe::to_string(op.op)} + " over "
                                          + std::to_string(state_->count()) + " replicas");
}

tensor strategy::gather(const per_replica<tensor>& value, std::int64_t axis) const {
  state_->require_cross_replica("gather");
  check_count(*state_, "gather", value.size());
  if (state_->policy().requires_equal_shapes)
    for (std::size_t i = 1; i < value.size(); ++i)
      if (value[i].shape() != value[0].shape())
        refuse_shape(*state_, "gather", i, value[i].shape(), value[0].shape());
  if (state_->options().workers > 1) {
    auto like = with_value("gather", value)[0];
    return run(
      [axis, like](replica_context& ctx, const tensor& x) {
        if (x.defined())
          return ctx.all_gather(x, axis);
        auto shape = like.shape(); // of a replica that had no data
        if (axis >= 0 && axis < static_cast<std::int64_t>(shape.size()))
          shape[static_cast<std::size_t>(axis)] = 0;
        return ctx.all_gather(tensor{like.type(), shape}, axis);
      },
      value)[0];
  }
  return detail::concatenate_along("gather", with_value("gather", value), axis);
}

tensor strategy::gather(const tensor& value, std::int64_t) const {
  state_->require_cross_replica("gather");
  return value;
}

} // namespace troupe
