#include <troupe/strategies/runtime/detail/start_report.hpp>

#include <algorithm>
#include <numeric>

namespace troupe::detail {

namespace {

std::vector<std::uint32_t> first_tasks(std::uint32_t n) {
  std::vector<std::uint32_t> out(n);
  std::iota(out.begin(), out.end(), 0u);
  return out;
}

} // namespace

std::vector<std::uint32_t> server_tasks_of(const runtime_options& options) {
  return options.server_tasks.empty() ? first_tasks(options.servers) : options.server_tasks;
}

std::vector<std::uint32_t> worker_tasks_of(const runtime_options& options, std::uint32_t at_least) {
  return options.worker_tasks.empty() ? first_tasks(std::max(options.workers, at_least))
                                      : options.worker_tasks;
}

namespace {

constexpr std::size_t named_max = 16; ///< in one line

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), named_max); ++i)
    out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > named_max)
    out += " and " + std::to_string(names.size() - named_max) + " more";
  return out;
}

/// "ps:1 (10.0.0.7:4704)".
std::string with_address(const runtime_options& options, job_kind job, std::uint32_t index) {
  const task_id task{.job = job, .index = index};
  const auto at = options.task_addresses.find(task);
  return to_string(task)
         + (at == options.task_addresses.end() ? std::string{} : " (" + at->second + ")");
}

} // namespace

std::string start_report(const runtime_options& options, const start_state& seen) {
  const auto servers = server_tasks_of(options);
  const auto wanted = std::max(options.start_workers, 1u);
  std::vector<std::string> missing;
  for (const auto index : servers) {
    if (!seen.servers.contains(index))
      missing.push_back(with_address(options, job_kind::ps, index));
    else if (!seen.ready_servers.contains(index))
      missing.push_back(with_address(options, job_kind::ps, index)
                        + " (joined, but its data plane does not answer)");
  }
  std::vector<std::uint32_t> workers; // may have gaps
  if (seen.workers.size() < wanted)
    workers = worker_tasks_of(options, wanted);
  for (const auto index : workers) {
    if (seen.linking.contains(index))
      missing.push_back(with_address(options, job_kind::worker, index)
                        + " (joined, but its control link is not connected)");
    else if (!seen.workers.contains(index))
      missing.push_back(with_address(options, job_kind::worker, index));
  }
  return "servers " + std::to_string(seen.ready_servers.size()) + " of "
         + std::to_string(servers.size()) + ", workers " + std::to_string(seen.workers.size())
         + " (" + std::to_string(wanted) + " required); missing: " + joined(missing);
}

} // namespace troupe::detail
