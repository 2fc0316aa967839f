// Goal: every flag arrives, and a wrong one is named.
#include "cli.hpp"
#include "../../support/failures.hpp"
#include "peer_launcher.hpp"
#include "serve_options.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tool;
using namespace troupe::testing;
namespace tr = troupe;

namespace {

std::string usage(std::vector<std::string> arguments) {
  const auto command = parse_command(std::move(arguments));
  const auto* wrong = std::get_if<usage_error>(&command);
  return wrong ? wrong->text : "accepted";
}

} // namespace

TEST_CASE("cli: train with nothing but the program has the documented defaults") {
  const auto train = std::get<train_command>(parse_command({"train", "fashion_mnist"}));
  CHECK_FALSE(train.processes);
  const auto& t = train.launch.training;
  CHECK(t.epochs == 10);
  CHECK(t.workers == 2);
  CHECK(t.servers == 2);
  CHECK(t.batch_size == 64);
  CHECK(t.learning_rate == 1e-3f);
  CHECK(t.data == "/usr/share/datasets/fashion-mnist");
}

TEST_CASE("cli: all flags of train arrive") {
  const auto train = std::get<train_command>(parse_command({"train",
                                                            "fashion_mnist",
                                                            "--seconds",
                                                            "20",
                                                            "--workers",
                                                            "3",
                                                            "--ps=4",
                                                            "--batch-size",
                                                            "32",
                                                            "--learning-rate",
                                                            "0.01",
                                                            "--seed",
                                                            "9",
                                                            "--data",
                                                            "d",
                                                            "--checkpoint",
                                                            "c",
                                                            "--resume",
                                                            "--checkpoint-every",
                                                            "100",
                                                            "--stats",
                                                            "--no-effect-once",
                                                            "--processes",
                                                            "--kill",
                                                            "worker:every=2s",
                                                            "--kill",
                                                            "ps:every=9s",
                                                            "--kill-at-mark",
                                                            "worker:m:2",
                                                            "--stop-at-mark",
                                                            "worker:1:m:3"}));
  CHECK(train.processes);
  const auto& t = train.launch.training;
  CHECK(t.seconds == 20);
  CHECK(t.workers == 3);
  CHECK(t.servers == 4);
  CHECK(t.batch_size == 32);
  CHECK(t.learning_rate == 0.01f);
  CHECK(t.seed == 9);
  CHECK(t.data == "d");
  CHECK(t.checkpoint == "c");
  CHECK(t.resume);
  CHECK(t.checkpoint_every == 100);
  CHECK(t.stats);
  CHECK_FALSE(t.effect_once);
  REQUIRE(train.launch.kills.size() == 2);
  CHECK(train.launch.kills[1].every_ms == 9'000);
  CHECK(train.launch.kill_at_mark->at.nth == 2);
  CHECK(train.launch.stop_at_mark->task.index == 1);
}

TEST_CASE("cli: an unknown flag is named") {
  CHECK(usage({"train", "fashion_mnist", "--epoch", "3"})
        == "unknown flag --epoch; did you mean '--epochs'?");
  CHECK(says(usage({"train", "fashion_mnist", "--nonsense"}), "--nonsense"));
  CHECK(says(usage({"serve", "--taks", "worker:1"}), "--taks"));
}

TEST_CASE("cli: how long a task of a cluster waits was fixed: seconds, also parts of one") {
  const auto serve = std::get<serve_command>(
    parse_command({"serve", "--task", "worker:0", "--coordinator", "127.0.0.1:9",
                   "--coordinator-lost", "1.5", "--start-timeout", "7"}));
  const auto options = serve_options(serve);
  CHECK(options.coordinator_lost_ms_max == 1'500);
  CHECK(options.start_timeout == std::chrono::seconds{7});
  const auto usual = serve_options(std::get<serve_command>(
    parse_command({"serve", "--task", "worker:0", "--coordinator", "127.0.0.1:9"})));
  CHECK(usual.coordinator_lost_ms_max == 60'000);
  CHECK(usual.start_timeout == std::chrono::seconds{60});
  for (const char* bad : {"0", "soon", "-1", "1e9"})
    CHECK(says(usage({"serve", "--coordinator-lost", bad}), "--coordinator-lost"));
}

TEST_CASE("cli: wrong values and combinations are named") {
  CHECK(says(usage({"train", "mnist"}), "mnist"));
  CHECK(says(usage({"train"}), "program"));
  CHECK(says(usage({"train", "fashion_mnist", "--epochs", "0"}), "--epochs"));
  CHECK(says(usage({"train", "fashion_mnist", "--epochs", "two"}), "two"));
  CHECK(says(usage({"train", "fashion_mnist", "--epochs", "1", "--seconds", "2"}), "--seconds"));
  CHECK(says(usage({"train", "fashion_mnist", "--kill", "worker:every=2s"}), "--processes"));
  const std::vector<std::string> peers{"train",      "fashion_mnist",         "--processes",
                                       "--strategy", "multi_worker_mirrored", "--kill"};
  auto with = [&](std::vector<std::string> more) {
    auto all = peers;
    all.insert(all.end(), more.begin(), more.end());
    return usage(all);
  };
  CHECK(says(with({"worker:every=2s"}), "--checkpoint"));
  CHECK(says(with({"worker:every=2s", "--checkpoint", "c", "--seconds", "2"}), "--seconds"));
  CHECK(says(with({"ps:every=2s", "--checkpoint", "c"}), "supports workers only"));
  // a fault that would never come
  CHECK(says(with({"worker:2:every=2s", "--checkpoint", "c"}), "worker:2 does not exist"));
  const auto faults = [&](const char* flag, const char* at) {
    return usage({"train", "fashion_mnist", "--processes", "--ps", "3", flag, at});
  };
  CHECK(says(faults("--kill", "ps:3:every=2s"), "ps:3 does not exist; --ps is 3"));
  CHECK(says(faults("--kill-at-mark", "worker:2:m:1"), "--kill-at-mark: worker:2 does not exist"));
  CHECK(says(faults("--stop-at-mark", "ps:9:m:1"), "--stop-at-mark: ps:9 does not exist"));
  CHECK(says(usage({"train", "fashion_mnist", "--resume"}), "--checkpoint"));
  CHECK(says(usage({"train", "fashion_mnist", "--processes", "--kill", "worker:every=2"}),
             "--kill every is '2'"));
  CHECK(
    says(usage({"serve", "--task", "worker:0", "--kill-at-mark", "m"}), "--kill-at-mark is 'm'"));
  CHECK(usage({}) != "accepted");
  CHECK(usage({"dance"}) != "accepted");
}

namespace {

/// What `train` with `--strategy` says to more flags.
std::string with_strategy(const std::string& strategy, std::vector<std::string> more) {
  std::vector<std::string> all{"train", "fashion_mnist", "--strategy", strategy};
  all.insert(all.end(), more.begin(), more.end());
  return usage(all);
}

} // namespace

TEST_CASE("cli: flags that the strategy would not look at are refused") {
  CHECK(with_strategy("multi_worker_mirrored", {"--workers", "3"})
        == "--workers 3 with --strategy multi_worker_mirrored requires --processes; without it "
           "TF_CONFIG in each process lists the workers");
  CHECK(with_strategy("multi_worker_mirrored", {"--processes", "--workers", "3"}) == "accepted");
  for (const std::string strategy :
       {"one_device", "mirrored", "central_storage", "tpu", "multi_worker_mirrored"}) {
    const auto named = "is not supported with --strategy " + strategy;
    if (strategy != "multi_worker_mirrored")
      CHECK(says(with_strategy(strategy, {"--workers", "2"}), ("--workers " + named).c_str()));
    CHECK(says(with_strategy(strategy, {"--ps", "2"}),
               ("--ps " + named + ", which has no parameter servers").c_str()));
    CHECK(
      says(with_strategy(strategy, {"--no-effect-once"}), ("--no-effect-once " + named).c_str()));
    CHECK(says(with_strategy(strategy, {"--effect-once"}), ("--effect-once " + named).c_str()));
    CHECK(with_strategy(strategy, {"--replicas", "2", "--stats"}) == "accepted");
  }
  CHECK(says(with_strategy("parameter_server", {"--replicas", "2"}),
             "--replicas is not supported with --strategy parameter_server"));
  CHECK(says(usage({"train", "fashion_mnist", "--replicas", "2"}), "--replicas"));
  CHECK(says(usage({"serve", "--task", "chief", "--replicas", "2"}), "--replicas"));
}

TEST_CASE("cli: a device is one replica of a process, and is written as one") {
  const auto both = with_strategy("mirrored", {"--device", "gpu:0", "--replicas", "2"});
  CHECK(says(both, "--device gpu:0"));
  CHECK(says(both, "--replicas is 2"));
  for (const std::string bad : {"gpu", "tpu:0", "cpu:64"})
    CHECK(says(with_strategy("mirrored", {"--device", bad}), ("--device is '" + bad).c_str()));
  for (const auto& replicas :
       {std::vector<std::string>{}, std::vector<std::string>{"--replicas", "1"}}) {
    std::vector<std::string> all{"train",    "fashion_mnist", "--strategy",
                                 "mirrored", "--device",      "gpu:0"};
    all.insert(all.end(), replicas.begin(), replicas.end());
    CHECK(std::get<train_command>(parse_command(all)).launch.training.replicas == 1);
  }
}

TEST_CASE("cli: serve runs tasks of parameter servers, and says what runs the others") {
  const auto text = usage({"serve", "--task", "worker:0", "--strategy", "multi_worker_mirrored"});
  CHECK(says(text, "serve supports --strategy parameter_server only"));
  CHECK(says(text, "TF_CONFIG"));
  CHECK(says(usage({"serve", "--strategy", "mirrored"}), "serve supports --strategy"));
  CHECK(usage({"serve", "--task", "worker:0", "--strategy", "parameter_server"}) == "accepted");
}

TEST_CASE("peer launcher: what a child is started with is what train takes, and comes back") {
  training_options t{.epochs = 3,
                     .batch_size = 32,
                     .learning_rate = 2.5e-4f,
                     .seed = 77,
                     .data = "d",
                     .checkpoint = "c",
                     .resume = true,
                     .rejoins = true,
                     .checkpoint_every = 50,
                     .stats = true,
                     .strategy = "multi_worker_mirrored",
                     .replicas = 3};
  const auto back = [&] {
    return std::get<train_command>(parse_command(peer_arguments(t))).launch.training;
  };
  CHECK(back().epochs == 3);
  CHECK(back().batch_size == 32);
  CHECK(back().learning_rate == 2.5e-4f);
  CHECK(back().seed == 77);
  CHECK(back().data == "d");
  CHECK(back().checkpoint == "c");
  CHECK(back().resume);
  CHECK(back().rejoins);
  CHECK(back().checkpoint_every == 50);
  CHECK(back().stats);
  CHECK(back().replicas == 3);
  t.device = "gpu:1";
  CHECK(back().device == "gpu:1");
  CHECK(back().replicas == 1);
  t.rejoins = t.stats = false;
  CHECK_FALSE(back().rejoins);
  CHECK_FALSE(back().stats);
}

TEST_CASE("cli: help and version print") {
  CHECK(says(std::get<print_command>(parse_command({"help"})).text, "--checkpoint-every"));
  CHECK(says(std::get<print_command>(parse_command({"train", "--help"})).text, "--kill"));
  const auto serve = std::get<print_command>(parse_command({"serve", "--help"})).text;
  CHECK(says(serve, "--coordinator"));
  CHECK_FALSE(says(serve, "--strategy"));
  CHECK(std::get<print_command>(parse_command({"version"})).text.starts_with("troupe "));
}

TEST_CASE("cli: serve takes its place from flags") {
  const auto serve =
    std::get<serve_command>(parse_command({"serve", "--task", "worker:1", "--coordinator",
                                           "127.0.0.1:4000", "--workers", "3", "--ps", "5"}));
  const auto options = serve_options(serve);
  REQUIRE(options.task.has_value());
  CHECK(*options.task == tr::task_id{.job = tr::job_kind::worker, .index = 1});
  CHECK(options.coordinator_address == "127.0.0.1:4000");
  CHECK(options.workers == 3);
  CHECK(options.servers == 5);
}

TEST_CASE("cli: serve without a cluster or a task is refused") {
  CHECK_THROWS_AS(serve_options({}), tr::error);
  CHECK_THROWS_AS(serve_options({.task = "worker:1"}), tr::error);
  CHECK_THROWS_AS(serve_options({.task = "cook:1", .coordinator = "127.0.0.1:4000"}), tr::error);
  CHECK_THROWS_AS(serve_options({.task = "ps:0", .cluster = "/no/such/file"}), tr::error);
}

TEST_CASE("launcher: what a child is started with is what serve takes, and comes back the same") {
  launch_options launch{.training = {.seconds = 12.5,
                                     .workers = 3,
                                     .servers = 4,
                                     .batch_size = 32,
                                     .learning_rate = 2.5e-4f,
                                     .seed = 77,
                                     .data = "d",
                                     .checkpoint = "c",
                                     .resume = true,
                                     .checkpoint_every = 50}};
  launch.kill_at_mark =
    task_mark_spec{.task = {.job = tr::job_kind::worker, .index = 1}, .at = {"m", 4}};
  const tr::task_id chief{};
  const auto first =
    std::get<serve_command>(parse_command(child_arguments(launch, chief, {}, 7, true)));
  CHECK(first.task == "chief");
  CHECK(first.report_fd == 7);
  CHECK(first.training.seconds == 12.5);
  CHECK(first.training.learning_rate == 2.5e-4f);
  CHECK(first.training.seed == 77);
  CHECK(first.training.batch_size == 32);
  CHECK(first.training.checkpoint == "c");
  CHECK(first.training.resume);
  CHECK(first.training.checkpoint_every == 50);
  CHECK(serve_options(first).servers == 4);
  const tr::task_id worker{.job = tr::job_kind::worker, .index = 1};
  const auto second = std::get<serve_command>(
    parse_command(child_arguments(launch, worker, "127.0.0.1:9", -1, true)));
  CHECK(second.task == "worker:1");
  CHECK(second.training.data == "d");
  CHECK(second.training.effect_once);
  CHECK(*second.kill_at_mark == mark_spec{"m", 4});
  CHECK(serve_options(second).coordinator_address == "127.0.0.1:9");
  const auto again = std::get<serve_command>(
    parse_command(child_arguments(launch, worker, "127.0.0.1:9", -1, false)));
  CHECK_FALSE(again.kill_at_mark.has_value()); // only the first incarnation
}

TEST_CASE("cli: 'A subcommand is required' was said of a mistyped one: it says which was meant") {
  CHECK(usage({"trian"}) == "unknown command 'trian'; did you mean 'train'?");
  CHECK(usage({"trian", "fashion_mnist", "--epochs", "3"})
        == "unknown command 'trian'; did you mean 'train'?");
  CHECK(usage({"Serve"}) == "unknown command 'Serve'; did you mean 'serve'?");
  CHECK(usage({"bake"}) == "unknown command 'bake'");
  CHECK(says(usage({}), "missing command"));
  CHECK(says(usage({"--vresion"}), "unknown flag --vresion; did you mean '--version'?"));
  CHECK(says(usage({"train", "fashion_mnist", "--work=3"}), "unknown flag --work"));
}

TEST_CASE("cli: --version is what version prints") {
  const auto flag = std::get<print_command>(parse_command({"--version"})).text;
  CHECK(flag.starts_with("troupe "));
  CHECK(flag == std::get<print_command>(parse_command({"version"})).text);
}

TEST_CASE("cli: serve says what is missing in its own flags") {
  const auto why = [](const serve_command& serve) {
    try {
      (void)serve_options(serve);
    } catch (const tr::error& e) {
      return e.details().text;
    }
    return std::string{"accepted"};
  };
  const auto no_address = why({.task = "worker:1"});
  CHECK(says(no_address, "--task is 'worker:1'"));
  CHECK(says(no_address, "--coordinator HOST:PORT"));
  CHECK(says(why({.task = "chief"}), "--task is 'chief'"));
  CHECK(says(why({.coordinator = "127.0.0.1:1"}), "--coordinator is '127.0.0.1:1'"));
  CHECK(says(why({.task = "boss", .coordinator = "127.0.0.1:1"}), "--task is 'boss'"));
  for (const auto& text : {no_address, why({.coordinator = "127.0.0.1:1"})})
    CHECK_FALSE(says(text, "--troupe-"));
}
