#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/result.hpp>

/// The tasks of a cluster and their addresses. Plain values: copies are independent, any thread may
/// read.
namespace troupe {

/// Index of a task in its job -> address. Indices may have gaps.
using task_addresses = std::map<std::uint32_t, std::string>;

/// Jobs, their tasks and the tasks' addresses ("host:port"). The coordinator's job is called
/// `chief`; any job name is kept here, and `validate_parameter_server_cluster` says which a
/// parameter-server cluster may have. Source: the ClusterSpec of tf.train.
class cluster_spec {
public:
  /// No job.
  cluster_spec() = default;
  /// Dense jobs: `cluster_spec{{{"ps", {"ps0:2222"}}, {"worker", {"w0:2222", "w1:2222"}}}}`.
  explicit cluster_spec(std::map<std::string, std::vector<std::string>> dense_jobs);
  /// Jobs whose indices may have gaps.
  static cluster_spec of_indices(std::map<std::string, task_addresses> jobs);
  /// From the text of a JSON object: job -> list of addresses, or job -> {"index": address}.
  /// `bad_config` names the job and quotes the value that does not fit.
  static result<cluster_spec> from_json(std::string_view text);

  /// Adds or replaces a job.
  cluster_spec& set_job(std::string job, std::vector<std::string> addresses);
  /// Adds or replaces a job whose indices may have gaps.
  cluster_spec& set_sparse_job(std::string job, task_addresses addresses);

  /// False without any job.
  explicit operator bool() const noexcept { return !jobs_.empty(); }
  bool has_job(std::string_view job) const;
  /// Names, sorted.
  std::vector<std::string> jobs() const;
  /// All of it, sorted by job and index.
  const std::map<std::string, task_addresses, std::less<>>& as_map() const noexcept {
    return jobs_;
  }

  /// Tasks in a job, gaps not counted. Throws `unknown_name`.
  std::uint32_t num_tasks(std::string_view job) const;
  /// Indices of a job's tasks, ascending. Throws `unknown_name`.
  std::vector<std::uint32_t> task_indices(std::string_view job) const;
  /// Throws `unknown_name` for the job, `out_of_range` for the index.
  const std::string& task_address(std::string_view job, std::uint32_t index) const;
  /// Addresses by index up to the largest; none in a gap. Throws `unknown_name`; `too_large` when
  /// the largest index is over 65,535.
  std::vector<std::optional<std::string>> job_tasks(std::string_view job) const;

  /// JSON that `from_json` reads back: dense jobs as lists, sparse ones as maps, an empty job as an
  /// empty map.
  std::string to_json() const;

  friend bool operator==(const cluster_spec&, const cluster_spec&) = default;

private:
  const task_addresses& tasks_of(std::string_view job) const;
  std::map<std::string, task_addresses, std::less<>> jobs_{};
};

/// `x.to_json()`.
std::string to_string(const cluster_spec& x);

/// The process's own place, as far as it is known.
struct own_task {
  std::optional<std::string> type{};
  std::optional<std::uint32_t> id{};
  friend bool operator==(const own_task&, const own_task&) = default;
};

/// Whether a parameter-server cluster can be made of `spec`, with this process as `own`: at least
/// one `ps` and one `worker`, at most one `chief` and one `evaluator`, no other job, and `own`
/// among them (an evaluator may be absent). `bad_config` names the field and the value.
result<void> validate_parameter_server_cluster(const cluster_spec& spec, const own_task& own = {});

/// "chief[0]": a task as the description has it.
std::string task_words(std::string_view job, std::uint32_t index);

/// Whether every task of `spec` can be called: its job is one that there is (chief, worker, ps,
/// evaluator), its address is "host:port" with a port from 1 to 65535, and no two tasks have the
/// same one (letter case and "localhost" for 127.0.0.1 make no difference). `bad_config` names the
/// tasks and quotes what stands there.
result<void> validate_addresses(const cluster_spec& spec);

/// Whether a coordinator may go by this job name: not `worker`, not `ps`, not empty. `bad_config`.
result<void> validate_coordinator_name(std::string_view name);

} // namespace troupe
