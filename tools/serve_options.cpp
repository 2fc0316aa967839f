#include "serve_options.hpp"

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tool {

namespace tr = troupe;

namespace {

/// Errors of the runtime's flags, in those that the user of `serve` typed.
template <class F>
tr::runtime_options in_own_words(F f) {
  try {
    return f();
  } catch (const tr::error& e) {
    auto why = e.details();
    for (const auto& [theirs, own] :
         {std::pair{"--troupe-task", "--task"}, std::pair{"--troupe-coordinator", "--coordinator"},
          std::pair{"--troupe-workers", "--workers"}, std::pair{"--troupe-servers", "--ps"}})
      for (auto at = why.text.find(theirs); at != std::string::npos; at = why.text.find(theirs, at))
        why.text.replace(at, std::string_view{theirs}.size(), own);
    tr::throw_failure(std::move(why));
  }
}

} // namespace

tr::runtime_options serve_options(const serve_command& serve) {
  std::vector<std::string> words{"troupe"};
  if (!serve.cluster.empty())
    words.insert(words.end(), {"--cluster", serve.cluster});
  if (!serve.task.empty())
    words.insert(words.end(), {"--troupe-task", serve.task});
  if (!serve.coordinator.empty())
    words.insert(words.end(), {"--troupe-coordinator", serve.coordinator, "--troupe-workers",
                               std::to_string(serve.training.workers), "--troupe-servers",
                               std::to_string(serve.training.servers)});
  std::vector<char*> raw;
  for (auto& w : words)
    raw.push_back(w.data());
  if (serve.coordinator.empty() && serve.cluster.empty() && std::getenv("TF_CONFIG") == nullptr)
    tr::throw_failure(tr::errc::bad_config,
                      "serve: " + (serve.task.empty() ? "--task is missing, and " : "--task is '" + serve.task + "', but ")
                        + "the coordinator's address is unknown: set --coordinator HOST:PORT, "
                          "--cluster FILE or TF_CONFIG");
  auto out = in_own_words(
    [&] { return tr::runtime::options_from_args(static_cast<int>(raw.size()), raw.data()); });
  if (!serve.coordinator.empty())
    out.names.coordinator = "--coordinator";
  out.coordinator_lost_ms_max = static_cast<std::uint64_t>(serve.coordinator_lost_s * 1'000);
  out.start_timeout =
    std::chrono::milliseconds{static_cast<std::int64_t>(serve.start_timeout_s * 1'000)};
  if (!serve.training.device.empty() && out.task && out.task->job == tr::job_kind::worker)
    out.devices = {serve.training.device};
  if (!out.task)
    tr::throw_failure(tr::errc::bad_config,
                      "serve: --task is missing, and neither --cluster nor TF_CONFIG names a task");
  if (out.coordinator_address.ends_with(":0") && out.task->job != tr::job_kind::chief)
    tr::throw_failure(tr::errc::bad_config, "serve: " + to_string(*out.task)
                                              + " needs --coordinator, --cluster or TF_CONFIG");
  return out;
}

} // namespace tool
