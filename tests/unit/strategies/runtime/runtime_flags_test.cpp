// Troupe's flags of a command line. Goal: what is Troupe's is read and what is the program's is
// left alone, for both kinds of programs. Method: command lines as a user writes them.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <troupe/strategies/runtime/detail/runtime_flags.hpp>

#include "../../../support/failures.hpp"

namespace {

using namespace troupe;
using namespace troupe::detail;
using testing::says;
using testing::thrown;

runtime_flags read_line(std::vector<std::string> args,
                        program_kind by = program_kind::parameter_server) {
  args.insert(args.begin(), "program");
  std::vector<char*> argv;
  for (auto& each : args)
    argv.push_back(each.data());
  return {static_cast<int>(argv.size()), argv.data(), by};
}

} // namespace

TEST_CASE("runtime flags: names and values in order, apart or with an equals sign") {
  const auto flags =
    read_line({"--troupe-workers", "5", "file", "--epochs", "3", "--troupe-servers=3"});
  const std::vector<std::pair<std::string, std::string>> wanted{{"--troupe-workers", "5"},
                                                                {"--troupe-servers", "3"}};
  CHECK(flags.given() == wanted);
  CHECK(flags.has("--troupe-workers"));
  CHECK_FALSE(flags.has("--epochs"));
  CHECK_FALSE(flags.has("--troupe-threads"));
}

TEST_CASE("runtime flags: a value may look like a flag; one that is missing is refused") {
  const auto flags = read_line({"--troupe-cluster-name", "--troupe-threads"});
  REQUIRE(flags.given().size() == 1);
  CHECK(flags.given()[0].second == "--troupe-threads");
  CHECK(says(thrown([] { read_line({"--troupe-threads"}); }, errc::bad_config),
             "--troupe-threads is '', expected a value"));
}

TEST_CASE("runtime flags: what looks like Troupe's and is not is refused, with the nearest name") {
  const auto text = thrown([] { read_line({"--troupe-wrokers=3"}); }, errc::bad_config);
  CHECK(says(text, "unknown flag '--troupe-wrokers'"));
  CHECK(says(text, "--troupe-workers"));
}

TEST_CASE("runtime flags: each kind of program has flags of its own") {
  // --task may be a flag of a program with parameter servers
  CHECK(read_line({"--task", "worker:1"}).given().empty());
  CHECK(read_line({"--task", "worker:1"}, program_kind::peers).has("--task"));
  CHECK(says(thrown(
               [] {
                 read_line({"--troupe-workers", "3"}, program_kind::peers);
               },
               errc::bad_config),
             "--troupe-workers is not supported: this program has no parameter servers"));
  CHECK(read_line({"--troupe-threads", "3"}, program_kind::peers).has("--troupe-threads"));
}

TEST_CASE(
  "runtime flags: applied again they win over what was set between, and add nothing twice") {
  const auto flags = read_line({"--troupe-listen=127.0.0.1:7", "--troupe-device=cpu:1",
                                "--troupe-device=cpu:0", "--cluster=there"});
  runtime_options options;
  cluster_flags cluster;
  flags.apply(options, cluster);
  options.listen_address = "127.0.0.1:8";
  options.names.listen = "TF_CONFIG worker[0]";
  flags.apply(options, cluster);
  CHECK(options.listen_address == "127.0.0.1:7");
  CHECK(options.names.listen == "--troupe-listen");
  CHECK(options.devices == std::vector<std::string>{"cpu:1", "cpu:0"});
  CHECK(cluster.file == "there");
  CHECK(cluster.task.empty());
}

TEST_CASE("runtime flags: a value that cannot be used is refused when it is applied") {
  for (const auto* bad : {"--troupe-device=tpu", "--troupe-transport=rdma", "--troupe-lanes=-1",
                          "--troupe-start-timeout=0"}) {
    const auto flags = read_line({bad});
    const std::string typed = bad;
    const auto text = thrown(
      [&] {
        runtime_options options;
        cluster_flags cluster;
        flags.apply(options, cluster);
      },
      errc::bad_config);
    CHECK_MESSAGE(says(text, typed.substr(0, typed.find('='))), text);
    CHECK_MESSAGE(says(text, "'" + typed.substr(typed.find('=') + 1) + "'"), text);
  }
}

TEST_CASE("runtime flags: tasks and numbers as texts") {
  CHECK(flag_task("--t", "chief") == task_id{.job = job_kind::chief});
  CHECK(flag_task("--t", "ps:12") == task_id{.job = job_kind::ps, .index = 12});
  CHECK(flag_number("--n", "100000") == 100'000);
  CHECK(says(thrown([] { flag_number("--n", "100001"); }, errc::bad_config), "--n is '100001'"));
  CHECK(
    says(thrown([] { flag_task("--t", "worker"); }, errc::bad_config), "expected chief, worker:N"));
}
