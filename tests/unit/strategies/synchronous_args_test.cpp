// How a program of equals learns who it is. Goal: whoever is told of a mistake reads the flag, the
// file or the variable in which he made it. Method: command lines and TF_CONFIG as a user writes
// them.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cluster_support.hpp"

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
  scratch_directory here{};
  std::string path = here.path() + "/cluster.json";
};

constexpr const char* two_workers = R"({"worker": ["127.0.0.1:1", "127.0.0.1:2"]})";

} // namespace

TEST_CASE("equals: a task without a cluster is refused, naming the flag and its value") {
  const auto why = refused({"--task", "worker:1"});
  CHECK(why.code == errc::bad_config);
  CHECK(says(why, "--task is 'worker:1'"));
  CHECK(says(why, "--cluster"));
  CHECK(says(why, "TF_CONFIG"));
  CHECK(says(refused({"--troupe-task=chief"}), "'chief'"));
  const with_config empty{"{}"};
  CHECK(says(refused({"--task", "worker:1"}), "--task is 'worker:1'"));
}

TEST_CASE("equals: a cluster file without a task is refused, naming the file and the flag") {
  const cluster_file file{two_workers};
  const auto why = refused({"--cluster", file.path});
  CHECK(why.code == errc::bad_config);
  CHECK(says(why, "--cluster " + file.path));
  CHECK(says(why, "--task chief, worker:N or evaluator"));
  const auto options = from({"--cluster", file.path, "--task", "worker:1"});
  CHECK(options.peer == 1);
  CHECK(options.peers == std::vector<std::string>{"127.0.0.1:1", "127.0.0.1:2"});
}

TEST_CASE("equals: what a task lacks is said of where it was described") {
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
