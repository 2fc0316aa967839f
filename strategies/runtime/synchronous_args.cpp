#include <memory>
#include <string>
#include <utility>

#include <troupe/strategies/cluster/cluster_resolver.hpp>
#include <troupe/strategies/cluster/cluster_roles.hpp>
#include <troupe/strategies/runtime/detail/cluster_inputs.hpp>
#include <troupe/strategies/runtime/detail/runtime_flags.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

// The options of programs of peer workers, which all run the same program.
namespace troupe {

namespace {

/// "worker:1", "chief": any job of synchronous programs.
own_task equal_task_from(const std::string& flag, const std::string& value) {
  const auto colon = value.find(':');
  own_task out{.type = value.substr(0, colon), .id = 0};
  if (colon != std::string::npos)
    out.id = detail::flag_number(flag, value.substr(colon + 1));
  else if (*out.type != "chief" && *out.type != "evaluator")
    detail::bad_flag(flag, value, "chief, worker:N or evaluator");
  return out;
}

/// `where`: what described the cluster. Whoever started this process is told which of his inputs to
/// mend: the resolver behind `synchronous_options` knows neither flags nor files.
void require_own_task(const own_task& own, const std::string& where, bool from_file) {
  if (!own.type && from_file)
    throw_failure(
      errc::bad_config,
      where + ": the task of this process is unknown: set --task chief, worker:N or evaluator");
  if (!own.type)
    throw_failure(
      errc::invalid_argument,
      where + " has a cluster but no task.type: the task type of this process is unknown");
  if (!own.id)
    throw_failure(errc::invalid_argument,
                  where + " has task.type '" + *own.type
                    + "' but no task.index: the task id of this process is unknown");
}

std::shared_ptr<const cluster_resolver> resolver_of(cluster_config config) {
  return std::make_shared<simple_resolver>(
    simple_resolver_options{.cluster = std::move(config.cluster), .task = std::move(config.task)});
}

std::string task_text(const std::string& job, std::uint32_t index) {
  return job == "worker" ? job + ":" + std::to_string(index) : job;
}

} // namespace

runtime_options runtime::synchronous_options(std::shared_ptr<const cluster_resolver> resolver,
                                             runtime_options options) {
  const auto spec = resolver->cluster().value_or_throw();
  const auto own = resolver->task().value_or_throw();
  if (!own.type)
    throw_failure(errc::invalid_argument, "cluster resolver: the task type is unknown");
  if (!own.id)
    throw_failure(errc::invalid_argument, "cluster resolver: the task id is unknown");
  const cluster_task task{.job = *own.type, .index = *own.id};
  detail::require(validate_addresses(spec), options.described_by);
  options.peer = id_in_cluster(spec, task).value_or_throw();
  options.peers.clear();
  options.peer_tasks.clear();
  const auto add = [&](const std::string& job, std::uint32_t index) {
    options.peers.push_back(spec.task_address(job, index));
    options.peer_tasks.push_back(task_text(job, index));
  };
  if (*own.type == "evaluator") { // it has no part in the others' work
    add(*own.type, *own.id);
    options.peer = 0;
  } else {
    for (const char* job : {"chief", "worker"})
      if (spec.has_job(job))
        for (const auto index : spec.task_indices(job))
          add(job, index);
  }
  options.resolver = std::move(resolver);
  return options;
}

runtime_options runtime::synchronous_options_from_args(int argc, char** argv) {
  auto options = detail::options_of_environment();
  detail::cluster_flags cluster;
  detail::runtime_flags{argc, argv, detail::program_kind::peers}.apply(options, cluster);
  const bool from_file = !cluster.file.empty();
  auto config = from_file ? detail::config_of_file(cluster.file) : detail::config_of_environment();
  if (from_file && !config.cluster)
    throw_failure(errc::bad_config,
                  "--cluster " + cluster.file + ": no jobs in the cluster description");
  if (!cluster.task.empty())
    config.task = equal_task_from("--task", cluster.task);
  if (!config.cluster && !cluster.task.empty())
    throw_failure(errc::bad_config, "--task is '" + cluster.task
                                      + "', but neither --cluster nor TF_CONFIG describes a "
                                        "cluster");
  if (!config.cluster) { // the only one
    options.peers = {"127.0.0.1:0"};
    return options;
  }
  options.described_by = from_file ? "--cluster " + cluster.file : detail::tf_config;
  require_own_task(config.task, options.described_by, from_file);
  return synchronous_options(resolver_of(std::move(config)), std::move(options));
}

} // namespace troupe
