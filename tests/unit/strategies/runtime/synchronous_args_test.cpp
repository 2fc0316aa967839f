// How a program of peer workers learns who it is. Goal: whoever is told of a mistake reads the
// flag, the file or the variable in which he made it. Method: command lines and TF_CONFIG as a user
// writes them.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../parameter_server/cluster_support.hpp"

namespace {

using namespace troupe;
using namespace troupe::test;

runtime_options from(std::vector<std::string> args) {
  args.insert(args.begin(), "program");
  std::vector<char*> argv;
  for (auto& a : args)
    argv.push_back(a.data());
  return runtime::synchronous_options_from_args(static_cast<int>(argv.size()), argv.data());
}

failure refused(std::vector<std::string> args) {
  return failure_of([&] { (void)from(std::move(args)); });
}

/// TF_CONFIG for as long as it lives.
class with_config {
public:
  explicit with_config(const char* text) { setenv("TF_CONFIG", text, 1); }
  ~with_config() { unsetenv("TF_CONFIG"); }
  with_config(const with_config&) = delete;
};

struct cluster_file {
  explicit cluster_file(const char* text) { std::ofstream{path} << text; }
  scratch_folder here{};
  std::string path = here / "cluster.json";
};

constexpr const char* two_workers = R"({"worker": ["127.0.0.1:1", "127.0.0.1:2"]})";

} // namespace

TEST_CASE("peer workers: a task without a cluster is refused, naming the flag and its value") {
  const auto why = refused({"--task", "worker:1"});
  CHECK(why.code == errc::bad_config);
  CHECK(says(why, "--task is 'worker:1'"));
  CHECK(says(why, "--cluster"));
  CHECK(says(why, "TF_CONFIG"));
  CHECK(says(refused({"--troupe-task=chief"}), "'chief'"));
  const with_config empty{"{}"};
  CHECK(says(refused({"--task", "worker:1"}), "--task is 'worker:1'"));
}

TEST_CASE("peer workers: a cluster file without a task is refused, naming the file and the flag") {
  const cluster_file file{two_workers};
  const auto why = refused({"--cluster", file.path});
  CHECK(why.code == errc::bad_config);
  CHECK(says(why, "--cluster " + file.path));
  CHECK(says(why, "--task chief, worker:N or evaluator"));
  const auto options = from({"--cluster", file.path, "--task", "worker:1"});
  CHECK(options.peer == 1);
  CHECK(options.peers == std::vector<std::string>{"127.0.0.1:1", "127.0.0.1:2"});
}

TEST_CASE("peer workers: what a task lacks is said of where it was described") {
  {
    const with_config set{R"({"cluster": {"worker": ["127.0.0.1:1"]}})"};
    CHECK(says(refused({}), "TF_CONFIG has a cluster but no task.type"));
    CHECK(from({"--task", "worker:0"}).peer == 0);
  }
  const with_config set{R"({"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker"}})"};
  CHECK(says(refused({}), "TF_CONFIG has task.type 'worker' but no task.index"));
  const cluster_file file{
    R"({"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker"}})"};
  CHECK(says(refused({"--cluster", file.path}), file.path));
}

TEST_CASE(
  "peer workers: TF_CONFIG with a task and no cluster made every process the only one: it is "
  "refused") {
  for (
    const char* text :
    {R"({"sparseCluster": {"worker": {"0": "127.0.0.1:1"}}, "task": {"type": "worker", "index": 0}})",
     R"({"clustr": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}})",
     R"({"task": {"type": "worker", "index": 1}})",
     R"({"cluster": {}, "task": {"type": "worker", "index": 1}})"}) {
    const with_config set{text};
    const auto why = refused({});
    CHECK(why.code == errc::bad_config);
    CHECK_MESSAGE(says(why, "TF_CONFIG"), why.text);
    CHECK_MESSAGE(says(why, "\"cluster\""), why.text);
  }
  const cluster_file none{"{}"};
  CHECK(says(refused({"--cluster", none.path}), "no jobs in the cluster description"));
}

TEST_CASE("peer workers: addresses are refused in the words of the description") {
  const cluster_file same{
    R"({"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "localhost:1"]})"};
  const auto why = refused({"--cluster", same.path, "--task", "chief"});
  CHECK(says(why, same.path));
  CHECK(says(why, "chief[0] and worker[1] have the same address"));
  const with_config port{R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:70000"]},
                             "task": {"type": "worker", "index": 0}})"};
  CHECK(says(refused({}), "TF_CONFIG: cluster: worker[1] is \"127.0.0.1:70000\""));
  const with_config job{R"({"cluster": {"chief": ["127.0.0.1:1"], "wroker": ["127.0.0.1:2"]},
                            "task": {"type": "chief", "index": 0}})"};
  CHECK(says(refused({}), "did you mean 'worker'?"));
}

TEST_CASE("peer workers: a flag of parameter servers was taken and did nothing: it is refused") {
  for (const char* flag : {"--troupe-coordinator", "--troupe-listen", "--troupe-data-listen",
                           "--troupe-workers", "--troupe-servers", "--troupe-start-workers"})
    CHECK_MESSAGE(says(refused({flag, "127.0.0.1:1"}), flag), flag);
  CHECK(from({"--troupe-threads", "2", "--troupe-transport=tcp"}).peers.size() == 1);
  // the former name
  CHECK(from({"--troupe-lanes=3", "--troupe-transport=tcp", "--"}).threads_per_worker == 3);
}

TEST_CASE("peer workers: the peers are named as tasks, the chief first") {
  const cluster_file file{R"({"chief": ["127.0.0.1:1"], "worker": {"3": "127.0.0.1:2"}})"};
  const auto options = from({"--cluster", file.path, "--task", "worker:3"});
  CHECK(options.peer_tasks == std::vector<std::string>{"chief", "worker:3"});
  CHECK(options.described_by == "--cluster " + file.path);
  const auto why = failure_of([&] {
    auto bad = options;
    bad.peers[1] = "example.org:7";
    runtime rt{bad};
  });
  CHECK(says(why, "worker:3")); // and not peers[1], which nobody typed
  CHECK(says(why, "TROUPE_TOKEN"));
}
