#include <troupe/strategies/cluster/cluster_resolver.hpp>

namespace troupe {

namespace {

// True when a program of this cluster has nobody else to talk to.
bool is_alone(const cluster_spec& spec) {
  const auto& jobs = spec.as_map();
  return jobs.empty() || (jobs.size() == 1 && jobs.begin()->second.size() == 1);
}

result<std::string> address_in(const cluster_spec& spec, const std::string& type,
                               std::uint32_t id) {
  auto job = spec.as_map().find(type);
  if (job == spec.as_map().end())
    return make_failure(errc::unknown_name, "cluster: unknown job \"" + type + "\"");
  auto task = job->second.find(id);
  if (task == job->second.end())
    return make_failure(errc::out_of_range,
                        "cluster: job \"" + type + "\" has no task " + std::to_string(id));
  return task->second;
}

} // namespace

std::string format_master_url(const std::string& address, const std::string& rpc_layer) {
  return rpc_layer.empty() ? address : rpc_layer + "://" + address;
}

result<own_task> cluster_resolver::task() const {
  auto type = task_type();
  if (!type)
    return type.error();
  auto id = task_id();
  if (!id)
    return id.error();
  return own_task{*type, *id};
}

// --- TF_CONFIG --------------------------------------------------------------------------------

tf_config_resolver::tf_config_resolver(get_variable read, own_task task,
                                       std::optional<std::string> rpc_layer,
                                       std::optional<std::string> environment)
  : read_{std::move(read)},
    task_{std::move(task)},
    rpc_layer_{std::move(rpc_layer)},
    environment_{std::move(environment)} {
  if (!read_)
    throw_failure(errc::invalid_argument, "tf_config_resolver: read is empty");
}

result<cluster_config> tf_config_resolver::read_config() const {
  auto text = read_("TF_CONFIG");
  if (!text)
    return cluster_config{};
  return parse_cluster_config(*text, "TF_CONFIG");
}

result<cluster_spec> tf_config_resolver::cluster() const {
  auto config = read_config();
  if (!config)
    return config.error();
  return std::move(config->cluster);
}

result<std::optional<std::string>> tf_config_resolver::task_type() const {
  if (task_.type)
    return task_.type;
  auto config = read_config();
  if (!config)
    return config.error();
  return std::move(config->task.type);
}

result<std::optional<std::uint32_t>> tf_config_resolver::task_id() const {
  if (task_.id)
    return task_.id;
  auto config = read_config();
  if (!config)
    return config.error();
  return config->task.id;
}

result<std::string> tf_config_resolver::rpc_layer() const {
  if (rpc_layer_)
    return *rpc_layer_;
  auto config = read_config();
  if (!config)
    return config.error();
  return std::move(config->rpc_layer);
}

result<std::string> tf_config_resolver::environment() const {
  if (environment_)
    return *environment_;
  auto config = read_config();
  if (!config)
    return config.error();
  return std::move(config->environment);
}

result<std::string> tf_config_resolver::master(const master_request& request) const {
  auto config = read_config();
  if (!config)
    return config.error();
  if (!config->session_master.empty())
    return std::move(config->session_master);
  if (is_alone(config->cluster))
    return std::string{};
  auto type = request.task_type ? request.task_type : task_.type ? task_.type : config->task.type;
  auto id = request.task_id ? request.task_id : task_.id ? task_.id : config->task.id;
  if (!type)
    return make_failure(errc::bad_config, "TF_CONFIG: task.type is missing");
  if (!id)
    return make_failure(errc::bad_config, "TF_CONFIG: task.index is missing");
  auto address = address_in(config->cluster, *type, *id);
  if (!address)
    return address;
  auto own_layer = rpc_layer_.value_or(config->rpc_layer);
  return format_master_url(*address, request.rpc_layer.value_or(own_layer));
}

// --- simple -----------------------------------------------------------------------------------

result<std::string> simple_resolver::master(const master_request& request) const {
  auto layer = request.rpc_layer.value_or(options_.rpc_layer);
  if (request.task_type && request.task_id) {
    auto address = address_in(options_.cluster, *request.task_type, *request.task_id);
    if (!address)
      return address;
    return format_master_url(*address, layer);
  }
  return options_.master.empty() ? std::string{} : format_master_url(options_.master, layer);
}

} // namespace troupe
