#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <doctest/doctest.h>

#include <troupe/core/production_ports.hpp>
#include <troupe/core/tracers.hpp>
#include <troupe/transport/memory_transport.hpp>

#include "../parameter_server/cluster_support.hpp"

// Start, options and end of a runtime in this process.
namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

gate door;

int seven(worker_context&) { return 7; }
TROUPE_FUNCTION(seven);

std::size_t threads_of_this_process() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& t : std::filesystem::directory_iterator{"/proc/self/task"})
    ++n;
  return n;
}

/// An environment variable for as long as it lives.
class with_environment {
public:
  with_environment(const char* name, const std::string& value) : name_{name} {
    if (const char* before = std::getenv(name))
      before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~with_environment() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  with_environment(const with_environment&) = delete;

private:
  const char* name_;
  std::optional<std::string> before_{};
};

runtime_options from(std::vector<std::string> args) {
  args.insert(args.begin(), "program");
  std::vector<char*> argv;
  for (auto& a : args)
    argv.push_back(a.data());
  return runtime::options_from_args(static_cast<int>(argv.size()), argv.data());
}

const std::string tf_config =
  R"({"cluster": {"chief": ["127.0.0.1:4100"], "worker": ["127.0.0.1:4101", "127.0.0.1:4102"],
  "ps": ["127.0.0.1:4103"]}, "task": {"type": "worker", "index": 1}})";

} // namespace

TEST_CASE("PS-A10 construction returns when all servers and a worker are there") {
  runtime rt{{.workers = 3, .servers = 2}};
  CHECK(rt.is_coordinator());
  CHECK(rt.address().empty());
  parameter_server_strategy strategy{rt};
  cluster_coordinator coordinator{strategy};
  CHECK(comes_true([&] { return coordinator.workers().size() == 3; }));
  CHECK(coordinator.statistics().servers.size() == 2);
}

TEST_CASE(
  "PS-A10, PS-W14 a start that nobody joins ends at its deadline and says what is missing") {
  auto why = failure_of(
    [] { runtime rt{{.task = task_id{.job = job_kind::chief}, .start_timeout = 50ms}}; });
  CHECK(why.code == errc::deadline);
  CHECK(says(why, "start: after "));
  CHECK(says(why, "servers 0 of 2, workers 0 (1 required)"));
  CHECK(says(why, "missing: ps:0, ps:1, worker:0, worker:1"));
}

TEST_CASE("flags: how long members and the start wait, in seconds") {
  auto o = from({"--troupe-coordinator-lost", "2.5", "--troupe-start-timeout=9"});
  CHECK(o.coordinator_lost_ms_max == 2'500);
  CHECK(o.start_timeout == 9s);
  for (const char* bad : {"0", "soon", "-1", "", "1e9", "2s", "nan"}) {
    auto why = failure_of([&] { from({std::string{"--troupe-coordinator-lost="} + bad}); });
    CHECK(why.code == errc::bad_config);
    CHECK(says(why, "--troupe-coordinator-lost"));
    CHECK(says(why, std::string{"'"} + bad + "'"));
  }
}

TEST_CASE("the description of a cluster tells the start where its tasks are") {
  with_environment set{"TF_CONFIG", tf_config};
  auto o = from({});
  CHECK(o.task_addresses.at({job_kind::worker, 0}) == "127.0.0.1:4101");
  CHECK(o.task_addresses.at({job_kind::worker, 1}) == "127.0.0.1:4102");
  CHECK(o.task_addresses.at({job_kind::ps, 0}) == "127.0.0.1:4103");
}

TEST_CASE("PS-A3, PS-T-S5 no worker, or no server, is refused naming the field") {
  auto workers = failure_of([] { runtime rt{{.workers = 0}}; });
  CHECK(workers.code == errc::bad_config);
  CHECK(says(workers, "workers"));
  auto servers = failure_of([] { runtime rt{{.servers = 0}}; });
  CHECK(servers.code == errc::bad_config);
  CHECK(says(servers, "servers"));
}

TEST_CASE("addresses are checked before anything starts") {
  auto with = [](auto change) {
    runtime_options o{.task = task_id{.job = job_kind::chief}};
    change(o);
    return failure_of([&] { runtime rt{o}; });
  };
  auto no_port = with([](runtime_options& o) { o.coordinator_address = "127.0.0.1"; });
  CHECK(no_port.code == errc::bad_config);
  CHECK(says(no_port, "coordinator_address"));
  CHECK(says(no_port, "'127.0.0.1'"));
  CHECK(with([](runtime_options& o) { o.listen_address = "127.0.0.1:99999"; }).code
        == errc::bad_config);
  CHECK(with([](runtime_options& o) { o.data_listen_address = "127.0.0.1:1x"; }).code
        == errc::bad_config);
  auto open = with([](runtime_options& o) { o.coordinator_address = "0.0.0.0:0"; });
  CHECK(open.code == errc::bad_config);
  CHECK(says(open, "token"));
}

TEST_CASE("PS-A13, PS-T-C1 two coordinators of one strategy are one") {
  runtime rt;
  parameter_server_strategy strategy{rt};
  cluster_coordinator first{strategy};
  cluster_coordinator second{strategy};
  auto copy = strategy;
  cluster_coordinator third{copy};
  first.schedule(seven);
  second.schedule(seven);
  third.join(patience);
  CHECK(first.statistics().finished == 2);
  CHECK(third.statistics().scheduled == 2);
}

TEST_CASE("PS-A12 a coordinator takes a parameter-server strategy and nothing else") {
  static_assert(!std::is_constructible_v<cluster_coordinator, runtime&>);
  static_assert(!std::is_constructible_v<cluster_coordinator, int>);
  static_assert(std::is_constructible_v<cluster_coordinator, parameter_server_strategy&>);
  CHECK(true);
}

TEST_CASE("PS-A16 there is one replica, however many workers there are") {
  runtime rt{{.workers = 4}};
  CHECK(parameter_server_strategy{rt}.num_replicas_in_sync() == 1);
}

TEST_CASE("PS-A14, PS-T-F1 when the runtime goes, every thread that it started goes") {
  { runtime warm_up; } // what the C library and CAF start once and keep
  const auto before = threads_of_this_process();
  {
    small_cluster c{{.workers = 3, .servers = 2, .threads_per_worker = 2}};
    c.coordinator.schedule(seven).fetch();
    CHECK(threads_of_this_process() > before);
  }
  CHECK(comes_true([&] { return threads_of_this_process() <= before; }));
}

TEST_CASE("PS-A15 shutdown while closures run cancels them; every later call says unavailable") {
  small_cluster c{{.workers = 2}};
  opened_at_end guard{door};
  auto v = c.strategy.create_variable({.name = "w", .shape = {2}});
  auto running = c.coordinator.schedule(closure_options{.worker = 1}, [](worker_context& ctx) {
    door.pass();
    while (!ctx.cancelled()) {
    }
    return 1;
  });
  std::vector<remote_value<int>> queued;
  for (int i = 0; i < 10; ++i) // behind it
    queued.push_back(c.coordinator.schedule(closure_options{.worker = 1}, seven));
  REQUIRE(door.seen(1));
  door.open();
  c.rt.shutdown(patience);
  CHECK(failure_of([&] { running.fetch(); }).code == errc::cancelled);
  for (auto& q : queued)
    CHECK(failure_of([&] { q.fetch(); }).code == errc::cancelled);
  CHECK(failure_of([&] { c.coordinator.schedule(seven); }).code == errc::unavailable);
  CHECK(failure_of([&] { c.coordinator.join(patience); }).code == errc::unavailable);
  CHECK(failure_of([&] { c.coordinator.done(); }).code == errc::unavailable);
  CHECK(failure_of([&] { c.coordinator.statistics(); }).code == errc::unavailable);
  CHECK(failure_of([&] { c.strategy.create_variable({.name = "x", .shape = {2}}); }).code
        == errc::unavailable);
  c.rt.shutdown(patience); // once is enough
}

TEST_CASE("PS-A15 shutdown does not wait for a step that hangs longer than asked") {
  static std::atomic<bool> ended;
  ended = false;
  {
    small_cluster c{{.workers = 2}};
    door.close();
    c.coordinator.schedule([](worker_context&) {
      door.pass();
      ended = true;
    });
    REQUIRE(door.seen(1));
    c.rt.shutdown(30ms);
  } // the step still stands in the door, and all it may use must live
  door.open();
  CHECK(comes_true([] { return ended.load(); }));
}

TEST_CASE("a thread that waits in join is woken by shutdown") {
  small_cluster c;
  opened_at_end guard{door};
  door.close();
  c.coordinator.schedule([](worker_context&) { door.pass(); });
  REQUIRE(door.seen(1));
  failure why;
  std::thread waiting{[&] { why = failure_of([&] { c.coordinator.join(); }); }};
  std::this_thread::yield();
  std::thread opens{[&] {
    waiting.join(); // woken while the step still stands
    door.open();
  }};
  c.rt.shutdown(patience);
  opens.join();
  CHECK(why.code == errc::unavailable);
  CHECK(says(why, "shut down"));
  CHECK_FALSE(says(why, "term"));
}

TEST_CASE("a runtime on a host's actor system leaves the host as it was") {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system host{config};
  for (int round = 0; round < 2; ++round) {
    runtime rt{{}, host};
    parameter_server_strategy strategy{rt};
    cluster_coordinator coordinator{strategy};
    auto v = strategy.create_variable({.name = "w", .initial = tensor::scalar(1.0f)});
    CHECK(coordinator
            .schedule([](worker_context&, const variable& x) { return x.read().item<float>(); }, v)
            .fetch()
          == 1.0f);
  }
  CHECK(comes_true([&] { return host.registry().running() == 0; })); // no actor of ours is left
}

TEST_CASE("a runtime stands on a host's ports, and leaves them and the system as they were") {
  auto ports = make_production_ports();
  auto transport = make_memory_transport(ports->waits());
  counting_tracer counts;
  environment env{ports->clock(), ports->random(), ports->storage(), ports->threads(),
                  ports->waits(), *transport,      &counts};
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  {
    runtime rt{{}, runtime_host{system, env, {}}};
    CHECK(&rt.env() == &env);
    CHECK(rt.options().trace == &counts);
    parameter_server_strategy strategy{rt};
    cluster_coordinator coordinator{strategy};
    CHECK(coordinator.schedule(seven).fetch() == 7);
  }
  CHECK(counts.events("worker.closure_started") == 1);
  CHECK(comes_true([&] { return system.registry().running() == 0; }));

  runtime_options over_processes;
  over_processes.task = task_id{.job = job_kind::worker, .index = 0};
  auto why = failure_of([&] { runtime{over_processes, runtime_host{system, env, {}}}; });
  CHECK(why.code == errc::bad_config);
  CHECK(says(why, "network"));
}

TEST_CASE("two runtimes in one process don't see each other") {
  small_cluster a;
  small_cluster b;
  auto va = a.strategy.create_variable({.name = "w", .initial = tensor::scalar(1.0f)});
  auto vb = b.strategy.create_variable({.name = "w", .initial = tensor::scalar(2.0f)});
  auto read = [](worker_context&, const variable& x) { return x.read().item<float>(); };
  auto ra = a.coordinator.schedule(read, va);
  auto rb = b.coordinator.schedule(read, vb);
  CHECK(ra.fetch() == 1.0f);
  CHECK(rb.fetch() == 2.0f);
}

TEST_CASE("flags: those of Troupe are read, the program's own are left alone") {
  auto o =
    from({"--epochs", "3", "--troupe-workers", "5", "--troupe-servers=3", "file",
          "--troupe-threads", "2", "--troupe-cluster-name=blue", "--troupe-start-workers", "4"});
  CHECK_FALSE(o.task.has_value());
  CHECK(o.workers == 5);
  CHECK(o.servers == 3);
  CHECK(o.threads_per_worker == 2);
  CHECK(o.start_workers == 4);
  CHECK(o.cluster_name == "blue");
  auto task = from({"--troupe-task=worker:3", "--troupe-coordinator", "127.0.0.1:99",
                    "--troupe-listen=127.0.0.1:98"});
  CHECK(task.task == task_id{.job = job_kind::worker, .index = 3});
  CHECK(task.coordinator_address == "127.0.0.1:99");
  CHECK(task.listen_address == "127.0.0.1:98");
}

TEST_CASE("flags: an unknown one, a bad number and a missing value are refused, quoting them") {
  auto refusal = [](std::vector<std::string> args) {
    auto why = failure_of([&] { from(std::move(args)); });
    CHECK(why.code == errc::bad_config);
    return why.text;
  };
  CHECK(says(refusal({"--troupe-wrokers", "3"}), "--troupe-wrokers"));
  for (const char* bad : {"three", "-1", "2x", "", "100001", " 4"}) {
    auto text = refusal({std::string{"--troupe-workers="} + bad});
    CHECK(says(text, "--troupe-workers"));
    CHECK(says(text, std::string{"'"} + bad + "'"));
  }
  CHECK(says(refusal({"--troupe-workers"}), "--troupe-workers"));
  CHECK(says(refusal({"--troupe-task", "boss"}), "'boss'"));
  CHECK(says(refusal({"--troupe-task", "worker"}), "'worker'"));
  CHECK(says(refusal({"--troupe-task", "ps:x"}), "'x'"));
}

TEST_CASE("PS-Z5..Z7 TF_CONFIG says what this process is; a flag overrides its task") {
  {
    with_environment set{"TF_CONFIG", tf_config};
    auto o = from({});
    CHECK(o.task == task_id{.job = job_kind::worker, .index = 1});
    CHECK(o.workers == 2);
    CHECK(o.servers == 1);
    CHECK(o.coordinator_address == "127.0.0.1:4100");
    CHECK(o.listen_address == "127.0.0.1:4102");
    CHECK(from({"--troupe-task", "worker:0"}).listen_address == "127.0.0.1:4101"); // PS-Z8, PS-Z15
  }
  {
    with_environment set{"TF_CONFIG", "{}"};
    CHECK_FALSE(from({}).task.has_value());
  }
  for (const std::string& bad :
       {std::string{"{"}, std::string{R"({"cluster": 3})"},
        std::string{R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}})"}}) {
    with_environment set{"TF_CONFIG", bad};
    auto why = failure_of([] { from({}); });
    CHECK(why.code == errc::bad_config);
    CHECK(says(why, "TF_CONFIG"));
  }
}

TEST_CASE("a cluster file is read as TF_CONFIG is, the task by flag; its errors name the file") {
  scratch_folder here;
  auto path = here / "cluster.json";
  std::ofstream{path}
    << R"({"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"], "ps": ["127.0.0.1:3", "127.0.0.1:4"]})";
  auto o = from({"--cluster", path, "--troupe-task", "ps:1"});
  CHECK(o.task == task_id{.job = job_kind::ps, .index = 1});
  CHECK(o.servers == 2);
  CHECK(o.listen_address == "127.0.0.1:4");
  auto no_task = failure_of([&] { from({"--cluster", path}); });
  CHECK(no_task.code == errc::bad_config);
  CHECK(says(no_task, path));
  auto beyond = failure_of([&] { from({"--cluster", path, "--troupe-task", "ps:2"}); });
  CHECK(beyond.code == errc::bad_config);
  auto missing = failure_of([&] { from({"--cluster", here / "none", "--troupe-task", "ps:1"}); });
  CHECK(missing.code == errc::not_found);
  CHECK(says(missing, "/none"));
}

TEST_CASE("serve is for workers and servers; a strategy is for the coordinator") {
  runtime rt;
  CHECK(failure_of([&] { rt.serve(); }).code == errc::wrong_state);
}

TEST_CASE("TF_CONFIG with a task and no cluster made this process a whole cluster: it is refused") {
  for (const char* text :
       {R"({"sparseCluster": {"chief": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}})",
        R"({"clustr": {"chief": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}})",
        R"({"task": {"type": "worker", "index": 0}})"}) {
    with_environment set{"TF_CONFIG", text};
    auto why = failure_of([] { from({}); });
    CHECK(why.code == errc::bad_config);
    CHECK_MESSAGE(says(why, "\"cluster\""), why.text);
  }
}

TEST_CASE("flags: half a description trained alone or called nobody: what is missing is named") {
  const auto no_address = failure_of([] { from({"--troupe-task", "worker:1"}); });
  CHECK(no_address.code == errc::bad_config);
  CHECK(says(no_address, "--troupe-task is 'worker:1'"));
  CHECK(says(no_address, "--troupe-coordinator"));
  CHECK(says(failure_of([] { from({"--troupe-task=chief"}); }), "'chief'"));
  CHECK(from({"--troupe-task=chief", "--troupe-coordinator=127.0.0.1:0"}).task.has_value());
  for (const char* flag : {"--troupe-coordinator", "--troupe-listen", "--troupe-data-listen"}) {
    const auto no_task = failure_of([&] { from({flag, "127.0.0.1:1"}); });
    CHECK(no_task.code == errc::bad_config);
    CHECK(says(no_task, std::string{flag} + " is '127.0.0.1:1'"));
    CHECK(says(no_task, "--troupe-task"));
  }
}

TEST_CASE("addresses: who described them is named, and not a field that nobody typed") {
  auto start = [](std::vector<std::string> args) {
    return failure_of([&] { runtime rt{from(std::move(args))}; });
  };
  {
    with_environment set{"TF_CONFIG",
                         R"({"cluster": {"chief": ["10.1.1.1:4100"], "worker": ["127.0.0.1:4101"],
                       "ps": ["127.0.0.1:4103"]}, "task": {"type": "worker", "index": 0}})"};
    const auto why = start({});
    CHECK_MESSAGE(says(why, "TF_CONFIG chief[0] is 10.1.1.1:4100"), why.text);
    CHECK(says(why, "TROUPE_TOKEN"));
    CHECK_FALSE(says(why, "coordinator_address"));
  }
  const auto port = start({"--troupe-task=worker:0", "--troupe-coordinator=127.0.0.1:0"});
  CHECK_MESSAGE(
    says(port, "--troupe-coordinator is 127.0.0.1:0: worker:0 needs the coordinator's port, not 0"),
    port.text);
  const auto flag =
    start({"--troupe-task=ps:0", "--troupe-coordinator=127.0.0.1:4100", "--troupe-listen=here"});
  CHECK_MESSAGE(says(flag, "--troupe-listen is 'here'"), flag.text);
  const auto same = start({"--troupe-task=ps:0", "--troupe-coordinator=127.0.0.1:4100",
                           "--troupe-listen=127.0.0.1:4100"});
  CHECK(same.code == errc::bad_config);
  CHECK(says(same, "--troupe-coordinator and --troupe-listen are the same address"));
  with_environment set{
    "TF_CONFIG",
    R"({"cluster": {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:1"], "ps": ["127.0.0.1:3"]},
                     "task": {"type": "worker", "index": 0}})"};
  CHECK(says(start({}), "chief[0] and worker[0] have the same address"));
}

TEST_CASE("flags: a misspelt one is told with the one that was meant; the help lists them all") {
  const auto why = failure_of([] { from({"--troupe-wrokers", "3"}); });
  CHECK(says(why, "did you mean '--troupe-workers'?"));
  CHECK(says(why, "--troupe-help"));
  const auto help = runtime::flags_help();
  for (const char* flag :
       {"--cluster FILE", "--troupe-task TASK", "--troupe-coordinator HOST:PORT", "--troupe-listen",
        "--troupe-data-listen", "--troupe-workers N", "--troupe-servers N",
        "--troupe-start-workers", "--troupe-cluster-name", "--troupe-threads", "--troupe-device",
        "--troupe-transport", "--troupe-help"})
    CHECK_MESSAGE(help.find(flag) != std::string::npos, flag);
}

TEST_CASE("flags: a device that was named stood twice in a cluster that is described") {
  with_environment set{"TF_CONFIG", tf_config};
  CHECK(from({"--troupe-device", "cpu:0"}).devices == std::vector<std::string>{"cpu:0"});
}

TEST_CASE("a closure for a worker that there is not waited for ever: schedule refuses it") {
  small_cluster c{{.workers = 2}};
  const auto why = failure_of([&] { c.coordinator.schedule(closure_options{.worker = 9}, seven); });
  CHECK(why.code == errc::out_of_range);
  CHECK(says(why, "closure_options.worker is 9"));
  CHECK(says(why, "worker:0 to worker:1"));
  CHECK(c.coordinator.schedule(closure_options{.worker = 1}, seven).fetch() == 7);
  CHECK(c.coordinator.statistics().scheduled == 1);
}

TEST_CASE("join's deadline named a number of closures: it says which wait for one worker alone") {
  small_cluster c{{.workers = 2}};
  opened_at_end guard{door};
  door.close();
  for (int i = 0; i < 600; ++i) // more than are sent ahead
    c.coordinator.schedule(closure_options{.worker = 1}, [](worker_context&) { door.pass(); });
  REQUIRE(door.seen(1));
  const auto why = failure_of([&] { c.coordinator.join(50ms); });
  CHECK(why.code == errc::deadline);
  CHECK_MESSAGE(says(why, "bound to worker:1"), why.text);
  door.open();
  c.coordinator.join(patience);
}
