#include <string>

#include <troupe/strategies/cluster/cluster_roles.hpp>
#include <troupe/strategies/runtime/detail/address_rules.hpp>
#include <troupe/strategies/runtime/detail/cluster_inputs.hpp>
#include <troupe/strategies/runtime/detail/runtime_flags.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

// The options of programs with parameter servers. Those of peer workers: synchronous_args.cpp.
namespace troupe {

namespace {

/// Takes counts and addresses of a cluster specification that names this process.
void apply_cluster(runtime_options& options, const cluster_spec& spec, const own_task& own,
                   const std::string& what) {
  detail::require(validate_parameter_server_cluster(spec, own), what);
  detail::require(validate_addresses(spec), what);
  if (!own.type)
    throw_failure(errc::bad_config,
                  what + " has a cluster but no task.type: the task of this process is unknown");
  auto task =
    detail::flag_task(what + " task", *own.type + ":" + std::to_string(own.id.value_or(0)));
  options.task = task;
  if (!spec.has_job("chief"))
    throw_failure(errc::bad_config,
                  what + " has no job 'chief': the coordinator's address is unknown");
  options.workers = spec.num_tasks("worker");
  options.servers = spec.num_tasks("ps");
  options.server_tasks = spec.task_indices("ps"); // may have gaps
  options.worker_tasks = spec.task_indices("worker");
  options.coordinator_address = spec.task_address("chief", 0);
  options.described_by = what;
  options.names.coordinator = what + " " + task_words("chief", 0);
  auto own_address = spec.task_address(*own.type, task.index);
  if (task.job != job_kind::chief) {
    options.listen_address = own_address;
    options.names.listen = what + " " + task_words(*own.type, task.index);
  }
  for (const auto job : {job_kind::worker, job_kind::ps}) {
    const auto name = to_string(job);
    if (spec.has_job(name))
      for (const auto index : spec.task_indices(name))
        options.task_addresses[{.job = job, .index = index}] = spec.task_address(name, index);
  }
  // the one port a task is for control; data takes another on the same host
  options.data_listen_address = detail::with_free_port(own_address);
  options.names.data_listen = what + " " + task_words(*own.type, task.index);
}

/// A description of which one half is missing is none that a process may guess the rest of: it
/// would train alone, and into the same checkpoints as the others.
void refuse_half(const runtime_options& options, const detail::runtime_flags& given,
                 const std::string& task_flag) {
  if (!options.task) {
    for (const char* name : {"--troupe-coordinator", "--troupe-listen", "--troupe-data-listen"})
      for (const auto& [flag, value] : given.given())
        if (flag == name)
          throw_failure(errc::bad_config, flag + " is '" + value
                                            + "', but the task of this process is unknown: "
                                              "set --troupe-task chief, worker:N or ps:N");
    return;
  }
  if (options.described_by.empty() && !given.has("--troupe-coordinator"))
    throw_failure(errc::bad_config, "--troupe-task is '" + task_flag
                                      + "', but the coordinator's address is unknown: set "
                                     "--troupe-coordinator HOST:PORT, --cluster FILE or TF_CONFIG");
}

} // namespace

std::string runtime::flags_help() { return detail::runtime_flags::help(); }

runtime_options runtime::options_from_args(int argc, char** argv) {
  auto options = detail::options_of_environment();
  detail::cluster_flags cluster;
  const detail::runtime_flags flags{argc, argv, detail::program_kind::parameter_server};
  flags.apply(options, cluster);
  cluster_config config;
  std::string where = detail::tf_config;
  if (!cluster.file.empty()) {
    config = detail::config_of_file(cluster.file);
    where = "--cluster " + cluster.file;
  } else if (!flags.has("--troupe-coordinator")) {
    config = detail::config_of_environment();
  }
  if (!cluster.task.empty()) {
    auto task = detail::flag_task("--troupe-task", cluster.task);
    options.task = task;
    config.task = {.type = to_string(task.job), .id = task.index};
  }
  if (config.cluster || !cluster.file.empty()) {
    apply_cluster(options, config.cluster, config.task, where);
    flags.apply(options, cluster); // what is said by hand wins
  }
  refuse_half(options, flags, cluster.task);
  return options;
}

} // namespace troupe
