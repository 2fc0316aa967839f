#include <troupe/strategies/replicas/detail/replica_calls.hpp>

#include <string>
#include <utility>

#include <troupe/strategies/replicas/detail/tensor_reduce.hpp>

namespace troupe::detail {

replica_call described(replica_operation operation, dtype type, std::vector<shape_t> shapes) {
  replica_call out{.kind = std::string{to_string(operation.kind)},
                   .how = parameters_of(operation),
                   .type = type,
                   .shapes = std::move(shapes)};
  out.operation = std::move(operation);
  return out;
}

reduce_op neutral_operator(const replica_call& call) {
  if (call.operation.op == reduce_op::user)
    throw_failure(errc::invalid_argument,
                  "all_reduce " + call.how + ": a replica without data cannot take part; use "
                                             "empty_pieces::call");
  return call.operation.op;
}

namespace {

/// An extent of -1: as many rows as one has.
tensor no_rows(const replica_call& gather) {
  auto shape = gather.shapes.at(0);
  auto& extent = shape.at(static_cast<std::size_t>(gather.operation.axis));
  if (extent >= 0) // where all have to have the same number
    throw_failure(
      errc::invalid_argument,
      "all_gather of " + to_string(gather.shapes[0])
        + " of equal shapes: a replica without data has no rows; use empty_pieces::call");
  extent = 0;
  return tensor::zeros(gather.type, shape);
}

std::vector<tensor> neutral_elements(const replica_call& reduction) {
  const auto op = neutral_operator(reduction);
  std::vector<tensor> out;
  for (const auto& shape : reduction.shapes)
    out.push_back(neutral(reduction.type, shape, op));
  return out;
}

std::vector<tensor> no_gradients(const replica_call& bucket) {
  std::vector<tensor> out; // f32, whatever they travel as
  for (const auto& shape : bucket.shapes)
    out.push_back(tensor::zeros(dtype::f32, shape));
  return out;
}

} // namespace

std::vector<tensor> given_without_data(const replica_call& call, std::uint32_t replica) {
  switch (call.operation.kind) {
    case operation_kind::barrier:
    case operation_kind::finish_gradients: return {};
    case operation_kind::all_reduce: return neutral_elements(call);
    case operation_kind::all_gather: return {no_rows(call)};
    case operation_kind::broadcast:
      if (call.operation.root == replica)
        throw_failure(errc::invalid_argument, "broadcast: replica " + std::to_string(replica)
                                                + ", the root, has no data in this step; "
                                                  "use empty_pieces::call");
      return {tensor::zeros(call.type, call.shapes.at(0))};
    case operation_kind::reduce_gradients: return no_gradients(call);
    case operation_kind::other: break;
  }
  throw_failure(errc::invalid_argument,
                call.kind + ": a replica without data cannot take part; use empty_pieces::call");
}

} // namespace troupe::detail
