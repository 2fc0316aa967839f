#include "cli.hpp"
#include "cli_checks.hpp"
#include "replica_train.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include <troupe/core/nearest_word.hpp>

namespace tool {

namespace {

namespace tr = troupe;

constexpr double wait_s_max = 31'536'000; ///< a year
constexpr const char* version_line = "troupe " TROUPE_VERSION;

std::string version_text() { return std::string{version_line} + "\n"; }

void add_training_flags(CLI::App& app, training_options& t) {
  auto* epochs =
    app.add_option("--epochs", t.epochs, "epochs over the 60,000 training images (default 10)")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--seconds", t.seconds, "train for this many seconds instead of --epochs")
    ->check(CLI::Range(0.1, 86'400.0))
    ->excludes(epochs);
  app
    .add_option("--workers", t.workers,
                "number of workers (default 2); with multi_worker_mirrored, the number of "
                "processes that --processes starts")
    ->check(CLI::Range(1, 1'000));
  app.add_option("--ps", t.servers, "number of parameter servers (default 2)")
    ->check(CLI::Range(1, 1'000));
  app.add_option("--batch-size", t.batch_size, "examples per step (default 64)")
    ->check(CLI::Range(1, 60'000));
  app
    .add_option(
      "--learning-rate", t.learning_rate,
      "learning rate of Adam: constant in the first half, then linear decay to 0 (default 0.001)")
    ->check(CLI::Range(1e-9, 10.0));
  app.add_option("--seed", t.seed, "random seed for weight initialization (default 0)");
  app.add_option("--data", t.data, "directory of the four Fashion-MNIST IDX files");
  auto* directory =
    app.add_option("--checkpoint", t.checkpoint, "directory to save checkpoints to");
  app
    .add_flag("--resume", t.resume,
              "resume from the newest checkpoint in --checkpoint; an error if there is none")
    ->needs(directory);
  app
    .add_option("--checkpoint-every", t.checkpoint_every,
                "steps between checkpoints (default: one at the end)")
    ->check(CLI::Range(1, 1'000'000'000))
    ->needs(directory);
  app.add_option("--device", t.device,
                 "device of the workers' steps, e.g. gpu:0 or cpu:0; with a synchronous strategy "
                 "the device of the only replica of each process (default: CPU, without a device)");
  app
    .add_option("--strategy", t.strategy,
                "distribution strategy: parameter_server, one_device, mirrored, central_storage, "
                "tpu or multi_worker_mirrored (default parameter_server)")
    ->check(CLI::IsMember(strategy_names()));
  app
    .add_option("--replicas", t.replicas,
                "replicas per process of a synchronous strategy, one CPU device each (default 2)")
    ->check(CLI::Range(std::uint32_t{1}, replicas_max));
  app.add_flag("--stats", t.stats,
               "print counts of messages, pushes and bytes per actor at the end");
  app.add_flag(
    "--effect-once,!--no-effect-once", t.effect_once,
    "off: servers do not detect repeated updates; the report counts those applied twice");
}

void add_train(CLI::App& app, train_command& train, raw_flags& raw) {
  app.add_option("program", raw.program, "program to train: fashion_mnist")
    ->required()
    ->check(CLI::IsMember({"fashion_mnist"}));
  add_training_flags(app, train.launch.training);
  auto* processes = app.add_flag("--processes", train.processes,
                                 "run the coordinator, workers and servers as separate processes");
  app
    .add_option(
      "--kill", raw.kills,
      "inject faults during training: worker:every=2s kills a worker every 2 s; "
      "worker:every=4s,signal=STOP,resume=6s stops one every 4 s and continues it after 6 s")
    ->needs(processes);
  app
    .add_option("--kill-at-mark", raw.kill_at_mark,
                "JOB[:INDEX]:MARK:N: kill the task's first process when it reaches trace mark MARK "
                "for the Nth time")
    ->needs(processes);
  app.add_option("--stop-at-mark", raw.stop_at_mark, "as --kill-at-mark, with SIGSTOP")
    ->needs(processes);
  app
    .add_flag("--rejoin", train.launch.training.rejoins,
              "set by the launcher on a restart: resume if there is a checkpoint")
    ->group("");
}

void add_serve(CLI::App& app, serve_command& serve, raw_flags& raw) {
  app.add_option("--task", serve.task,
                 "task of this process: chief, worker:N or ps:N (default: from TF_CONFIG)");
  auto* cluster = app.add_option("--cluster", serve.cluster,
                                 "file with the cluster description (default: from TF_CONFIG)");
  app
    .add_option("--coordinator", serve.coordinator,
                "address HOST:PORT of the coordinator, instead of --cluster")
    ->excludes(cluster);
  app
    .add_option("--coordinator-lost", serve.coordinator_lost_s,
                "seconds that a worker or server waits for an unreachable coordinator before it "
                "exits with code 69 (default 60)")
    ->check(CLI::Range(0.1, wait_s_max));
  app
    .add_option("--start-timeout", serve.start_timeout_s,
                "seconds that the chief waits for all servers and one worker (default 60)")
    ->check(CLI::Range(0.1, wait_s_max));
  app.add_option("--report-fd", serve.report_fd, "file descriptor of the launcher's pipe")
    ->check(CLI::Range(3, 1'000'000))
    ->group("");
  app.add_option("--kill-at-mark", raw.kill_at_mark,
                 "MARK:N: kill this process when it reaches trace mark MARK for the Nth time");
  app.add_option("--stop-at-mark", raw.stop_at_mark,
                 "MARK:N: stop this process when it reaches trace mark MARK for the Nth time");
  add_training_flags(app, serve.training);
  for (const char* flag : {"--strategy", "--replicas"}) // taken only to say what runs those
    app.get_option(flag)->group("");
}

void add_export(CLI::App& app, export_command& to) {
  app
    .add_option("directory", to.directory,
                "a checkpoint, or a directory of checkpoints (the newest is exported)")
    ->required();
  app.add_option("file", to.file, "output archive, FILE.npz")->required();
  app.add_flag("--slots", to.slots, "also export the optimizers' slots and step counts");
}

/// Names the first argument that no flag takes, and the flag that was probably meant.
std::string unknown(const CLI::App& app) {
  const auto rest = app.remaining(true);
  for (const auto& word : rest)
    if (word.starts_with("-")) {
      std::vector<std::string> flags{"--version", "--help"};
      for (const auto* sub : app.get_subcommands())
        for (const auto* option : sub->get_options())
          for (const auto& name : option->get_lnames())
            flags.push_back("--" + name);
      const std::vector<std::string_view> known{flags.begin(), flags.end()};
      return "unknown flag " + word + tr::did_you_mean(word.substr(0, word.find('=')), known);
    }
  return "unexpected argument '" + (rest.empty() ? std::string{} : rest.front()) + "'";
}

/// CLI11 says of a word that it does not know only that a command is required. Empty when a command
/// was named.
std::string no_command(const CLI::App& app) {
  if (!app.get_subcommands().empty())
    return {};
  const auto rest = app.remaining();
  if (rest.empty())
    return "missing command: expected train, serve, checkpoint, version or help";
  if (rest.front().starts_with("-"))
    return unknown(app);
  return "unknown command '" + rest.front() + "'"
         + tr::did_you_mean(rest.front(), {"train", "serve", "checkpoint", "version", "help"});
}

flag_given given_to(const CLI::App& app) {
  return [&app](const char* flag) { return app.count(flag) > 0; };
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

} // namespace

command parse_command(std::vector<std::string> arguments) {
  CLI::App app{
    "Distributed training on parameter servers or synchronous replicas, in one process or many.",
    "troupe"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string{version_line});
  train_command train;
  serve_command serve;
  raw_flags raw;
  auto* train_app =
    app.add_subcommand("train", "train a built-in program: troupe train fashion_mnist");
  auto* serve_app = app.add_subcommand("serve", "run one task of a parameter-server cluster");
  export_command to_export;
  auto* checkpoint_app = app.add_subcommand("checkpoint", "work with saved checkpoints");
  checkpoint_app->require_subcommand(1);
  auto* export_app = checkpoint_app->add_subcommand(
    "export", "export the variables of a checkpoint as a numpy archive");
  add_export(*export_app, to_export);
  auto* version_app = app.add_subcommand("version", "print the version");
  auto* help_app = app.add_subcommand("help", "print this help");
  add_train(*train_app, train, raw);
  add_serve(*serve_app, serve, raw);
  std::ranges::reverse(arguments); // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
    if (train_app->parsed()) {
      finish_train(given_to(*train_app), train, raw);
      return train;
    }
    if (serve_app->parsed()) {
      finish_serve(given_to(*serve_app), serve, raw);
      return serve;
    }
    if (export_app->parsed()) {
      finish_export(to_export);
      return to_export;
    }
  } catch (const CLI::CallForHelp&) {
    for (const auto* sub : {train_app, serve_app, export_app, checkpoint_app})
      if (sub->parsed())
        return print_command{sub->help()};
    return print_command{app.help()};
  } catch (const CLI::CallForVersion&) {
    return print_command{version_text()};
  } catch (const CLI::ParseError& e) {
    if (auto text = no_command(app); !text.empty())
      return usage_error{one_line(std::move(text))};
    if (dynamic_cast<const CLI::ExtrasError*>(&e))
      return usage_error{one_line(unknown(app))};
    return usage_error{one_line(e.what())};
  } catch (const tr::error& e) {
    return usage_error{one_line(e.details().text)};
  }
  if (version_app->parsed())
    return print_command{version_text()};
  (void)help_app;
  return print_command{app.help() + "\n" + train_app->help() + "\n" + serve_app->help() + "\n"
                       + export_app->help()};
}

} // namespace tool
