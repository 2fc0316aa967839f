#include "cli_checks.hpp"

#include <optional>
#include <string>

namespace tool {

namespace {

namespace tr = troupe;

[[noreturn]] void refuse(const std::string& text) { tr::throw_failure(tr::errc::bad_config, text); }

/// Flags that the strategy would not look at are mistakes about what is going to run.
void check_against_strategy(const flag_given& given, const training_options& t, bool processes) {
  const auto with = "with --strategy " + t.strategy;
  if (t.strategy == "parameter_server") {
    if (given("--replicas"))
      refuse("--replicas is not supported " + with + "; use --workers and --ps");
    return;
  }
  const bool peers = t.strategy == "multi_worker_mirrored";
  if (given("--workers") && !peers)
    refuse("--workers is not supported " + with + "; use --replicas");
  if (given("--workers") && !processes)
    refuse("--workers " + std::to_string(t.workers) + " " + with
           + " requires --processes; without it TF_CONFIG in each process lists the workers");
  if (given("--ps"))
    refuse("--ps is not supported " + with + ", which has no parameter servers");
  if (given("--effect-once"))
    refuse(std::string{t.effect_once ? "--effect-once" : "--no-effect-once"} + " is not supported "
           + with + ", which has no parameter servers");
  if (peers && t.seconds > 0)
    refuse("--seconds is not supported " + with + "; use --epochs");
}

void check_device(const flag_given& given, training_options& t) {
  if (t.device.empty())
    return;
  const auto id = tr::parse_device(t.device);
  if (!id || (id->kind == tr::device_kind::cpu && id->index >= replicas_max))
    refuse("--device is '" + t.device + "', expected gpu:N, or cpu:N with N below "
           + std::to_string(replicas_max));
  if (given("--replicas") && t.replicas != 1)
    refuse("--device " + t.device + " gives each process one replica, but --replicas is "
           + std::to_string(t.replicas));
  t.replicas = 1;
}

/// What `--processes` starts, and what is done to it.
void check_launch(const train_command& train, const raw_flags& raw) {
  const auto& strategy = train.launch.training.strategy;
  const bool peers = strategy == "multi_worker_mirrored";
  if (train.processes && strategy != "parameter_server" && !peers)
    refuse("--processes is not supported with --strategy " + strategy
           + ", which runs in one process");
  if (peers && !raw.kills.empty() && train.launch.training.checkpoint.empty())
    refuse("--kill with --strategy " + strategy
           + " requires --checkpoint, from which killed workers resume");
  if (peers && !(raw.kill_at_mark.empty() && raw.stop_at_mark.empty()))
    refuse("--kill-at-mark and --stop-at-mark are not supported with --strategy " + strategy);
}

/// A fault that never comes would be taken for one that was survived.
void check_victim(const char* flag, tr::job_kind job, std::optional<std::uint32_t> index,
                  const training_options& t) {
  const auto count = job == tr::job_kind::ps ? t.servers : t.workers;
  if (index && *index >= count)
    refuse(std::string{flag} + ": " + to_string(tr::task_id{.job = job, .index = *index})
           + " does not exist; " + (job == tr::job_kind::ps ? "--ps" : "--workers") + " is "
           + std::to_string(count));
}

} // namespace

void finish_train(const flag_given& given, train_command& train, const raw_flags& raw) {
  check_launch(train, raw);
  check_against_strategy(given, train.launch.training, train.processes);
  check_device(given, train.launch.training);
  const auto& strategy = train.launch.training.strategy;
  for (const auto& text : raw.kills)
    train.launch.kills.push_back(parse_kill_spec(text).value_or_throw());
  for (const auto& each : train.launch.kills)
    if (strategy == "multi_worker_mirrored" && each.job != tr::job_kind::worker)
      refuse("--kill with --strategy " + strategy + " supports workers only");
  if (!raw.kill_at_mark.empty())
    train.launch.kill_at_mark =
      parse_task_mark_spec(raw.kill_at_mark, "--kill-at-mark").value_or_throw();
  if (!raw.stop_at_mark.empty())
    train.launch.stop_at_mark =
      parse_task_mark_spec(raw.stop_at_mark, "--stop-at-mark").value_or_throw();
  const auto& t = train.launch.training;
  for (const auto& each : train.launch.kills)
    check_victim("--kill", each.job, each.index, t);
  if (const auto& at = train.launch.kill_at_mark)
    check_victim("--kill-at-mark", at->task.job, at->task.index, t);
  if (const auto& at = train.launch.stop_at_mark)
    check_victim("--stop-at-mark", at->task.job, at->task.index, t);
}

void finish_serve(const flag_given& given, serve_command& serve, const raw_flags& raw) {
  if (serve.training.strategy != "parameter_server")
    refuse(
      "serve supports --strategy parameter_server only; for multi_worker_mirrored run `troupe "
      "train fashion_mnist --strategy multi_worker_mirrored` in every process, with TF_CONFIG");
  check_against_strategy(given, serve.training, true);
  check_device(given, serve.training);
  if (!raw.kill_at_mark.empty())
    serve.kill_at_mark = parse_mark_spec(raw.kill_at_mark, "--kill-at-mark").value_or_throw();
  if (!raw.stop_at_mark.empty())
    serve.stop_at_mark = parse_mark_spec(raw.stop_at_mark, "--stop-at-mark").value_or_throw();
}

void finish_export(const export_command& wanted) {
  if (!wanted.file.ends_with(".npz"))
    refuse("checkpoint export: the file is '" + wanted.file + "', expected FILE.npz");
}

} // namespace tool
