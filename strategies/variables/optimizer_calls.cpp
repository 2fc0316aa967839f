#include <troupe/strategies/variables/optimizer_calls.hpp>

#include <algorithm>
#include <string>

#include <troupe/strategies/variables/detail/variable_core.hpp>

namespace troupe {

namespace {

void apply_all(const distributed_variables& variables, const std::vector<tensor>& gradients) {
  for (std::size_t i = 0; i < variables.size(); ++i)
    variables[i].core()->apply(gradients[i]);
}

} // namespace

void apply_reduced(replica_context& ctx, const distributed_variables& variables,
                   const std::vector<tensor>& gradients) {
  if (variables.size() != gradients.size())
    throw_failure(errc::invalid_argument, "apply_reduced: " + std::to_string(gradients.size())
                                            + " gradients for " + std::to_string(variables.size())
                                            + " variables");
  for (const auto& v : variables)
    if (v.core()->caller("apply_reduced").ctx != &ctx && !v.core()->of()->is_standard())
      throw_failure(v.core()->complaint(errc::wrong_state, "apply_reduced",
                                        "must be called inside the replica function"));
  for (std::size_t i = 0; i < variables.size(); ++i) // all, or none changes
    variables[i].core()->check_gradient(gradients[i]);
  apply_all(variables, gradients);
  ctx.tell_empty_replicas([variables, gradients] { apply_all(variables, gradients); });
  if (std::ranges::any_of(variables, [](const auto& v) { return v.core()->is_shared(); }))
    ctx.barrier(); // whoever reads next sees it
}

void replica_context::apply(const distributed_variables& variables,
                            const std::vector<tensor>& gradients, reduce_op op) {
  if (variables.size() != gradients.size())
    throw_failure(errc::invalid_argument, "apply: " + std::to_string(gradients.size())
                                            + " gradients for " + std::to_string(variables.size())
                                            + " variables");
  for (std::size_t i = 0; i < variables.size(); ++i) // all, or none changes
    variables[i].core()->check_gradient(gradients[i]);
  // One replica's gradients are their own sum and mean: nothing to copy, they are only read.
  const bool alone = state_->count() == 1 && (op == reduce_op::sum || op == reduce_op::mean);
  if (alone)
    check_current("apply");
  const auto sums = alone ? gradients : all_reduce(op, gradients);
  apply_reduced(*this, variables, sums);
}

void set_learning_rate(const distributed_variable& variable, float rate) {
  const auto& core = *variable.core();
  if (core.caller("set_learning_rate").what != detail::variable_context::cross)
    throw_failure(core.complaint(errc::wrong_state, "set_learning_rate",
                                 "must be called in cross-replica context"));
  if (auto why = complaint_of_rate(rate))
    throw_failure(core.complaint(errc::invalid_argument, "set_learning_rate", *why));
  for (std::size_t i = 0; i < core.components(); ++i)
    core.component(i)
      .mutate({.variable = core.spec().id,
               .kind = mutation_kind::set_learning_rate,
               .at_least_once = true,
               .values = tensor::scalar(rate),
               .indices = {}})
      .value_or_throw();
}

} // namespace troupe
