#include <troupe/strategies/cluster/cluster_roles.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

namespace troupe {

namespace {

constexpr std::array<std::string_view, 4> jobs{"chief", "worker", "ps", "evaluator"};

failure refused(const std::string& text) {
  return make_failure(errc::invalid_argument, "cluster: " + text);
}

std::string quoted(std::string_view text) { return "\"" + std::string{text} + "\""; }

std::uint32_t tasks_in(const cluster_spec& spec, std::string_view job) {
  return spec.has_job(job) ? spec.num_tasks(job) : 0;
}

result<void> validate_job(const cluster_spec& spec, std::string_view job) {
  if (std::find(jobs.begin(), jobs.end(), job) == jobs.end())
    return refused("task type " + quoted(job) + " is not one of chief, worker, ps, evaluator");
  if (tasks_in(spec, job) == 0)
    return refused("task type " + quoted(job) + " is not a job of the cluster");
  for (auto single : {"chief", "evaluator"})
    if (auto n = tasks_in(spec, single); n > 1)
      return refused("job " + quoted(single) + " has " + std::to_string(n)
                     + " tasks, may have at most 1");
  return {};
}

// What the servers of a cluster are never asked for.
failure not_a_worker(std::string_view what) {
  return refused("a task of type \"ps\" has no " + std::string{what}
                 + "; only chief, worker and evaluator have one");
}

device_name first_task(const cluster_spec& spec, std::string_view job) {
  return {std::string{job}, 0, spec.task_indices(job).front(), {}, {}};
}

result<std::optional<device_name>> first_of(const cluster_spec& spec, const char* role,
                                            std::initializer_list<std::string_view> candidates) {
  std::string names;
  for (auto job : candidates) {
    if (tasks_in(spec, job) > 0)
      return std::optional{first_task(spec, job)};
    names += (names.empty() ? "" : ", ") + std::string{job};
  }
  return refused("no " + std::string{role} + ": none of the jobs " + names + " has a task");
}

} // namespace

result<void> validate_task(const cluster_spec& spec, const cluster_task& own) {
  if (auto job = validate_job(spec, own.job); !job)
    return job;
  const auto indices = spec.task_indices(own.job);
  if (!std::binary_search(indices.begin(), indices.end(), own.index))
    return refused("task index " + std::to_string(own.index) + " is not in job " + quoted(own.job)
                   + ", which has " + std::to_string(indices.size()) + " tasks up to index "
                   + std::to_string(indices.back()));
  return {};
}

result<bool> is_chief(const cluster_spec& spec, const cluster_task& own) {
  if (auto valid = validate_task(spec, own); !valid)
    return valid.error();
  if (own.job == "chief" || own.job == "evaluator")
    return true;
  return own.job == "worker" && tasks_in(spec, "chief") == 0
         && own.index == spec.task_indices("worker").front();
}

result<std::uint32_t> worker_count(const cluster_spec& spec, std::string_view job) {
  if (auto valid = validate_job(spec, job); !valid)
    return valid.error();
  if (job == "ps")
    return not_a_worker("worker count");
  if (job == "evaluator")
    return tasks_in(spec, "evaluator");
  return tasks_in(spec, "chief") + tasks_in(spec, "worker");
}

result<std::uint32_t> id_in_cluster(const cluster_spec& spec, const cluster_task& own) {
  if (auto valid = validate_task(spec, own); !valid)
    return valid.error();
  if (own.job == "ps")
    return not_a_worker("id in the cluster");
  if (own.job != "worker")
    return std::uint32_t{0};
  const auto indices = spec.task_indices("worker");
  const auto before = std::lower_bound(indices.begin(), indices.end(), own.index) - indices.begin();
  return static_cast<std::uint32_t>(before) + tasks_in(spec, "chief");
}

result<std::optional<device_name>> collective_leader(const cluster_spec& spec,
                                                     const cluster_task& own) {
  if (!spec)
    return std::optional<device_name>{};
  if (auto valid = validate_task(spec, own); !valid)
    return valid.error();
  if (own.job == "evaluator")
    return std::optional<device_name>{};
  return first_of(spec, "leader of collectives", {"chief", "worker"});
}

result<std::optional<device_name>> coordination_leader(const cluster_spec& spec) {
  if (!spec)
    return std::optional<device_name>{};
  return first_of(spec, "coordination leader", {"ps", "chief", "worker"});
}

} // namespace troupe
