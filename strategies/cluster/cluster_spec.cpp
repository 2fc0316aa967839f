#include <troupe/strategies/cluster/cluster_spec.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <troupe/core/nearest_word.hpp>

namespace troupe {

namespace {

constexpr std::uint32_t listed_index_max = 65'535;

std::string quoted(std::string_view text) { return "\"" + std::string{text} + "\""; }

failure bad_config(std::string text) {
  return make_failure(errc::bad_config, "cluster: " + std::move(text));
}

constexpr std::array<std::string_view, 4> jobs_of_training{"chief", "worker", "ps", "evaluator"};

bool is_job_of_training(std::string_view job) {
  return std::find(jobs_of_training.begin(), jobs_of_training.end(), job) != jobs_of_training.end();
}

std::string no_such_job(std::string_view job) {
  return quoted(job) + " is not one of chief, worker, ps, evaluator"
         + did_you_mean(job, jobs_of_training);
}

/// Empty: nothing is wrong with it.
std::string complaint_of_address(std::string_view address) {
  const auto colon = address.rfind(':');
  if (address.find("//") != std::string_view::npos)
    return "expected host:port, without a scheme";
  if (colon == std::string_view::npos || colon == 0)
    return "expected host:port";
  std::uint32_t port = 0;
  const auto text = address.substr(colon + 1);
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || wrong == std::errc::invalid_argument || end != text.data() + text.size())
    return "expected host:port with a number as the port";
  if (wrong != std::errc{} || port == 0 || port > 65'535)
    return "the port must be from 1 to 65535";
  return {};
}

/// The same for all spellings of one place. @pre it is a good one
std::string place_of(const std::string& address) {
  const auto colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  for (char& c : host)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (host == "localhost")
    host = "127.0.0.1";
  return host + ":" + std::to_string(std::stoul(address.substr(colon + 1)));
}

std::size_t tasks_in(const cluster_spec& spec, std::string_view job) {
  return spec.has_job(job) ? spec.num_tasks(job) : 0;
}

std::string list_of(const std::vector<std::uint32_t>& indices) {
  std::string out;
  for (auto index : indices)
    out += (out.empty() ? "" : ", ") + std::to_string(index);
  return out;
}

result<void> validate_jobs(const cluster_spec& spec) {
  if (!spec)
    return bad_config("no jobs in the cluster description");
  for (const auto& [job, tasks] : spec.as_map()) {
    if (!is_job_of_training(job))
      return bad_config("job " + no_such_job(job));
    for (const auto& [index, address] : tasks)
      if (address.empty())
        return bad_config("task " + job + ":" + std::to_string(index) + " has the address \"\"");
  }
  for (auto job : {"ps", "worker"})
    if (tasks_in(spec, job) == 0)
      return bad_config("job " + quoted(job) + " has 0 tasks, needs at least 1");
  for (auto job : {"chief", "evaluator"})
    if (auto n = tasks_in(spec, job); n > 1)
      return bad_config("job " + quoted(job) + " has " + std::to_string(n)
                        + " tasks, may have at most 1");
  return {};
}

result<void> validate_own(const cluster_spec& spec, const own_task& own) {
  if (!own.type)
    return {};
  const auto& type = *own.type;
  if (!is_job_of_training(type))
    return bad_config("task type " + no_such_job(type));
  if (tasks_in(spec, type) == 0) {
    if (type == "evaluator")
      return {};
    return bad_config("task type " + quoted(type) + " is not a job of the cluster");
  }
  if (!own.id) {
    if (type == "chief" || type == "evaluator")
      return {};
    return bad_config("task type " + quoted(type) + " requires a task index");
  }
  auto indices = spec.task_indices(type);
  if (*own.id > indices.back())
    return bad_config("task index " + std::to_string(*own.id) + " exceeds the largest of job "
                      + quoted(type) + ", " + std::to_string(indices.back()));
  if (!std::binary_search(indices.begin(), indices.end(), *own.id))
    return bad_config("task index " + std::to_string(*own.id) + " is not in job " + quoted(type)
                      + ", which has " + list_of(indices));
  return {};
}

task_addresses numbered(std::vector<std::string> addresses) {
  task_addresses out;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    out.emplace(static_cast<std::uint32_t>(i), std::move(addresses[i]));
  return out;
}

} // namespace

cluster_spec::cluster_spec(std::map<std::string, std::vector<std::string>> dense_jobs) {
  for (auto& [job, addresses] : dense_jobs)
    set_job(job, std::move(addresses));
}

cluster_spec cluster_spec::of_indices(std::map<std::string, task_addresses> jobs) {
  cluster_spec out;
  for (auto& [job, addresses] : jobs)
    out.set_sparse_job(job, std::move(addresses));
  return out;
}

cluster_spec& cluster_spec::set_job(std::string job, std::vector<std::string> addresses) {
  return set_sparse_job(std::move(job), numbered(std::move(addresses)));
}

cluster_spec& cluster_spec::set_sparse_job(std::string job, task_addresses addresses) {
  jobs_.insert_or_assign(std::move(job), std::move(addresses));
  return *this;
}

bool cluster_spec::has_job(std::string_view job) const { return jobs_.find(job) != jobs_.end(); }

std::vector<std::string> cluster_spec::jobs() const {
  std::vector<std::string> out;
  for (const auto& [job, tasks] : jobs_)
    out.push_back(job);
  return out;
}

const task_addresses& cluster_spec::tasks_of(std::string_view job) const {
  auto at = jobs_.find(job);
  if (at == jobs_.end())
    throw_failure(errc::unknown_name, "cluster: unknown job " + quoted(job));
  return at->second;
}

std::uint32_t cluster_spec::num_tasks(std::string_view job) const {
  return static_cast<std::uint32_t>(tasks_of(job).size());
}

std::vector<std::uint32_t> cluster_spec::task_indices(std::string_view job) const {
  std::vector<std::uint32_t> out;
  for (const auto& [index, address] : tasks_of(job))
    out.push_back(index);
  return out;
}

const std::string& cluster_spec::task_address(std::string_view job, std::uint32_t index) const {
  const auto& tasks = tasks_of(job);
  auto at = tasks.find(index);
  if (at == tasks.end())
    throw_failure(errc::out_of_range,
                  "cluster: job " + quoted(job) + " has no task " + std::to_string(index));
  return at->second;
}

std::vector<std::optional<std::string>> cluster_spec::job_tasks(std::string_view job) const {
  const auto& tasks = tasks_of(job);
  if (tasks.empty())
    return {};
  auto last = tasks.rbegin()->first;
  if (last > listed_index_max)
    throw_failure(errc::too_large,
                  "cluster: job " + quoted(job) + " has a task " + std::to_string(last)
                    + "; the limit for a list of addresses is " + std::to_string(listed_index_max));
  std::vector<std::optional<std::string>> out(std::size_t{last} + 1);
  for (const auto& [index, address] : tasks)
    out[index] = address;
  return out;
}

std::string to_string(const cluster_spec& x) { return x.to_json(); }

result<void> validate_parameter_server_cluster(const cluster_spec& spec, const own_task& own) {
  if (auto jobs = validate_jobs(spec); !jobs)
    return jobs;
  return validate_own(spec, own);
}

std::string task_words(std::string_view job, std::uint32_t index) {
  return std::string{job} + "[" + std::to_string(index) + "]";
}

result<void> validate_addresses(const cluster_spec& spec) {
  std::map<std::string, std::string> whose; // place -> task
  for (const auto& [job, tasks] : spec.as_map()) {
    if (!is_job_of_training(job))
      return bad_config("job " + no_such_job(job));
    for (const auto& [index, address] : tasks) {
      const auto task = task_words(job, index);
      if (const auto why = complaint_of_address(address); !why.empty())
        return bad_config(task + " is " + quoted(address) + ": " + why);
      if (const auto [at, is_new] = whose.emplace(place_of(address), task); !is_new)
        return bad_config(at->second + " and " + task + " have the same address, "
                          + quoted(address));
    }
  }
  return {};
}

result<void> validate_coordinator_name(std::string_view name) {
  if (name.empty() || name == "worker" || name == "ps")
    return bad_config("the coordinator's job cannot be named " + quoted(name));
  return {};
}

} // namespace troupe
