// Real processes that die, stop, come back, or don't belong: the W, D, P and F rows of the
// specification.
#include <doctest/doctest.h>

#include <algorithm>

#include "cluster_processes.hpp"

namespace tr = troupe;
using namespace troupe::testing;

namespace {

void count_step(tr::worker_context& ctx, const tr::variable& counter) {
  (void)ctx;
  counter.assign_add(tr::tensor::scalar(1.0f));
}
TROUPE_FUNCTION(count_step);

/// Runs until the test lets go.
void held_step(tr::worker_context& ctx, const tr::variable& counter) {
  auto& page = shared_page::get();
  ++page.entered;
  while (page.hold && !ctx.cancelled())
    sched_yield();
  if (ctx.cancelled())
    return;
  counter.assign_add(tr::tensor::scalar(1.0f));
}
TROUPE_FUNCTION(held_step);

std::pair<float, float> pair_step(tr::worker_context&, float x) { return {x, -x}; }
TROUPE_FUNCTION(pair_step);

tr::tensor large_step(tr::worker_context&, const tr::tensor& x) {
  auto out = x.clone();
  for (auto& v : out.mutable_as<float>())
    v += 1.0f;
  return out;
}
TROUPE_FUNCTION(large_step);

std::uint32_t where_step(tr::worker_context& ctx) { return ctx.worker().index; }
TROUPE_FUNCTION(where_step);

#ifdef __GNUC__
/// Registered in one role only, as another version of the program would have it.
[[maybe_unused]] const bool other_table = [] {
  if (std::getenv("TROUPE_TEST_EXTRA_FUNCTION"))
    tr::function_table::global().add(
      {.name = "a_function_of_another_version", .signature = "void ()"}, nullptr);
  return true;
}();
#endif

struct fixture {
  explicit fixture(std::uint32_t workers, std::uint32_t servers = 1,
                   tr::runtime_options options = {})
    : cluster{workers, servers, std::move(options)},
      strategy{cluster.rt()},
      coordinator{strategy},
      counter{strategy.create_variable({.name = "counter", .shape = {}})} {
    shared_page::get().hold = false;
    shared_page::get().entered = 0;
  }
  float count() const { return counter.read().item<float>(); }
  process_cluster cluster;
  tr::parameter_server_strategy strategy;
  tr::cluster_coordinator coordinator;
  tr::variable counter;
};

} // namespace

extern "C" int troupe_test_role(const char* role) { return run_role(role); }

TEST_CASE("PS-W1, T-F2: a worker restarted between two batches leaves the count exact") {
  fixture f{1};
  for (int i = 0; i < 2; ++i)
    f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join();
  CHECK(f.count() == 2);
  f.cluster.restart_worker(0);
  for (int i = 0; i < 2; ++i)
    f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 4);
  CHECK(f.cluster.end() == 2);
}

TEST_CASE("PS-W2: a worker killed while running leaves the count exact") {
  fixture f{1};
  shared_page::get().hold = true;
  for (int i = 0; i < 4; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 0; }));
  f.cluster.restart_worker(0);
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 4);
}

TEST_CASE("PS-W3, PS-W8, T-F16: with one of two workers dead for good, join still completes") {
  fixture f{2};
  shared_page::get().hold = true;
  for (int i = 0; i < 10; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 1; }));
  f.cluster.worker(0).signal(SIGKILL);
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 10);
}

TEST_CASE("PS-W4, T-F8: two workers killed and restarted together lose and double nothing") {
  fixture f{2};
  shared_page::get().hold = true;
  for (int i = 0; i < 10; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 1; }));
  f.cluster.worker(0).signal(SIGKILL);
  f.cluster.worker(1).signal(SIGKILL);
  f.cluster.restart_worker(0);
  f.cluster.restart_worker(1);
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 10);
}

TEST_CASE("PS-W5: the same worker killed and restarted twice loses and doubles nothing") {
  fixture f{1};
  shared_page::get().hold = true;
  for (int i = 0; i < 10; ++i)
    f.coordinator.schedule(held_step, f.counter);
  for (int round = 1; round <= 2; ++round) {
    REQUIRE(eventually([&] { return shared_page::get().entered >= round; }));
    f.cluster.restart_worker(0);
  }
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 10);
}

TEST_CASE(
  "PS-W6, PS-W18: closures wait while the only worker is down, done() is false, and they run when "
  "it is back") {
  fixture f{1};
  f.cluster.worker(0).signal(SIGKILL);
  f.cluster.worker(0).wait();
  for (int i = 0; i < 3; ++i)
    f.coordinator.schedule(count_step, f.counter);
  CHECK_FALSE(f.coordinator.done());
  CHECK_THROWS_AS(f.coordinator.join(std::chrono::milliseconds{200}), tr::error);
  f.cluster.restart_worker(0);
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.coordinator.done());
  CHECK(f.count() == 3);
}

TEST_CASE(
  "PS-W12, PS-L8, T-F5: resources are rebuilt when their worker returns, iterators from the "
  "beginning") {
  fixture f{1};
  auto data = f.coordinator.create_per_worker_dataset([] { return tr::dataset::range(100); });
  auto it = data.iterator();
  auto next = [](tr::worker_context&, tr::dataset_iterator& i) {
    return i.next().item<std::int64_t>();
  };
  CHECK(f.coordinator.schedule(next, it).fetch() == 0);
  CHECK(f.coordinator.schedule(next, it).fetch() == 1);
  f.cluster.restart_worker(0);
  CHECK(f.coordinator.schedule(next, it).fetch() == 0);
}

TEST_CASE(
  "PS-D4, PS-D11, PS-D12, T-F11, T-F12: a fetched and an unfetched result outlive every worker") {
  fixture f{1};
  auto first = f.coordinator.schedule(pair_step, 1.0f);
  CHECK(first.fetch() == std::pair{1.0f, -1.0f});
  auto second = f.coordinator.schedule(pair_step, 2.0f);
  f.coordinator.join();
  f.cluster.worker(0).signal(SIGKILL);
  f.cluster.worker(0).wait();
  CHECK(first.fetch() == std::pair{1.0f, -1.0f});
  CHECK(second.fetch() == std::pair{2.0f, -2.0f});
}

TEST_CASE("PS-W19, T-F13: reading a variable while a worker is killed and restarted never fails") {
  fixture f{1};
  for (int round = 0; round < 3; ++round) {
    f.cluster.restart_worker(0);
    for (int i = 0; i < 60; ++i)
      CHECK_NOTHROW(f.counter.read());
  }
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{30});
  CHECK(f.count() == 1);
}

TEST_CASE("PS-P1, PS-P6, T-F14: a killed parameter server is a named error, in bounded time") {
  fixture f{1, 2};
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join();
  f.cluster.server(0).signal(SIGKILL);
  f.cluster.server(0).wait();
  try {
    for (int i = 0; i < 3; ++i)
      f.coordinator.schedule(count_step, f.counter);
    f.coordinator.join(std::chrono::seconds{60});
    FAIL("the counter's server is gone");
  } catch (const tr::error& e) {
    CHECK((e.code() == tr::errc::unavailable || e.code() == tr::errc::connection_lost
           || e.code() == tr::errc::connect_failed));
    CHECK(std::string{e.what()}.find("ps:0") != std::string::npos);
  }
}

TEST_CASE(
  "a worker that is stopped is fenced, its closures run elsewhere, and it rejoins as a new "
  "incarnation") {
  tr::runtime_options options;
  fixture f{2, 1, options};
  shared_page::get().hold = true;
  for (int i = 0; i < 6; ++i)
    f.coordinator.schedule(held_step, f.counter);
  REQUIRE(eventually([] { return shared_page::get().entered > 1; }));
  f.cluster.worker(0).signal(SIGSTOP);
  shared_page::get().hold = false;
  f.coordinator.join(std::chrono::seconds{60}); // silence fences it: nobody waits for it
  CHECK(f.count() == 6);
  CHECK(f.coordinator.statistics().fenced == 1);
  f.cluster.worker(0).signal(SIGCONT);
  CHECK(eventually([&] {
    auto lines = f.coordinator.workers();
    return std::ranges::any_of(lines, [](auto& l) { return l.worker == 0 && l.incarnation == 2; });
  }));
  tr::closure_options there{.worker = 0};
  CHECK(f.coordinator.schedule(there, where_step).fetch() == 0);
  CHECK(f.count() == 6); // what it still had in hand when it woke changed nothing
  CHECK(f.cluster.end() == 3);
}

TEST_CASE("arguments and results over 16 KiB travel as blobs, bit for bit") {
  fixture f{1};
  tr::tensor x{tr::dtype::f32, {512, 100}};
  float n = 0;
  for (auto& v : x.mutable_as<float>())
    v = n++;
  auto y = f.coordinator.schedule(large_step, x).fetch();
  REQUIRE(y.shape() == x.shape());
  CHECK(y.as<float>()[0] == 1.0f);
  CHECK(y.as<float>()[51'199] == 51'200.0f);
}

TEST_CASE("PS-Y1: a checkpoint taken over processes restores over processes") {
  auto directory = "/tmp/troupe-test-" + std::to_string(getpid());
  {
    fixture f{1, 2};
    f.counter.assign(tr::tensor::scalar(41.0f));
    f.coordinator.save(directory);
    CHECK(f.cluster.end() == 3);
  }
  fixture g{1, 1};
  g.coordinator.restore(directory);
  CHECK(g.count() == 41.0f);
  g.coordinator.schedule(count_step, g.counter);
  g.coordinator.join();
  CHECK(g.count() == 42.0f);
  std::system(("rm -rf " + directory).c_str());
}

TEST_CASE("a peer with another function table is told the first function that differs") {
  fixture f{1};
  auto stranger =
    f.cluster.start({.role = "worker:1", .more = {{"TROUPE_TEST_EXTRA_FUNCTION", "1"}}});
  REQUIRE(stranger->wait_ended(20'000));
  CHECK(WEXITSTATUS(stranger->poll()) == 1);
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{20});
  CHECK(f.count() == 1);
}

TEST_CASE("a peer of another cluster, or without the token, is refused; the cluster goes on") {
  tr::runtime_options options;
  fixture f{1, 1, options};
  auto stranger =
    f.cluster.start({.role = "worker:1", .more = {{"TROUPE_TEST_CLUSTER", "another"}}});
  REQUIRE(stranger->wait_ended(20'000));
  CHECK(WEXITSTATUS(stranger->poll()) == 1);
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{20});
}

TEST_CASE("a second process for a live task is refused as taken") {
  fixture f{1};
  auto second = f.cluster.start({.role = "worker:0"});
  REQUIRE(second->wait_ended(20'000));
  CHECK(WEXITSTATUS(second->poll()) == 1);
  f.coordinator.schedule(count_step, f.counter);
  f.coordinator.join(std::chrono::seconds{20});
  CHECK(f.count() == 1);
}

TEST_CASE("an address in use is an error that names it") {
  fixture f{1};
  auto second =
    f.cluster.start({.role = "worker:1", .more = {{"TROUPE_TEST_LISTEN", f.cluster.address()}}});
  REQUIRE(second->wait_ended(20'000));
  CHECK(WEXITSTATUS(second->poll()) == 1);
  tr::runtime_options options;
  options.task = tr::task_id{.job = tr::job_kind::chief, .index = 0};
  options.coordinator_address = f.cluster.address();
  try {
    tr::runtime other{options};
    FAIL("the address is in use");
  } catch (const tr::error& e) {
    CHECK(e.code() == tr::errc::address_in_use);
    CHECK(std::string{e.what()}.find(f.cluster.address()) != std::string::npos);
  }
}

TEST_CASE("PS-J1: workers and servers end by themselves when no coordinator comes back") {
  setenv("TROUPE_TEST_LOST_MS", "1500", 1);
  shared_page::get();
  std::unique_ptr<child> worker;
  {
    auto f = std::make_unique<fixture>(1u);
    worker = f->cluster.start({.role = "worker:1"});
    REQUIRE(eventually([&] { return f->coordinator.workers().size() == 2; }));
    f.reset(); // an orderly end: everyone is told
  }
  CHECK(worker->wait_ended(20'000));
  CHECK(WEXITSTATUS(worker->poll()) == 0);
  unsetenv("TROUPE_TEST_LOST_MS");
  // nobody at the address at all: given up after the deadline, with an error
  auto lonely = std::make_unique<child>(child_options{
    .role = "worker:0", .coordinator = "127.0.0.1:9", .more = {{"TROUPE_TEST_LOST_MS", "1000"}}});
  CHECK(lonely->wait_ended(20'000));
  CHECK(WEXITSTATUS(lonely->poll()) == 1);
}
