// Real processes that end and begin again: on which ports, with which codes, and how quietly they
// wait. The coordinator is a process too, so that it can be killed.
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#define TROUPE_TEST_OWN_ROLES
#include "counting_cluster.hpp"

namespace {

using namespace std::chrono_literals;

constexpr int lost = 69;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Counts on until the test lets it go. `entered`: coordinators that have started; `running`:
/// rounds that all of them have done.
void count_while_held(tr::runtime& rt) {
  auto& page = shared_page::get();
  tr::parameter_server_strategy strategy{rt};
  tr::cluster_coordinator coordinator{strategy};
  auto counter = strategy.create_variable({.name = "counter", .shape = {}});
  ++page.entered;
  while (page.hold) {
    coordinator.schedule(count_step, counter);
    coordinator.join(std::chrono::seconds{60});
    ++page.running;
    (void)eventually([&] { return !page.hold; }, 5ms);
  }
}

int chief_role() {
  tr::runtime_options options;
  options.task = tr::task_id{.job = tr::job_kind::chief, .index = 0};
  options.coordinator_address = variable("TROUPE_TEST_COORDINATOR");
  options.workers = 1;
  options.servers = 2;
  const auto how = variable("TROUPE_TEST_CHIEF");
  return tr::run_main([&] {
    {
      tr::runtime rt{options};
      if (how != "anew") {
        count_while_held(rt);
        return 0;
      }
      try {
        count_while_held(rt);
      } catch (const tr::error&) {
        rt.step_down();
      }
    }
    tr::runtime again{options};
    count_while_held(again);
    return 0;
  });
}

/// One of two peer workers: goes on with another strategy when the other one is lost.
int equal_role(std::uint32_t index) {
  auto& page = shared_page::get();
  const auto address = variable("TROUPE_TEST_COORDINATOR");
  const auto other = variable("TROUPE_TEST_OTHER");
  tr::runtime_options options;
  options.peers = {address, other};
  options.peer = index;
  options.devices = {"cpu:0"};
  tr::runtime rt{options};
  while (page.hold)
    try {
      tr::multi_worker_mirrored_strategy strategy{rt};
      ++page.entered;
      while (page.hold) {
        strategy.barrier();
        (void)eventually([&] { return !page.hold; }, 5ms);
      }
    } catch (const tr::error&) {
    }
  return 0;
}

std::string port_text(int offset) {
  return "127.0.0.1:" + std::to_string(10'000 + getpid() % 2'000 * 10 + offset);
}

/// A chief, a worker and two servers, each at an address of its own.
struct four_processes {
  explicit four_processes(std::map<std::string, std::string> more = {}) : more_{std::move(more)} {
    auto& page = shared_page::get();
    page.hold = true;
    page.entered = 0;
    page.running = 0;
    for (const char* role : {"ps:0", "ps:1", "worker:0", "chief"})
      start(role);
    REQUIRE(eventually([&] { return page.entered == 1; }));
  }
  ~four_processes() { shared_page::get().hold = false; }

  /// On the port that its task always has.
  void start(const std::string& role) {
    static const std::map<std::string, int> ports{
      {"chief", 0}, {"ps:0", 1}, {"ps:1", 2}, {"worker:0", 3}};
    auto more = more_;
    more["TROUPE_TEST_LISTEN"] = port_text(ports.at(role));
    all[role] = std::make_unique<child>(
      role_options{.role = role, .coordinator = port_text(0), .more = std::move(more)});
  }
  child& at(const std::string& role) { return *all.at(role); }
  void kill(const std::string& role) {
    at(role).signal(SIGKILL);
    at(role).wait();
  }
  /// Its exit code once it has ended; -1: not in time; minus a signal.
  int code(const std::string& role, std::chrono::seconds limit = 30s) {
    return at(role).wait_ended(limit) ? at(role).code() : -1;
  }
  bool goes_on() {
    auto& page = shared_page::get();
    const auto before = page.running.load();
    return eventually([&] { return page.running >= before + 2; });
  }

  std::map<std::string, std::unique_ptr<child>> all{};

private:
  std::map<std::string, std::string> more_;
};

/// Processor time of a process so far, in ms.
std::int64_t cpu_ms(const child& of) {
  std::ifstream file{"/proc/" + std::to_string(of.pid()) + "/stat"};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  std::istringstream fields{text.substr(text.rfind(')') + 2)};
  const std::vector<std::string> words{std::istream_iterator<std::string>{fields}, {}};
  return (std::stoll(words.at(11)) + std::stoll(words.at(12))) * 1'000 / sysconf(_SC_CLK_TCK);
}

/// Processor time that they take together in `ms`.
std::int64_t cpu_ms_in(four_processes& of, const std::vector<std::string>& roles, int ms) {
  std::int64_t sum = 0;
  for (const auto& role : roles)
    sum -= cpu_ms(of.at(role));
  (void)eventually([] { return false; }, std::chrono::milliseconds{ms});
  for (const auto& role : roles)
    sum += cpu_ms(of.at(role));
  return sum;
}

} // namespace

extern "C" int troupe_test_role(const char* role) {
  const std::string text = role;
  shared_page::get();
  if (text == "chief")
    return chief_role();
  if (text.starts_with("equal:"))
    return equal_role(static_cast<std::uint32_t>(text.back() - '0'));
  return run_role(role);
}

TEST_CASE(
  "the coordinator's port was shut for a minute after its end: each role that is killed is back "
  "on its own port at once") {
  four_processes f;
  auto& page = shared_page::get();

  auto began = now_ns();
  f.kill("chief");
  f.start("chief");
  REQUIRE(eventually([&] { return page.entered == 2; }));
  CHECK(now_ns() - began < 10'000'000'000LL);
  for (const char* member : {"ps:0", "ps:1", "worker:0"})
    CHECK(f.at(member).running()); // the same processes

  f.kill("worker:0");
  f.start("worker:0");
  REQUIRE(f.goes_on());
  CHECK(f.at("worker:0").running());

  // a server takes its values along: the whole cluster ends, and begins again on its ports
  f.kill("ps:0");
  for (const char* other : {"chief", "ps:1", "worker:0"})
    CHECK(f.code(other) == lost);
  for (const char* role : {"ps:0", "ps:1", "worker:0", "chief"})
    f.start(role);
  REQUIRE(eventually([&] { return page.entered == 3; }));
  REQUIRE(f.goes_on());
  page.hold = false;
  for (const char* role : {"chief", "ps:0", "ps:1", "worker:0"})
    CHECK(f.code(role) == 0);
}

TEST_CASE("an equal worker that is killed is back on its own port at once") {
  auto& page = shared_page::get();
  page.hold = true;
  page.entered = 0;
  const auto start = [&](int index) {
    return std::make_unique<child>(role_options{.role = "equal:" + std::to_string(index),
                                                .coordinator = port_text(5),
                                                .more = {{"TROUPE_TEST_OTHER", port_text(6)}}});
  };
  std::unique_ptr<child> both[]{start(0), start(1)};
  REQUIRE(eventually([&] { return page.entered == 2; }));
  std::int64_t met = 2;
  for (int victim : {0, 1}) { // the first one is called by the other, and so has its sockets
    both[victim]->signal(SIGKILL);
    both[victim]->wait();
    both[victim] = start(victim);
    met += 2;
    REQUIRE(eventually([&] { return page.entered >= met; }));
    CHECK(both[1 - victim]->running());
  }
  page.hold = false;
}

TEST_CASE("after the chief was killed the others ended with 0 or 1: they end with 69") {
  four_processes f{{{"TROUPE_TEST_LOST_MS", "1500"}}};
  f.kill("chief");
  for (const char* other : {"ps:0", "ps:1", "worker:0"})
    CHECK(f.code(other) == lost);
}

TEST_CASE("after a server's loss a runtime in the same process makes the cluster anew") {
  four_processes f{{{"TROUPE_TEST_CHIEF", "anew"}}};
  auto& page = shared_page::get();
  const auto worker = f.at("worker:0").pid();
  const auto server = f.at("ps:1").pid();
  f.kill("ps:0");
  f.start("ps:0");
  REQUIRE(eventually([&] { return page.entered == 2; }, 60s));
  REQUIRE(f.goes_on());
  CHECK(f.at("worker:0").running());
  CHECK(f.at("ps:1").running());
  CHECK(f.at("worker:0").pid() == worker);
  CHECK(f.at("ps:1").pid() == server);
  page.hold = false;
  for (const char* role : {"chief", "ps:0", "ps:1", "worker:0"})
    CHECK(f.code(role) == 0);
}

TEST_CASE("who is refused ends with 77, who has no place in the cluster with 64") {
  four_processes f;
  const auto code_of = [&](const std::string& role, std::map<std::string, std::string> more) {
    child one{{.role = role, .coordinator = port_text(0), .more = std::move(more)}};
    return one.wait_ended(patience) ? one.code() : -1;
  };
  CHECK(code_of("worker:1", {{"TROUPE_TEST_CLUSTER", "another"}}) == 77);
  CHECK(code_of("worker:1", {{"TROUPE_TEST_EXTRA_FUNCTION", "1"}}) == 77);
  CHECK(code_of("worker:0", {}) == 77); // the task is taken
  CHECK(code_of("ps:7", {}) == 64);
  CHECK(code_of("worker:1", {{"TROUPE_TEST_LISTEN", "0.0.0.0:0"}}) == 64); // without a token
  REQUIRE(f.goes_on());
}

TEST_CASE("workers and servers of a dead or wedged coordinator are at rest") {
  const std::vector<std::string> others{"ps:0", "ps:1", "worker:0"};
  constexpr int look_ms = 3'000;
  SUBCASE("killed") {
    four_processes f;
    f.kill("chief");
    CHECK(cpu_ms_in(f, others, look_ms) < look_ms / 5);
    f.start("chief");
    REQUIRE(eventually([&] { return shared_page::get().entered == 2; }));
  }
  SUBCASE("stopped") {
    four_processes f;
    f.at("chief").signal(SIGSTOP);
    CHECK(cpu_ms_in(f, others, look_ms) < look_ms / 5);
    f.at("chief").signal(SIGCONT);
    REQUIRE(f.goes_on());
  }
  SUBCASE("stopped, and then one comes that it never heard of") {
    four_processes f;
    f.at("chief").signal(SIGSTOP);
    f.kill("worker:0");
    f.start("worker:0");
    CHECK(cpu_ms_in(f, others, look_ms) < look_ms / 5 + 500); // its start
    f.at("chief").signal(SIGCONT);
    REQUIRE(f.goes_on());
  }
}
