#pragma once

#include <cstdint>

#include <troupe/core/tensor.hpp>
#include <troupe/strategies/replicas/strategy.hpp>

/// How gradients go back through collective calls. There is no automatic differentiation: a step
/// that has the gradient with respect to what a collective call returned asks here for the one with
/// respect to what this replica gave. Collective like the calls themselves: inside a replica's
/// function, all replicas make the same calls. Gradients are f32, f64, f16 or bf16 (else
/// `dtype_mismatch`). Source: tf.distribute.
namespace troupe {

/// The gradient back through `all_reduce(op, x)`: `upstream`, of x's shape, reduced by the same
/// operation over the replicas. With one replica it is `upstream`. Of sum and mean alone:
/// `invalid_argument` names another operation. Sparse values have no gradient.
tensor all_reduce_gradient(replica_context& ctx, const reduction& op, const tensor& upstream);

/// The gradient back through `all_gather(x, axis)`: the replicas' gradients of the whole are
/// summed, and this replica takes the part that came from it. `upstream`: the shape of the whole;
/// `own_extent`: that of x along `axis`, which may differ between replicas. `shape_mismatch` when
/// the replicas' extents do not add up to that of `upstream`; `out_of_range` for the axis,
/// `invalid_argument` for scalars and a negative extent.
tensor all_gather_gradient(replica_context& ctx, const tensor& upstream, std::int64_t own_extent,
                           std::int64_t axis = 0);

} // namespace troupe
