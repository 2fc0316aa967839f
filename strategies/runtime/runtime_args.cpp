#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

#include <troupe/core/nearest_word.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/strategies/cluster/cluster_resolver.hpp>
#include <troupe/strategies/cluster/cluster_roles.hpp>
#include <troupe/strategies/runtime/detail/address_rules.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

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

/// Errors of a description say where it stands.
void check(const result<void>& verdict, const std::string& where) {
  if (!verdict)
    throw_failure(verdict.error().code,
                  (where.empty() ? where : where + ": ") + verdict.error().text);
}

/// Takes counts and addresses of a cluster specification that names this process.
void apply_cluster(runtime_options& options, const cluster_spec& spec, const own_task& own,
                   const std::string& what) {
  check(validate_parameter_server_cluster(spec, own), what);
  check(validate_addresses(spec), what);
  if (!own.type)
    throw_failure(errc::bad_config,
                  what + " has a cluster but no task.type: the task of this process is unknown");
  auto task = task_from(what + " task", *own.type + ":" + std::to_string(own.id.value_or(0)));
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

/// Who takes a flag.
enum class taker : std::uint8_t { all, servers, equals };

struct flag {
  setter set{};
  const char* value = ""; ///< what stands behind it
  const char* help = "";
  taker of = taker::all;
};

using flag_table = std::map<std::string, flag>;

flag_table flags_of(runtime_options& options, cluster_flags& cluster) {
  auto address = [](std::string& to, std::string& name) -> setter {
    return [&](auto& f, auto& v) {
      to = v;
      name = f;
    };
  };
  constexpr auto servers = taker::servers;
  return {
    {"--cluster",
     {[&](auto&, auto& v) { cluster.file = v; }, "FILE",
      "file with the cluster description: addresses of the tasks of each job, as in TF_CONFIG"}},
    {"--task",
     {[&](auto&, auto& v) { cluster.task = v; }, "TASK",
      "task of this process: chief, worker:N or evaluator (synchronous programs)", taker::equals}},
    {"--troupe-task",
     {[&](auto&, auto& v) { cluster.task = v; }, "TASK",
      "task of this process: chief, worker:N or ps:N (default: from TF_CONFIG)"}},
    {"--troupe-coordinator",
     {address(options.coordinator_address, options.names.coordinator), "HOST:PORT",
      "address of the coordinator, instead of --cluster; for the chief, the address to listen on",
      servers}},
    {"--troupe-listen",
     {address(options.listen_address, options.names.listen), "HOST:PORT",
      "control-plane address of a worker or server (default 127.0.0.1, any port)", servers}},
    {"--troupe-data-listen",
     {address(options.data_listen_address, options.names.data_listen), "HOST:PORT",
      "data-plane address of a server or the coordinator (default 127.0.0.1, any port)", servers}},
    {"--troupe-workers",
     {[&](auto& f, auto& v) { options.workers = number(f, v); }, "N",
      "number of workers of the cluster, or of this process (default 2)", servers}},
    {"--troupe-servers",
     {[&](auto& f, auto& v) { options.servers = number(f, v); }, "N",
      "number of parameter servers of the cluster, or of this process (default 2)", servers}},
    {"--troupe-start-workers",
     {[&](auto& f, auto& v) { options.start_workers = number(f, v); }, "N",
      "number of workers to wait for at start (default 1)", servers}},
    {"--troupe-cluster-name",
     {[&](auto&, auto& v) { options.cluster_name = v; }, "NAME",
      "name of the cluster; members with another name are refused (default troupe)", servers}},
    {"--troupe-lanes",
     {[&](auto& f, auto& v) { options.lanes_per_worker = number(f, v); }, "N",
      "closures that a worker runs concurrently (default 1)"}},
    {"--troupe-device",
     {[&](auto& f, auto& v) { options.devices.push_back(device(f, v)); }, "DEVICE",
      "device that steps run on, cpu:N or gpu:N; repeat for several"}},
    {"--troupe-transport",
     {[&](auto& f, auto& v) { options.shared_memory = shares_memory(f, v); }, "auto|tcp",
      "tcp disables shared memory between processes of one host (default auto)"}},
    {"--troupe-coordinator-lost",
     {[&](auto& f, auto& v) { options.coordinator_lost_ms_max = milliseconds(f, v); }, "SECONDS",
      "how long workers and servers wait for an unreachable coordinator (default 60)", servers}},
    {"--troupe-start-timeout",
     {[&](auto& f, auto& v) {
        options.start_timeout = std::chrono::milliseconds{milliseconds(f, v)};
      },
      "SECONDS", "how long the coordinator waits for all servers and one worker (default 60)",
      servers}},
  };
}

constexpr const char* help_flag = "--troupe-help";

using given_flags = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] void unknown_flag(const std::string& name, const flag_table& flags) {
  std::vector<std::string_view> known{help_flag};
  for (const auto& [each, _] : flags)
    known.push_back(each);
  throw_failure(errc::bad_config, "unknown flag '" + name + "'" + did_you_mean(name, known) + "; "
                                    + help_flag + " lists them");
}

/// Those of the command line that are Troupe's, in order. `by`: what kind of program reads them.
given_flags read_flags(int argc, char** argv, const flag_table& flags, taker by) {
  given_flags given;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    std::string value;
    auto equals = name.find('=');
    bool inlined = equals != std::string::npos;
    if (inlined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == help_flag) {
      std::fputs(runtime::flags_help().c_str(), stdout);
      std::exit(0);
    }
    auto at = flags.find(name);
    const bool is_ours = at != flags.end() && (at->second.of == taker::all || at->second.of == by);
    if (!is_ours) {
      if (at != flags.end() && by == taker::equals)
        throw_failure(errc::bad_config,
                      name
                        + " is not supported: this program has no parameter servers and no "
                          "coordinator; use --cluster FILE with --task, or TF_CONFIG");
      if (at == flags.end() && name.starts_with("--troupe-"))
        unknown_flag(name, flags);
      continue; // the program's own
    }
    if (!inlined) {
      if (i + 1 >= argc)
        bad_flag(name, "", "a value");
      value = argv[++i];
    }
    given.emplace_back(name, value);
  }
  return given;
}

bool is_given(const given_flags& given, std::string_view name) {
  return std::any_of(given.begin(), given.end(), [&](const auto& g) { return g.first == name; });
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

constexpr const char* tf_config = "TF_CONFIG";

/// What TF_CONFIG says; nothing when it is not set.
cluster_config config_of_environment() {
  const char* text = std::getenv(tf_config);
  return text ? parse_cluster_config(text, tf_config).value_or_throw() : cluster_config{};
}

/// A description of which one half is missing is none that a process may guess the rest of: it
/// would train alone, and into the same checkpoints as the others.
void refuse_half(const runtime_options& options, const given_flags& given,
                 const std::string& task_flag) {
  if (!options.task) {
    for (const char* name : {"--troupe-coordinator", "--troupe-listen", "--troupe-data-listen"})
      for (const auto& [flag, value] : given)
        if (flag == name)
          throw_failure(errc::bad_config, flag + " is '" + value
                                            + "', but the task of this process is unknown: "
                                              "set --troupe-task chief, worker:N or ps:N");
    return;
  }
  if (options.described_by.empty() && !is_given(given, "--troupe-coordinator"))
    throw_failure(errc::bad_config, "--troupe-task is '" + task_flag
                                      + "', but the coordinator's address is unknown: set "
                                     "--troupe-coordinator HOST:PORT, --cluster FILE or TF_CONFIG");
}

} // namespace

std::string runtime::flags_help() {
  runtime_options options;
  cluster_flags cluster;
  std::string out =
    "Flags of the Troupe runtime (TF_CONFIG and TROUPE_TOKEN are read from the environment):\n";
  auto line = [&](std::string name, const std::string& help) {
    constexpr std::size_t width = 34;
    name.resize(std::max(width, name.size() + 2), ' ');
    out += "  " + name + help + "\n";
  };
  for (const auto& [name, each] : flags_of(options, cluster))
    line(name + " " + each.value, each.help);
  line(help_flag, "print this help and exit");
  return out;
}

runtime_options runtime::options_from_args(int argc, char** argv) {
  auto options = options_of_environment();
  cluster_flags cluster;
  auto flags = flags_of(options, cluster);
  const auto given = read_flags(argc, argv, flags, taker::servers);
  auto apply_given = [&] { // again after a cluster description: what is said by hand wins
    options.devices.clear();
    for (const auto& [name, value] : given)
      flags.at(name).set(name, value);
  };
  apply_given();
  cluster_config config;
  std::string where = tf_config;
  if (!cluster.file.empty()) {
    auto ports = make_production_ports();
    config = load_cluster_file(ports->storage(), cluster.file).value_or_throw();
    where = "--cluster " + cluster.file;
  } else if (!is_given(given, "--troupe-coordinator")) {
    config = config_of_environment();
    check(validate_whole(config, tf_config), "");
  }
  if (!cluster.task.empty()) {
    auto task = task_from("--troupe-task", cluster.task);
    options.task = task;
    config.task = {.type = to_string(task.job), .id = task.index};
  }
  if (config.cluster || !cluster.file.empty()) {
    apply_cluster(options, config.cluster, config.task, where);
    apply_given();
  }
  refuse_half(options, given, cluster.task);
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
  check(validate_addresses(spec), options.described_by);
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
  auto options = options_of_environment();
  cluster_flags cluster;
  auto flags = flags_of(options, cluster);
  for (const auto& [name, value] : read_flags(argc, argv, flags, taker::equals))
    flags.at(name).set(name, value);
  cluster_config config;
  const bool from_file = !cluster.file.empty();
  if (from_file) {
    auto ports = make_production_ports();
    config = load_cluster_file(ports->storage(), cluster.file).value_or_throw();
    if (!config.cluster)
      throw_failure(errc::bad_config,
                    "--cluster " + cluster.file + ": no jobs in the cluster description");
  } else {
    config = config_of_environment();
    check(validate_whole(config, tf_config), "");
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
  options.described_by = from_file ? "--cluster " + cluster.file : tf_config;
  require_own_task(config.task, options.described_by, from_file);
  return synchronous_options(resolver_of(std::move(config)), std::move(options));
}

} // namespace troupe
