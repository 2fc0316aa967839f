#include <troupe/strategies/parameter_server/parameter_server_strategy.hpp>

#include <troupe/core/execution_context.hpp>
#include <troupe/strategies/parameter_server/detail/parameter_server_strategy_state.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

namespace troupe {

namespace {

std::shared_ptr<detail::parameter_server_strategy_state> servers_of(
  runtime& rt, parameter_server_options options) {
  auto owner = rt.owner();
  if (!rt.options().peers.empty())
    throw_failure(errc::bad_config,
                  "parameter_server_strategy: this runtime has no parameter servers: it was "
                  "created with peers, for synchronous strategies");
  if (!owner)
    throw_failure(
      errc::bad_config,
      "parameter_server_strategy: this process is not the coordinator; call runtime::serve()");
  return std::make_shared<detail::parameter_server_strategy_state>(std::move(owner),
                                                                   std::move(options));
}

/// What it is to the functions that take any strategy.
strategy as_one_replica(runtime& rt,
                        const std::shared_ptr<detail::parameter_server_strategy_state>& servers) {
  detail::sync_options options{.kind = detail::strategy_kind::parameter_server,
                               .name = "parameter_server_strategy",
                               .devices = {"cpu:0"},
                               .servers = servers,
                               .resolver = servers->options().resolver};
  const auto& owner = *servers->owner();
  for (std::uint32_t i = 0; i < owner.servers(); ++i)
    options.server_devices.push_back(
      "/job:ps/replica:0/task:" + std::to_string(owner.server_task(i)) + "/device:CPU:0");
  auto state = std::make_shared<detail::replica_engine>(rt.services(), std::move(options));
  state->follow_runtime();
  return strategy{std::move(state)};
}

} // namespace

parameter_server_strategy::parameter_server_strategy(runtime& rt, parameter_server_options options)
  : servers_{servers_of(rt, std::move(options))} {
  strategy::operator=(as_one_replica(rt, servers_));
}

variable parameter_server_strategy::create_variable(variable_options options) {
  return servers_->create(std::move(options));
}

variable_list parameter_server_strategy::variables() const { return servers_->variables(); }

void parameter_server_strategy::note_outside(const char* what) const {
  if (!current_context().step)
    trace(state()->env(), "strategy.outside_closure", {{"call", what}, {"strategy", to_string()}});
}

variable create_variable(variable_options options) {
  if (current_context().step)
    throw_failure(errc::wrong_state,
                  "create_variable: must not be called inside a dataset function or step");
  const auto in = get_strategy();
  const auto& servers = in.state()->options().servers;
  if (!servers)
    throw_failure(errc::wrong_state,
                  "create_variable: outside a parameter_server_strategy's scope"
                    + (has_strategy() ? ", inside that of " + in.to_string() : std::string{}));
  return servers->create(std::move(options));
}

} // namespace troupe
