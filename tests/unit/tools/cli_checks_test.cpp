// What may not stand together on a command line. Goal: a flag that would do nothing, or a fault
// that would never come, is refused by name. Method: the checks alone, told which flags were typed.
#include "cli_checks.hpp"
#include "../../support/failures.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace tool;
using namespace troupe::testing;

namespace {

/// A `train` that typed these flags; what they were set to is set by hand.
struct typed_train {
  std::set<std::string> typed{};
  train_command train{};
  raw_flags raw{};

  std::string refusal() {
    try {
      finish_train([this](const char* flag) { return typed.contains(flag); }, train, raw);
    } catch (const troupe::error& why) {
      CHECK(why.code() == troupe::errc::bad_config);
      return why.details().text;
    }
    return "accepted";
  }
};

} // namespace

TEST_CASE("cli checks: a flag that the strategy would not look at is refused") {
  typed_train on_servers{.typed = {"--replicas"}};
  CHECK(on_servers.refusal().starts_with("--replicas is not supported with --strategy parameter_"));
  typed_train mirrored{.typed = {"--workers"}};
  mirrored.train.launch.training.strategy = "mirrored";
  CHECK(mirrored.refusal()
        == "--workers is not supported with --strategy mirrored; use --replicas");
  mirrored.typed = {"--ps"};
  CHECK(mirrored.refusal().starts_with("--ps is not supported with --strategy mirrored"));
  mirrored.typed = {};
  CHECK(mirrored.refusal() == "accepted");
}

TEST_CASE("cli checks: a device gives a process one replica, said or unsaid") {
  typed_train one;
  one.train.launch.training.strategy = "one_device";
  one.train.launch.training.device = "cpu:0";
  one.train.launch.training.replicas = 2;
  CHECK(one.refusal() == "accepted");
  CHECK(one.train.launch.training.replicas == 1);
  one.typed = {"--replicas"};
  one.train.launch.training.replicas = 3;
  CHECK(one.refusal() == "--device cpu:0 gives each process one replica, but --replicas is 3");
  one.train.launch.training.device = "cpu:64";
  CHECK(
    one.refusal().starts_with("--device is 'cpu:64', expected gpu:N, or cpu:N with N below 64"));
}

TEST_CASE("cli checks: a fault for a task that is not there is refused, its text read otherwise") {
  typed_train killed;
  killed.train.processes = true;
  killed.train.launch.training.workers = 2;
  killed.raw.kill_at_mark = "worker:2:client.all_acked:1";
  CHECK(killed.refusal() == "--kill-at-mark: worker:2 does not exist; --workers is 2");
  killed.raw.kill_at_mark = "worker:1:client.all_acked:1";
  CHECK(killed.refusal() == "accepted");
  REQUIRE(killed.train.launch.kill_at_mark);
  CHECK(killed.train.launch.kill_at_mark->task.index == 1);
}

TEST_CASE("cli checks: a process of its own serves one strategy, and has one mark of each kind") {
  std::set<std::string> typed;
  const auto given = [&](const char* flag) { return typed.contains(flag); };
  serve_command serve;
  serve.training.strategy = "mirrored";
  CHECK(thrown([&] { finish_serve(given, serve, {}); }, troupe::errc::bad_config)
          .starts_with("serve supports --strategy parameter_server only"));
  serve.training.strategy = "parameter_server";
  typed = {"--replicas"};
  CHECK(thrown([&] { finish_serve(given, serve, {}); }, troupe::errc::bad_config)
          .starts_with("--replicas is not supported with --strategy parameter_server"));
  typed = {};
  finish_serve(given, serve, {.kill_at_mark = "client.all_acked:2"});
  REQUIRE(serve.kill_at_mark);
  CHECK(serve.kill_at_mark->mark == "client.all_acked");
  CHECK_FALSE(serve.stop_at_mark);
}

TEST_CASE("cli checks: an archive of a checkpoint is a file of numpy's") {
  CHECK(failure_of([] { finish_export({.directory = "here", .file = "w.zip"}); }).text
        == "checkpoint export: the file is 'w.zip', expected FILE.npz");
  finish_export({.directory = "here", .file = "w.npz"});
}
