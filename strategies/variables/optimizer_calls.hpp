#pragma once

#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/variables/distributed_variable.hpp>

/// Calls of training loops to the optimizers of distributed variables, beside
/// `replica_context::apply`.
namespace troupe {

/// Has each copy's optimizer apply gradients that are the replicas' sum or mean already, as those
/// are which `gradient_reducer` has brought together: nothing is reduced again. Inside a replica's
/// function; all replicas call it with equal gradients, one for each variable, in host memory.
/// Replicas without data in the step apply them too. `invalid_argument` when the counts differ,
/// `wrong_state` outside a replica's function, `shape_mismatch` and `dtype_mismatch` naming the
/// variable, before anything has changed.
void apply_reduced(replica_context& ctx, const distributed_variables& variables,
                   const std::vector<tensor>& gradients);

/// Replaces the rate, or the schedule, of the optimizer of every copy in this process, from its
/// next update on. In cross-replica context, else `wrong_state`; over several workers each has to
/// do the same, or their copies drift apart. `invalid_argument` for a rate that is negative or not
/// finite, `wrong_state` for a variable without an optimizer. Not part of checkpoints.
void set_learning_rate(const distributed_variable& variable, float rate);

} // namespace troupe
