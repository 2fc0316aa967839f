// Who is a worker, and which runtimes there are for programs of peer workers. Goal: rows SYNC-MWR-1
// to MWR-9 and MWR-15, and what is refused. Method: options and single workers.

#include "../replicas/workers_support.hpp"

namespace {

using namespace replicas_test;

// --- one worker, and what is refused

TEST_CASE("SYNC-MWR-7 one worker needs nobody") {
  on_workers(
    1,
    [](std::uint32_t, runtime& rt) {
      auto s = strategy_over(rt, 2);
      CHECK(s.num_workers() == 1);
      CHECK(s.is_chief());
      CHECK(ids(s).item<std::int64_t>() == 1);
      s.barrier();
      CHECK(s.exchange("x") == std::vector<std::string>{"x"});
      CHECK(multi_worker_mirrored_strategy{rt}.num_replicas_in_sync() == 1);
    },
    2);
}

TEST_CASE("runtimes of peer workers have no parameter servers and refuse wrong peers") {
  on_workers(1, [](std::uint32_t, runtime& rt) {
    CHECK(rt.is_coordinator());
    CHECK(rt.owner() == nullptr);
    names(failure_of([&] { (void)parameter_server_strategy{rt}; }), errc::bad_config,
          {"parameter_server_strategy", "no parameter servers"});
  });
  auto refused = [](runtime_options options) {
    return failure_of([&] { runtime rt{std::move(options)}; });
  };
  names(refused(worker_options({"127.0.0.1:4000", "127.0.0.1:4001"}, 2)), errc::bad_config,
        {"peer is 2", "2 peers"});
  names(refused(worker_options({"127.0.0.1:4000", "127.0.0.1:0"}, 0)), errc::bad_config,
        {"peers[1]", "127.0.0.1:0"});
  names(refused(worker_options({"127.0.0.1:4000", "here"}, 0)), errc::bad_config,
        {"peers[1]", "here"});
  names(refused(worker_options({"127.0.0.1:4000", "10.1.2.3:4000"}, 0)), errc::bad_config,
        {"peers[1]", "10.1.2.3:4000", "token"});
  auto both = worker_options({"127.0.0.1:4000"}, 0);
  both.task = task_id{.job = job_kind::worker, .index = 0};
  names(refused(both), errc::bad_config, {"worker:0", "peers"});
  names(failure_of([] { (void)multi_worker_mirrored_strategy{shared_runtime()}; }),
        errc::bad_config, {"multi_worker_mirrored_strategy", "peers"});
}

TEST_CASE("SYNC-MWR-9 SYNC-M8 a resolver and devices exclude each other, and it knows its task") {
  on_workers(1, [](std::uint32_t, runtime& rt) {
    auto resolver = [](own_task task, std::vector<std::string> workers) {
      return std::make_shared<simple_resolver>(simple_resolver_options{
        .cluster = cluster_spec{{{"worker", std::move(workers)}}}, .task = std::move(task)});
    };
    const auto own = rt.options().peers;
    const own_task me{.type = "worker", .id = 0};
    names(failure_of([&] {
            (void)multi_worker_mirrored_strategy{rt, resolver(me, own), {.devices = cpus(1)}};
          }),
          errc::invalid_argument, {"devices", "cluster_resolver"});
    names(failure_of([&] {
            (void)multi_worker_mirrored_strategy{rt, resolver({.id = 0}, own)};
          }),
          errc::invalid_argument, {"task type"});
    names(failure_of([&] {
            (void)multi_worker_mirrored_strategy{rt, resolver({.type = "worker"}, own)};
          }),
          errc::invalid_argument, {"task id"});
    names(failure_of([&] {
            (void)multi_worker_mirrored_strategy{rt, resolver(me, {"127.0.0.1:1", "127.0.0.1:2"})};
          }),
          errc::bad_config, {"2 workers"});
    names(failure_of([&] {
            (void)multi_worker_mirrored_strategy{rt, nullptr};
          }),
          errc::invalid_argument, {"cluster_resolver is null"});
    multi_worker_mirrored_strategy s{rt, resolver(me, own)};
    CHECK(s.num_replicas_in_sync() == 1);
    CHECK(s.cluster_resolver()->task_type().value_or_throw() == "worker");
  });
}

TEST_CASE("devices: duplicates and none are refused") {
  on_workers(1, [](std::uint32_t, runtime& rt) {
    names(failure_of([&] {
            (void)multi_worker_mirrored_strategy{
              rt, {.devices = std::vector<std::string>{"cpu:0", "cpu:0"}}};
          }),
          errc::invalid_argument, {"'cpu:0' twice"});
    names(failure_of([&] {
            (void)multi_worker_mirrored_strategy{rt, {.devices = std::vector<std::string>{}}};
          }),
          errc::invalid_argument, {"devices is empty"});
  });
}

// --- who is who

/// Sets a variable of the environment for the length of a block.
class with_variable {
public:
  with_variable(const char* name, const std::string& value) : name_{name} {
    setenv(name, value.c_str(), 1);
  }
  ~with_variable() { unsetenv(name_); }

private:
  const char* name_;
};

runtime_options from(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "program");
  std::vector<char*> argv;
  for (auto& each : arguments)
    argv.push_back(each.data());
  return runtime::synchronous_options_from_args(static_cast<int>(argv.size()), argv.data());
}

std::string config_of(const char* cluster, const char* task) {
  return std::string{"{\"cluster\": "} + cluster + ", \"task\": " + task + "}";
}

constexpr const char* one_chief = R"({"chief": ["127.0.0.1:1"],
  "worker": ["127.0.0.1:2", "127.0.0.1:3"], "evaluator": ["127.0.0.1:4"], "ps": ["127.0.0.1:5"]})";

TEST_CASE("SYNC-MWR-4 SYNC-MWR-7 SYNC-M1 TF_CONFIG says who the workers are, the chief first") {
  const with_variable set{"TF_CONFIG", config_of(one_chief, R"({"type": "worker", "index": 1})")};
  const auto options = from({"--own-flag", "--troupe-device", "cpu:0"});
  CHECK(options.peers == std::vector<std::string>{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"});
  CHECK(options.peer == 2);
  CHECK(options.devices == std::vector<std::string>{"cpu:0"});
  CHECK(options.resolver->task_id().value_or_throw() == 1);
  CHECK(from({"--task", "chief"}).peer == 0);
  CHECK(from({"--task=worker:0"}).peer == 1);
}

TEST_CASE("SYNC-MWR-15 an evaluator is by itself; SYNC-MWR-7 without a cluster so is everybody") {
  {
    const with_variable set{"TF_CONFIG",
                            config_of(one_chief, R"({"type": "evaluator", "index": 0})")};
    const auto options = from({});
    CHECK(options.peers == std::vector<std::string>{"127.0.0.1:4"});
    CHECK(options.peer == 0);
  }
  const auto alone = from({});
  CHECK(alone.peers.size() == 1);
  CHECK(alone.peer == 0);
  CHECK(!alone.resolver);
}

TEST_CASE("SYNC-MWR-1 SYNC-MWR-4 tasks that can't be are refused, with field and value") {
  auto refused = [](const char* cluster, const char* task) {
    const with_variable set{"TF_CONFIG", config_of(cluster, task)};
    return failure_of([] { (void)from({}); });
  };
  names(refused(one_chief, R"({"type": "ps", "index": 0})"), errc::invalid_argument, {"ps"});
  names(refused(one_chief, R"({"type": "worker", "index": 2})"), errc::invalid_argument, {"2"});
  names(refused(one_chief, R"({"type": "master", "index": 0})"), errc::invalid_argument,
        {"master"});
  names(refused(one_chief, R"({"index": 0})"), errc::invalid_argument, {"task type"});
  names(refused(one_chief, R"({"type": "worker"})"), errc::invalid_argument, {"task id"});
  names(refused(R"({"chief": ["a:1", "b:1"]})", R"({"type": "chief", "index": 0})"),
        errc::invalid_argument, {"chief"});
  names(failure_of([] {
          (void)from({"--task", "worker"});
        }),
        errc::bad_config, {"--task", "worker"});
  names(failure_of([] {
          (void)from({"--troupe-nonsense", "1"});
        }),
        errc::bad_config, {"--troupe-nonsense"});
}

} // namespace
