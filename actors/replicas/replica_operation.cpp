#include <troupe/actors/replicas/replica_operation.hpp>

namespace troupe {

std::string_view to_string(operation_kind kind) {
  switch (kind) {
    case operation_kind::other: break;
    case operation_kind::barrier: return "barrier";
    case operation_kind::all_reduce: return "all_reduce";
    case operation_kind::all_gather: return "all_gather";
    case operation_kind::broadcast: return "broadcast";
    case operation_kind::reduce_gradients: return "reduce_gradients";
    case operation_kind::finish_gradients: return "finish_gradients";
  }
  return {};
}

std::string parameters_of(const replica_operation& of) {
  switch (of.kind) {
    case operation_kind::other:
    case operation_kind::barrier: break;
    case operation_kind::all_reduce:
    case operation_kind::reduce_gradients:
    case operation_kind::finish_gradients:
      return of.op == reduce_op::user ? of.user : std::string{to_string(of.op)};
    case operation_kind::all_gather: return "axis " + std::to_string(of.axis);
    case operation_kind::broadcast: return "from " + std::to_string(of.root);
  }
  return {};
}

} // namespace troupe
