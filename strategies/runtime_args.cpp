#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>

#include <troupe/core/production_ports.hpp>
#include <troupe/strategies/cluster_resolver.hpp>
#include <troupe/strategies/cluster_roles.hpp>
#include <troupe/strategies/runtime.hpp>

namespace troupe {

namespace {

[[noreturn]] void bad_flag(const std::string& flag, const std::string& value,
                           const std::string& expected) {
  throw_failure(errc::bad_config, flag + " is '" + value + "', expected " + expected);
}

std::uint32_t number(const std::string& flag, const std::string& value) {
  std::uint32_t out = 0; // from_chars takes no sign and no space
  auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (wrong != std::errc{} || end != value.data() + value.size() || out > 100'000)
    bad_flag(flag, value, "a number up to 100000");
  return out;
}

/// Seconds, also parts of one, as milliseconds.
std::uint64_t milliseconds(const std::string& flag, const std::string& value) {
  double out = 0;
  auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), out);
  constexpr double seconds_max = 31'536'000; // a year
  if (wrong != std::errc{} || end != value.data() + value.size() || !(out >= 0.1)
      || out > seconds_max)
    bad_flag(flag, value, "seconds, from 0.1 to 31536000");
  return static_cast<std::uint64_t>(out * 1'000);
}

std::string device(const std::string& flag, const std::string& value) {
  if (!parse_device(value))
    bad_flag(flag, value, "cpu:N or gpu:N");
  return value;
}

task_id task_from(const std::string& flag, const std::string& value) {
  auto colon = value.find(':');
  auto job = value.substr(0, colon);
  task_id out;
  if (job == "chief")
    out.job = job_kind::chief;
  else if (job == "worker")
    out.job = job_kind::worker;
  else if (job == "ps")
    out.job = job_kind::ps;
  else
    bad_flag(flag, value, "chief, worker:N or ps:N");
  if (colon != std::string::npos)
    out.index = number(flag, value.substr(colon + 1));
  else if (out.job != job_kind::chief)
    bad_flag(flag, value, "chief, worker:N or ps:N");
  return out;
}

/// Takes counts and addresses of a cluster specification that names this process.
void apply_cluster(runtime_options& options, const cluster_spec& spec, const own_task& own,
                   const std::string& what) {
  validate_parameter_server_cluster(spec, own).value_or_throw();
  if (!own.type)
    throw_failure(errc::bad_config,
                  what + " has a cluster but no task.type: what is this process?");
  auto task = task_from(what + " task", *own.type + ":" + std::to_string(own.id.value_or(0)));
  options.task = task;
  if (!spec.has_job("chief"))
    throw_failure(errc::bad_config, what + " has no job 'chief': where is the coordinator?");
  options.workers = spec.num_tasks("worker");
  options.servers = spec.num_tasks("ps");
  options.server_tasks = spec.task_indices("ps"); // may have gaps (row PS-Z4)
  options.coordinator_address = spec.task_address("chief", 0);
  auto own_address = spec.task_address(*own.type, task.index);
  if (task.job != job_kind::chief)
    options.listen_address = own_address;
  for (const auto job : {job_kind::worker, job_kind::ps}) {
    const auto name = to_string(job);
    if (spec.has_job(name))
      for (const auto index : spec.task_indices(name))
        options.task_addresses[{.job = job, .index = index}] = spec.task_address(name, index);
  }
  // the one port a task is for control; data takes another on the same host
  options.data_listen_address = own_address.substr(0, own_address.rfind(':')) + ":0";
}

/// "auto": shared memory within a host; "tcp": never.
bool shares_memory(const std::string& flag, const std::string& value) {
  if (value != "auto" && value != "tcp")
    bad_flag(flag, value, "auto or tcp");
  return value == "auto";
}

struct cluster_flags {
  std::string file{};
  std::string task{};
};

using setter = std::function<void(const std::string& flag, const std::string& value)>;

std::map<std::string, setter> flags_of(runtime_options& options, cluster_flags& cluster) {
  return {
    {"--cluster", [&](auto&, auto& v) { cluster.file = v; }},
    {"--troupe-task", [&](auto&, auto& v) { cluster.task = v; }},
    {"--troupe-workers", [&](auto& f, auto& v) { options.workers = number(f, v); }},
    {"--troupe-servers", [&](auto& f, auto& v) { options.servers = number(f, v); }},
    {"--troupe-lanes", [&](auto& f, auto& v) { options.lanes_per_worker = number(f, v); }},
    {"--troupe-device", [&](auto& f, auto& v) { options.devices.push_back(device(f, v)); }},
    {"--troupe-start-workers", [&](auto& f, auto& v) { options.start_workers = number(f, v); }},
    {"--troupe-coordinator", [&](auto&, auto& v) { options.coordinator_address = v; }},
    {"--troupe-listen", [&](auto&, auto& v) { options.listen_address = v; }},
    {"--troupe-data-listen", [&](auto&, auto& v) { options.data_listen_address = v; }},
    {"--troupe-transport", [&](auto& f, auto& v) { options.shared_memory = shares_memory(f, v); }},
    {"--troupe-cluster-name", [&](auto&, auto& v) { options.cluster_name = v; }},
    {"--troupe-coordinator-lost",
     [&](auto& f, auto& v) { options.coordinator_lost_ms_max = milliseconds(f, v); }},
    {"--troupe-start-timeout",
     [&](auto& f, auto& v) {
       options.start_timeout = std::chrono::milliseconds{milliseconds(f, v)};
     }},
  };
}

using given_flags = std::vector<std::pair<std::string, std::string>>;

/// Those of the command line that are Troupe's, in order.
given_flags read_flags(int argc, char** argv, const std::map<std::string, setter>& flags) {
  given_flags given;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    std::string value;
    auto equals = flag.find('=');
    bool inlined = equals != std::string::npos;
    if (inlined) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    }
    auto at = flags.find(flag);
    if (at == flags.end()) {
      if (flag.starts_with("--troupe-"))
        bad_flag("flag", flag, "one of the --troupe- flags");
      continue; // the program's own
    }
    if (!inlined) {
      if (i + 1 >= argc)
        bad_flag(flag, "", "a value");
      value = argv[++i];
    }
    given.emplace_back(flag, value);
  }
  return given;
}

/// What stands in the environment, for all kinds of programs.
runtime_options options_of_environment() {
  runtime_options options;
  if (const char* transport = std::getenv("TROUPE_TRANSPORT")) // what a launcher's children inherit
    options.shared_memory = shares_memory("TROUPE_TRANSPORT", transport);
  if (const char* token =
        std::getenv("TROUPE_TOKEN")) // not a flag: those are seen by every user of the machine
    options.token = token;
  return options;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::optional<std::string>{text} : std::nullopt;
}

} // namespace

runtime_options runtime::options_from_args(int argc, char** argv) {
  auto options = options_of_environment();
  cluster_flags cluster;
  auto flags = flags_of(options, cluster);
  const auto given = read_flags(argc, argv, flags);
  auto apply_given = [&] { // again after a cluster description: what is said by hand wins
    for (const auto& [flag, value] : given)
      flags.at(flag)(flag, value);
  };
  apply_given();
  bool coordinator_given = std::any_of(
    given.begin(), given.end(), [](const auto& g) { return g.first == "--troupe-coordinator"; });
  if (!cluster.file.empty()) {
    auto ports = make_production_ports();
    auto config = load_cluster_file(ports->storage(), cluster.file).value_or_throw();
    if (!cluster.task.empty()) {
      auto task = task_from("--troupe-task", cluster.task);
      config.task = {.type = to_string(task.job), .id = task.index};
    }
    apply_cluster(options, config.cluster, config.task, "--cluster " + cluster.file);
    apply_given();
    return options;
  }
  tf_config_resolver resolver{environment_variable};
  auto spec = coordinator_given ? cluster_spec{} : resolver.cluster().value_or_throw();
  if (spec) {
    auto own = resolver.task().value_or_throw();
    if (!cluster.task.empty()) {
      auto task = task_from("--troupe-task", cluster.task);
      own = {.type = to_string(task.job), .id = task.index};
    }
    apply_cluster(options, spec, own, "TF_CONFIG");
    apply_given();
  } else if (!cluster.task.empty()) {
    options.task = task_from("--troupe-task", cluster.task);
  }
  return options;
}

// --- programs of equals

namespace {

/// "worker:1", "chief": any job of synchronous programs.
own_task equal_task_from(const std::string& flag, const std::string& value) {
  const auto colon = value.find(':');
  own_task out{.type = value.substr(0, colon), .id = 0};
  if (colon != std::string::npos)
    out.id = number(flag, value.substr(colon + 1));
  else if (*out.type != "chief" && *out.type != "evaluator")
    bad_flag(flag, value, "chief, worker:N or evaluator");
  return out;
}

/// `where`: what described the cluster. Whoever started this process is told which of his inputs to
/// mend: the resolver behind `synchronous_options` knows neither flags nor files.
void require_own_task(const own_task& own, const std::string& where, bool from_file) {
  if (!own.type && from_file)
    throw_failure(errc::bad_config,
                  where + ": which task is this? give --task chief, worker:N or evaluator");
  if (!own.type)
    throw_failure(errc::invalid_argument, where + " has a cluster but no task.type: the task type "
                                                  "of this process is not known");
  if (!own.id)
    throw_failure(errc::invalid_argument, where + " has task.type '" + *own.type
                                            + "' but no task.index: the task id of this process is "
                                              "not known");
}

std::shared_ptr<const cluster_resolver> resolver_of(cluster_config config) {
  return std::make_shared<simple_resolver>(
    simple_resolver_options{.cluster = std::move(config.cluster), .task = std::move(config.task)});
}

} // namespace

runtime_options runtime::synchronous_options(std::shared_ptr<const cluster_resolver> resolver,
                                             runtime_options options) {
  const auto spec = resolver->cluster().value_or_throw();
  const auto own = resolver->task().value_or_throw();
  if (!own.type)
    throw_failure(errc::invalid_argument, "cluster resolver: task type is not known");
  if (!own.id)
    throw_failure(errc::invalid_argument, "cluster resolver: task id is not known");
  const cluster_task task{.job = *own.type, .index = *own.id};
  options.peer = id_in_cluster(spec, task).value_or_throw();
  options.peers.clear();
  const bool evaluates = *own.type == "evaluator"; // it has no part in the others' work
  for (const char* job : {"chief", "worker"})
    if (spec.has_job(job) && !evaluates)
      for (const auto index : spec.task_indices(job))
        options.peers.push_back(spec.task_address(job, index));
  if (evaluates) {
    options.peers.push_back(spec.task_address(*own.type, *own.id));
    options.peer = 0;
  }
  options.resolver = std::move(resolver);
  return options;
}

runtime_options runtime::synchronous_options_from_args(int argc, char** argv) {
  auto options = options_of_environment();
  cluster_flags cluster;
  auto flags = flags_of(options, cluster);
  flags.emplace("--task", [&](auto&, auto& v) { cluster.task = v; });
  for (const auto& [flag, value] : read_flags(argc, argv, flags))
    flags.at(flag)(flag, value);
  cluster_config config;
  const bool from_file = !cluster.file.empty();
  if (from_file) {
    auto ports = make_production_ports();
    config = load_cluster_file(ports->storage(), cluster.file).value_or_throw();
  } else {
    const tf_config_resolver resolver{environment_variable};
    config.cluster = resolver.cluster().value_or_throw();
    config.task = resolver.task().value_or_throw();
  }
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
  require_own_task(config.task, from_file ? "--cluster " + cluster.file : "TF_CONFIG", from_file);
  return synchronous_options(resolver_of(std::move(config)), std::move(options));
}

} // namespace troupe
