// Workers and servers that die or stop at random instants while tensors travel, over shared memory
// and over TCP: no update lost, none doubled, no half of a push ever seen, nobody waits for the
// dead, and nothing of them is left.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <dirent.h>

#include "../support/tensors.hpp"
#include "cluster_processes.hpp"

namespace tr = troupe;
using namespace troupe::testing;

namespace {

constexpr std::int64_t cells = 16'384;
constexpr std::int64_t servers = 2;
constexpr std::int64_t rows = 8192; // of 64 floats: 2 MiB, 1 MiB a server
constexpr std::int64_t row_len = 64;

tr::tensor some_rows(std::uint64_t seed) {
  std::set<std::int64_t> ids;
  while (ids.size() < 500)
    ids.insert(static_cast<std::int64_t>(next_random(seed) % rows));
  return ids_of({ids.begin(), ids.end()});
}

void check_even(const tr::tensor& block) {
  // Every push takes 1 from every element of a shard: a half of one would show.
  const auto values = block.as<float>();
  for (float x : values)
    if (x != values.front())
      throw std::runtime_error("half of a push: " + std::to_string(x) + " beside "
                               + std::to_string(values.front()));
}

/// Pulls and pushes, dense and sparse, and adds 1 to its closure's cell on each server.
std::int64_t traffic_step(tr::worker_context& ctx, const tr::variable_list& v) {
  const auto seq = ctx.closure().seq;
  for (const auto& block : ctx.read(v[0]).blocks)
    check_even(block.values);
  const auto cell = static_cast<std::int64_t>(seq) % cells;
  v[1].scatter_add(tr::tensor::vector<std::int64_t>({cell, cells + cell}),
                   tr::tensor::of<std::int64_t>({servers, 1}, {1, 1}));
  ctx.apply(v[0], filled({rows, row_len}, 1.0f));
  const auto ids = some_rows(seq);
  const auto got = v[2].gather(ids);
  const auto at = got.as<float>();
  for (std::size_t i = 0; i < at.size(); ++i) // a row is changed whole
    if (at[i] != at[i / row_len * row_len])
      throw std::runtime_error("half of a row");
  v[2].scatter_add(ids, filled({ids.size(), row_len}, 1.0f));
  return 1;
}
TROUPE_FUNCTION(traffic_step);

void pull_step(tr::worker_context& ctx, const tr::variable_list& v) {
  while (shared_page::get().hold && !ctx.cancelled()) {
    ctx.read(v);
    ++shared_page::get().entered;
  }
}
TROUPE_FUNCTION(pull_step);

// --- what the system says
// -----------------------------------------------------------------------------------------

std::size_t open_files(pid_t pid) {
  std::size_t out = 0;
  if (DIR* directory = ::opendir(("/proc/" + std::to_string(pid) + "/fd").c_str())) {
    while (::readdir(directory) != nullptr)
      ++out;
    ::closedir(directory);
  }
  return out;
}

/// Mappings of a process that it shares with others over a channel.
std::size_t channel_mappings(pid_t pid) {
  std::ifstream maps{"/proc/" + std::to_string(pid) + "/maps"};
  std::size_t out = 0;
  for (std::string line; std::getline(maps, line);)
    out += line.find("memfd:troupe-shared") != std::string::npos ? 1 : 0;
  return out;
}

std::int64_t resident_kib(pid_t pid) {
  std::ifstream status{"/proc/" + std::to_string(pid) + "/status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:"))
      return std::atoll(line.c_str() + 6);
  return -1;
}

void nap_us(std::uint64_t us) {
  const auto until = now_ns() + static_cast<std::int64_t>(us) * 1000;
  eventually([&] { return now_ns() >= until; });
}

// --- a cluster under fire
// -----------------------------------------------------------------------------------------

struct way {
  explicit way(bool shares_memory) {
    if (shares_memory)
      ::unsetenv("TROUPE_TEST_TCP");
    else
      ::setenv("TROUPE_TEST_TCP", "1", 1);
  }
  ~way() { ::unsetenv("TROUPE_TEST_TCP"); }
};

class traffic {
public:
  explicit traffic(bool shares_memory)
    : way_{shares_memory},
      cluster{2, servers, options(shares_memory)},
      strategy{cluster.rt(), {.partitioner = tr::fixed_shards_partitioner{servers}}},
      coordinator{strategy} {
    strategy.scope([&] {
      v = {tr::create_variable(
             {.name = "dense", .shape = {rows, row_len}, .optimizer = tr::sgd{1.0f}}),
           tr::create_variable(
             {.name = "cells", .shape = {servers * cells, 1}, .type = tr::dtype::i64}),
           tr::create_variable({.name = "table", .shape = {rows, row_len}})};
    });
    settle(2);
    CHECK((channel_mappings(cluster.server(0).pid()) > 0) == shares_memory);
  }

  /// Keeps closures in flight until `accepted` of them more have ended.
  void run(std::size_t accepted_more) {
    const std::size_t goal = accepted.size() + accepted_more;
    while (accepted.size() < goal) {
      while (open_.size() < 12)
        open_.push_back(coordinator.schedule(traffic_step, v));
      take_one();
    }
  }
  void settle(std::size_t first = 0) {
    for (; first > 0; --first)
      open_.push_back(coordinator.schedule(traffic_step, v));
    while (!open_.empty())
      take_one();
  }

  /// Compares what the servers hold with what the coordinator accepted.
  void compare() {
    settle();
    coordinator.join();
    const auto counted = v[1].read();
    std::vector<std::int64_t> expected(cells, 0);
    for (const auto seq : accepted)
      ++expected[seq % cells];
    std::int64_t lost = 0;
    std::int64_t doubled = 0;
    for (std::int64_t i = 0; i < servers * cells; ++i) {
      const auto is = counted.as<std::int64_t>()[static_cast<std::size_t>(i)];
      const auto want = expected[static_cast<std::size_t>(i % cells)];
      lost += std::max<std::int64_t>(0, want - is);
      doubled += std::max<std::int64_t>(0, is - want);
    }
    CHECK(lost == 0);
    CHECK(doubled == 0);
    for (const auto& block : v[0].read_blocks().blocks) {
      check_even(block.values);
      CHECK(block.values.as<float>()[0] == -static_cast<float>(accepted.size()));
    }
    CHECK(coordinator.errors().empty());
  }

private:
  static tr::runtime_options options(bool shares_memory) {
    tr::runtime_options out;
    out.shared_memory = shares_memory;
    return out;
  }
  void take_one() {
    accepted.push_back(open_.front().handle().state()->id.seq);
    CHECK(open_.front().fetch() == 1);
    open_.pop_front();
  }
  way way_;
  std::deque<tr::remote_value<std::int64_t>> open_{};

public:
  process_cluster cluster;
  tr::parameter_server_strategy strategy;
  tr::cluster_coordinator coordinator;
  tr::variable_list v{};
  std::vector<std::uint64_t> accepted{};
};

void kill_workers(bool shares_memory, int times) {
  const auto before = shared_segments();
  traffic t{shares_memory};
  std::uint64_t random = 7 + (shares_memory ? 1 : 0);
  t.run(20);
  const auto server = t.cluster.server(0).pid();
  const auto files = open_files(server);
  const auto mappings = channel_mappings(server);
  for (int i = 0; i < times; ++i) {
    CAPTURE(i);
    const std::size_t victim = next_random(random) % 2;
    nap_us(next_random(random) % 20'000);
    t.cluster.worker(victim).signal(SIGKILL);
    t.cluster.restart_worker(victim);
    t.run(4 + next_random(random) % 8);
  }
  t.compare();
  // Each of the dead took its channel along.
  CHECK(eventually([&] { return open_files(server) <= files + 2; })); // the program's own
  CHECK(eventually([&] { return channel_mappings(server) <= mappings + 4; }));
  CHECK(shared_segments() == before);
}

void stop_processes(bool shares_memory, int times) {
  traffic t{shares_memory};
  std::uint64_t random = 70 + (shares_memory ? 1 : 0);
  t.run(20);
  for (int i = 0; i < times; ++i) {
    CAPTURE(i);
    const bool for_long =
      i % 8 == 7; // a worker: it is given up and comes back as another incarnation
    const auto who = next_random(random) % (for_long ? 2 : 4);
    auto& victim = who < 2 ? t.cluster.worker(who) : t.cluster.server(who - 2);
    nap_us(next_random(random) % 20'000);
    victim.signal(SIGSTOP);
    nap_us(for_long ? 2'500'000 : next_random(random) % 100'000);
    victim.signal(SIGCONT);
    t.run(4 + next_random(random) % 8);
  }
  t.compare();
}

void kill_servers(bool shares_memory, int times) {
  std::uint64_t random = 700 + (shares_memory ? 1 : 0);
  const auto before = shared_segments();
  const auto mappings = channel_mappings(::getpid());
  for (int i = 0; i < times; ++i) {
    CAPTURE(i);
    traffic t{shares_memory};
    const auto victim = next_random(random) % servers;
    std::vector<tr::remote_value<std::int64_t>> open;
    for (int n = 0; n < 40; ++n)
      open.push_back(t.coordinator.schedule(traffic_step, t.v));
    nap_us(next_random(random) % 60'000);
    const auto killed = now_ns();
    t.cluster.server(victim).signal(SIGKILL);
    try {
      t.coordinator.join(std::chrono::seconds{60});
      t.v[0].read(); // all had ended before
      FAIL("the server is gone");
    } catch (const tr::error& e) {
      CHECK(std::string{e.what()}.find("ps:" + std::to_string(victim)) != std::string::npos);
    }
    CHECK(now_ns() - killed < 20'000'000'000);
  }
  CHECK(channel_mappings(::getpid()) <= mappings);
  CHECK(shared_segments() == before);
}

} // namespace

extern "C" int troupe_test_role(const char* role) { return run_role(role); }

TEST_CASE("shared memory: workers killed at 100 random instants lose and double nothing") {
  kill_workers(true, 100);
}

TEST_CASE("TCP: workers killed at 74 random instants lose and double nothing") {
  kill_workers(false, 74);
}

TEST_CASE("shared memory: workers and servers stopped at 40 random instants, and woken") {
  stop_processes(true, 40);
}

TEST_CASE("TCP: workers and servers stopped at 20 random instants, and woken") {
  stop_processes(false, 20);
}

TEST_CASE("shared memory: a server killed at 10 random instants is a named error in bounded time") {
  kill_servers(true, 10);
}

TEST_CASE("TCP: a server killed at 6 random instants is a named error in bounded time") {
  kill_servers(false, 6);
}

TEST_CASE("shared memory: a worker that stops in the middle of a pull costs its server no memory") {
  process_cluster cluster{1, 1};
  tr::parameter_server_strategy strategy{cluster.rt()};
  tr::cluster_coordinator coordinator{strategy};
  auto large = strategy.create_variable({.name = "large", .shape = {1 << 18, row_len}}); // 64 MiB
  auto& page = shared_page::get();
  page.entered = 0;
  page.hold = true;
  coordinator.schedule(pull_step, tr::variable_list{large});
  REQUIRE(eventually([&] { return page.entered > 2; }));
  REQUIRE(channel_mappings(cluster.server(0).pid()) > 0);
  const auto before = resident_kib(cluster.server(0).pid());
  std::uint64_t random = 3;
  for (int i = 0; i < 10; ++i) {
    nap_us(next_random(random) % 20'000);
    cluster.worker(0).signal(SIGSTOP);
    nap_us(30'000);
    CHECK(resident_kib(cluster.server(0).pid()) < before + 8 * 1024);
    cluster.worker(0).signal(SIGCONT);
    const auto pulled = page.entered.load();
    REQUIRE(eventually([&] { return page.entered > pulled; }));
  }
  page.hold = false;
  coordinator.join();
}
