#include <troupe/strategies/parameter_server/worker_context.hpp>

#include <troupe/strategies/parameter_server/parameter_server_strategy.hpp>

namespace troupe {

std::vector<variable_value> worker_context::read(const variable_list& variables) {
  std::vector<variable_id> ids;
  ids.reserve(variables.size());
  for (const auto& v : variables)
    ids.push_back(v.id());
  return host_.read(ids);
}

variable_value worker_context::read(const variable& v) {
  auto id = v.id();
  return std::move(host_.read({&id, 1}).front());
}

variable worker_context::get_or_create(const variable_options& options) {
  auto* rule = std::get_if<initializer_spec>(&options.initial);
  if (!rule)
    throw_failure(errc::invalid_argument, "get_or_create '" + options.name
                                            + "': initial must be an initializer inside a step");
  if (options.name.empty())
    throw_failure(errc::invalid_argument, "get_or_create: name is empty");
  return variable{host_.get_or_create({.name = options.name,
                                       .type = options.type,
                                       .shape = options.shape,
                                       .initializer = *rule,
                                       .optimizer = options.optimizer.spec()}),
                  nullptr};
}

void worker_context::apply(const variable_list& variables, std::span<const tensor> gradients) {
  if (variables.size() != gradients.size())
    throw_failure(errc::invalid_argument, "apply: " + std::to_string(gradients.size())
                                            + " gradients for " + std::to_string(variables.size())
                                            + " variables");
  std::vector<mutation> ops;
  ops.reserve(variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i)
    ops.push_back(
      {.variable = variables[i].id(), .kind = mutation_kind::apply, .values = gradients[i]});
  host_.mutate(ops);
}

void worker_context::apply(const variable& v, const tensor& gradient) {
  mutation op{.variable = v.id(), .kind = mutation_kind::apply, .values = gradient};
  host_.mutate({&op, 1});
}

void worker_context::apply(const variable& v, const sparse_gradient& gradient) {
  mutation op{.variable = v.id(),
              .kind = mutation_kind::apply,
              .values = gradient.values,
              .indices = gradient.indices};
  host_.mutate({&op, 1});
}

variable detail::variable_in_step(worker_context& ctx, variable_id id) {
  return variable{ctx.host().describe(id), nullptr};
}

} // namespace troupe
