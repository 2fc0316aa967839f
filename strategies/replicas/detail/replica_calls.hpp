#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <troupe/actors/replicas/collective_order_checker.hpp>
#include <troupe/core/tensor.hpp>

/// The collective calls of replicas: how each is described to the others, and what a replica
/// without data gives to it. Plain functions; any thread.
namespace troupe::detail {

/// The call that makes `operation` with tensors of `type` and `shapes`.
replica_call described(replica_operation operation, dtype type = dtype::u8,
                       std::vector<shape_t> shapes = {});

/// The operator of a reduction that a replica without data can take part in: a user's own has no
/// neutral element, `invalid_argument`. @pre `call` has an operator
reduce_op neutral_operator(const replica_call& call);

/// What a replica without data gives to `call`, so that the others' result stays as it is: neutral
/// elements to a reduction, no rows to a gather, one tensor that is not looked at to a broadcast, a
/// zero f32 gradient for each of a bucket; nothing to a barrier. `invalid_argument`, naming
/// `empty_pieces::call`, for calls that it cannot take part in: a user's reduction, a gather of
/// equal shapes, a broadcast whose root it is, a merge call. `replica`: its number in the group.
std::vector<tensor> given_without_data(const replica_call& call, std::uint32_t replica);

} // namespace troupe::detail
