#include <troupe/strategies/runtime/detail/runtime_flags.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>

#include <troupe/core/device_port.hpp>
#include <troupe/core/nearest_word.hpp>

namespace troupe::detail {

void bad_flag(const std::string& flag, const std::string& value, const std::string& expected) {
  throw_failure(errc::bad_config, flag + " is '" + value + "', expected " + expected);
}

std::uint32_t flag_number(const std::string& flag, const std::string& value) {
  std::uint32_t out = 0; // from_chars takes no sign and no space
  auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (wrong != std::errc{} || end != value.data() + value.size() || out > 100'000)
    bad_flag(flag, value, "a number up to 100000");
  return out;
}

task_id flag_task(const std::string& flag, const std::string& value) {
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
    out.index = flag_number(flag, value.substr(colon + 1));
  else if (out.job != job_kind::chief)
    bad_flag(flag, value, "chief, worker:N or ps:N");
  return out;
}

bool flag_shares_memory(const std::string& flag, const std::string& value) {
  if (value != "auto" && value != "tcp")
    bad_flag(flag, value, "auto or tcp");
  return value == "auto";
}

namespace {

/// Seconds, also parts of one, as milliseconds.
std::uint64_t flag_ms(const std::string& flag, const std::string& value) {
  double out = 0;
  auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), out);
  constexpr double seconds_max = 31'536'000; // a year
  if (wrong != std::errc{} || end != value.data() + value.size() || !(out >= 0.1)
      || out > seconds_max)
    bad_flag(flag, value, "seconds, from 0.1 to 31536000");
  return static_cast<std::uint64_t>(out * 1'000);
}

std::string flag_device(const std::string& flag, const std::string& value) {
  if (!parse_device(value))
    bad_flag(flag, value, "cpu:N or gpu:N");
  return value;
}

using flag_setter = std::function<void(const std::string& flag, const std::string& value)>;

struct runtime_flag {
  flag_setter set{};
  const char* value = ""; ///< what stands behind its name
  const char* help = "";
  std::optional<program_kind> of{}; ///< none: of all
};

using flag_table = std::map<std::string, runtime_flag>;

flag_table flags_of(runtime_options& options, cluster_flags& cluster) {
  auto address = [](std::string& to, std::string& name) -> flag_setter {
    return [&](auto& f, auto& v) {
      to = v;
      name = f;
    };
  };
  constexpr auto servers = program_kind::parameter_server;
  return {
    {"--cluster",
     {[&](auto&, auto& v) { cluster.file = v; }, "FILE",
      "file with the cluster description: addresses of the tasks of each job, as in TF_CONFIG"}},
    {"--task",
     {[&](auto&, auto& v) { cluster.task = v; }, "TASK",
      "task of this process: chief, worker:N or evaluator (synchronous programs)",
      program_kind::peers}},
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
     {[&](auto& f, auto& v) { options.workers = flag_number(f, v); }, "N",
      "number of workers of the cluster, or of this process (default 2)", servers}},
    {"--troupe-servers",
     {[&](auto& f, auto& v) { options.servers = flag_number(f, v); }, "N",
      "number of parameter servers of the cluster, or of this process (default 2)", servers}},
    {"--troupe-start-workers",
     {[&](auto& f, auto& v) { options.start_workers = flag_number(f, v); }, "N",
      "number of workers to wait for at start (default 1)", servers}},
    {"--troupe-cluster-name",
     {[&](auto&, auto& v) { options.cluster_name = v; }, "NAME",
      "name of the cluster; members with another name are refused (default troupe)", servers}},
    {"--troupe-threads",
     {[&](auto& f, auto& v) { options.threads_per_worker = flag_number(f, v); }, "N",
      "closures that a worker runs concurrently (default 1)"}},
    {"--troupe-device",
     {[&](auto& f, auto& v) { options.devices.push_back(flag_device(f, v)); }, "DEVICE",
      "device that steps run on, cpu:N or gpu:N; repeat for several"}},
    {"--troupe-transport",
     {[&](auto& f, auto& v) { options.shared_memory = flag_shares_memory(f, v); }, "auto|tcp",
      "tcp disables shared memory between processes of one host (default auto)"}},
    {"--troupe-coordinator-lost",
     {[&](auto& f, auto& v) { options.coordinator_lost_ms_max = flag_ms(f, v); }, "SECONDS",
      "how long workers and servers wait for an unreachable coordinator (default 60)", servers}},
    {"--troupe-start-timeout",
     {[&](auto& f, auto& v) { options.start_timeout = std::chrono::milliseconds{flag_ms(f, v)}; },
      "SECONDS", "how long the coordinator waits for all servers and one worker (default 60)",
      servers}},
  };
}

constexpr const char* help_flag = "--troupe-help";

[[noreturn]] void unknown_flag(const std::string& name, const flag_table& flags) {
  std::vector<std::string_view> known{help_flag};
  for (const auto& [each, _] : flags)
    known.push_back(each);
  throw_failure(errc::bad_config, "unknown flag '" + name + "'" + did_you_mean(name, known) + "; "
                                    + help_flag + " lists them");
}

/// The name in the table of a flag as it was typed: another one where it has a former name.
/// Messages name what was typed.
std::string listed_name(const std::string& typed) {
  return typed == "--troupe-lanes" ? "--troupe-threads" : typed;
}

/// Whether the flag is Troupe's, for a program of this kind. Refuses one that looks like it and is
/// not.
bool is_ours(const std::string& name, const flag_table& flags, program_kind by) {
  const auto at = flags.find(listed_name(name));
  if (at == flags.end()) {
    if (name.starts_with("--troupe-"))
      unknown_flag(name, flags);
    return false; // the program's own
  }
  if (!at->second.of || at->second.of == by)
    return true;
  if (by == program_kind::peers)
    throw_failure(errc::bad_config,
                  name
                    + " is not supported: this program has no parameter servers and no "
                      "coordinator; use --cluster FILE with --task, or TF_CONFIG");
  return false;
}

} // namespace

runtime_flags::runtime_flags(int argc, char** argv, program_kind by) {
  runtime_options unused_options;
  cluster_flags unused_cluster;
  const auto flags = flags_of(unused_options, unused_cluster);
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    std::string value;
    const auto equals = name.find('=');
    const bool inlined = equals != std::string::npos;
    if (inlined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == help_flag) {
      std::fputs(help().c_str(), stdout);
      std::exit(0);
    }
    if (!is_ours(name, flags, by))
      continue;
    if (!inlined) {
      if (i + 1 >= argc)
        bad_flag(name, "", "a value");
      value = argv[++i];
    }
    given_.emplace_back(std::move(name), std::move(value));
  }
}

void runtime_flags::apply(runtime_options& options, cluster_flags& cluster) const {
  options.devices.clear(); // the one flag that adds to what was said before
  const auto flags = flags_of(options, cluster);
  for (const auto& [name, value] : given_)
    flags.at(listed_name(name)).set(name, value);
}

bool runtime_flags::has(std::string_view name) const {
  return std::any_of(given_.begin(), given_.end(),
                     [&](const auto& g) { return listed_name(g.first) == name; });
}

std::string runtime_flags::help() {
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

} // namespace troupe::detail
