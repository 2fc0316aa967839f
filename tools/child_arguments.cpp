#include <sstream>

#include "launcher.hpp"

namespace tool {

namespace tr = troupe;

std::vector<std::string> child_arguments(const launch_options& options, const tr::task_id& task,
                                         const std::string& address, int report_fd, bool first) {
  const auto& t = options.training;
  std::vector<std::string> out{"serve",
                               "--task",
                               task.job == tr::job_kind::chief ? "chief" : to_string(task),
                               "--workers",
                               std::to_string(t.workers),
                               "--ps",
                               std::to_string(t.servers),
                               "--data",
                               t.data,
                               "--batch-size",
                               std::to_string(t.batch_size)};
  const auto add = [&](const char* flag, const std::string& value) {
    out.emplace_back(flag);
    out.push_back(value);
  };
  const auto number = [](double x) {
    std::ostringstream text;
    text.precision(9);
    text << x;
    return text.str();
  };
  if (t.stats)
    out.emplace_back("--stats");
  if (!t.device.empty())
    add("--device", t.device);
  if (!t.effect_once)
    out.emplace_back("--no-effect-once");
  if (task.job != tr::job_kind::chief) {
    add("--coordinator", address);
    const auto hang = [&](const char* flag, const std::optional<task_mark_spec>& spec) {
      if (first && spec && spec->task == task)
        add(flag, spec->at.mark + ":" + std::to_string(spec->at.nth));
    };
    hang("--kill-at-mark", options.kill_at_mark);
    hang("--stop-at-mark", options.stop_at_mark);
    return out;
  }
  add("--report-fd", std::to_string(report_fd));
  add("--coordinator", "127.0.0.1:0");
  if (t.seconds > 0)
    add("--seconds", number(t.seconds));
  else
    add("--epochs", std::to_string(t.epochs));
  add("--learning-rate", number(t.learning_rate));
  add("--seed", std::to_string(t.seed));
  if (!t.checkpoint.empty())
    add("--checkpoint", t.checkpoint);
  if (t.checkpoint_every > 0)
    add("--checkpoint-every", std::to_string(t.checkpoint_every));
  if (t.resume)
    out.emplace_back("--resume");
  return out;
}

} // namespace tool
