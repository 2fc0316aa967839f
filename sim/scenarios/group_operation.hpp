#pragma once

#include <cstdint>

#include <troupe/sim/draws.hpp>
#include <troupe/transport/collective_group.hpp>

namespace troupe::sim {

constexpr duration operation_max = std::chrono::seconds{2};

/// An operation, the same on all members: drawn from the epoch and its number.
struct operation_plan {
  collective_kind kind = collective_kind::all_reduce;
  reduce_op op = reduce_op::sum;
  dtype type = dtype::f32;
  std::int64_t count = 1;
  std::uint32_t root = 0;
  std::int64_t tensors = 1;
  collective_options options{.deadline = operation_max};
};

/// The operation with that number in the group's epoch.
operation_plan draw_operation(const draw_stream& run, const collective_group& group,
                              std::uint64_t number);

/// Digests of what an operation gave this member, and of what it should have.
struct operation_outcome {
  std::uint64_t got = 0;
  std::uint64_t wanted = 0;
};

/// Runs this member's part. What each member gives is a function of its id, so that every member
/// can tell what must come out.
result<operation_outcome> run_operation(collective_group& group, const operation_plan& plan);

} // namespace troupe::sim
