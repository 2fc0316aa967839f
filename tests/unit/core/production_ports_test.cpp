#include <troupe/core/production_ports.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <string>

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/core/execution_context.hpp>

#include "../../support/processes.hpp"

using namespace troupe;
using std::chrono::milliseconds;

TEST_CASE("production clock: now is steady and not 0, wall time is this century's") {
  auto ports = make_production_ports();
  const auto first = ports->clock().now();
  CHECK(first.time_since_epoch().count() > 0);
  CHECK(ports->clock().now() >= first);
  CHECK(ports->clock().unix_ms() > 1'600'000'000'000);
}

TEST_CASE("production random: draws differ, whatever the purpose") {
  auto ports = make_production_ports();
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i)
    seen.insert(ports->random().draw(i % 2 ? "nonce" : "jitter"));
  CHECK(seen.size() == 1000);
}

TEST_CASE("production wait: a notification wakes a thread that waits without limit") {
  auto ports = make_production_ports();
  auto point = ports->waits().make_point();
  std::mutex m;
  bool ready = false;
  bool seen = false;
  auto waiter = ports->threads().start("waiter", [&] {
    std::unique_lock lock{m};
    seen = wait_for(*point, lock, never, [&] { return ready; });
  });
  {
    std::unique_lock lock{m};
    ready = true;
  }
  point->notify_all();
  waiter->join();
  CHECK(seen);
  CHECK(waiter->ended());
}

TEST_CASE("production wait: a deadline that passed gives up, and not before its time") {
  auto ports = make_production_ports();
  auto point = ports->waits().make_point();
  std::mutex m;
  std::unique_lock lock{m};
  const auto deadline = after(ports->clock().now(), milliseconds{20});
  CHECK_FALSE(wait_for(*point, lock, deadline, [] { return false; }));
  CHECK(ports->clock().now() >= deadline);
  CHECK(lock.owns_lock());
  CHECK_FALSE(point->wait_until(lock, time_point{}));
}

TEST_CASE("production wait: notify_one hands a token through many threads") {
  auto ports = make_production_ports();
  auto point = ports->waits().make_point();
  std::mutex m;
  int tokens = 0;
  int taken = 0;
  std::vector<std::unique_ptr<thread_handle>> threads;
  for (int i = 0; i < 4; ++i)
    threads.push_back(ports->threads().start("taker" + std::to_string(i), [&] {
      for (int k = 0; k < 250; ++k) {
        std::unique_lock lock{m};
        wait_for(*point, lock, never, [&] { return tokens > 0; });
        --tokens;
        ++taken;
      }
    }));
  for (int k = 0; k < 1000; ++k) {
    std::unique_lock lock{m};
    ++tokens;
    point->notify_one();
  }
  for (auto& each : threads)
    each->join();
  CHECK(taken == 1000);
  CHECK(tokens == 0);
}

TEST_CASE("production thread: it bears 15 characters of its name and has its own context") {
  auto ports = make_production_ports();
  int mine = 0;
  (void)exchange_context_local(&mine);
  char name[32] = {};
  const int* its = &mine;
  auto l = ports->threads().start("a-name-of-twenty-chars", [&] {
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    its = context_local<int>();
    ports->threads().yield();
  });
  l->join();
  CHECK(std::string{name} == "a-name-of-twent");
  CHECK(its == nullptr);
  (void)exchange_context_local<int>(nullptr);
}

TEST_CASE("production thread: an abandoned thread runs on with what it owns") {
  auto ports = make_production_ports();
  struct shared {
    std::mutex m{};
    std::unique_ptr<wait_point> point{};
    bool go = false;
    bool done = false;
  };
  auto s = std::make_shared<shared>();
  s->point = ports->waits().make_point();
  {
    auto l = ports->threads().start("left", [s] {
      std::unique_lock lock{s->m};
      wait_for(*s->point, lock, never, [&] { return s->go; });
      s->done = true;
      s->point->notify_all();
    });
    CHECK_FALSE(l->ended());
    l->abandon();
  }
  std::unique_lock lock{s->m};
  s->go = true;
  s->point->notify_all();
  wait_for(*s->point, lock, never, [&] { return s->done; });
  CHECK(s->done);
}

TEST_CASE("production thread: leave_now ends the process with the code and runs no destructor") {
  testing::child_process child{[] {
    struct loud {
      ~loud() { ::_exit(1); }
    } never_destroyed;
    make_production_ports()->threads().leave_now(42);
    return 0;
  }};
  child.wait();
  CHECK(child.code() == 42);
}

namespace {

std::set<int> cores_of_this_thread() {
  cpu_set_t all;
  CPU_ZERO(&all);
  std::set<int> out;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all))
      out.insert(core);
  return out;
}

/// Where a thread may run that keeps to a part.
std::set<int> cores_of_part(production_ports& ports, std::uint32_t part, std::uint32_t parts) {
  std::set<int> out;
  auto thread = ports.threads().start("part", [&] {
    ports.threads().keep_to_part(part, parts);
    out = cores_of_this_thread();
  });
  thread->join();
  return out;
}

} // namespace

TEST_CASE("production threads: parts have cores of their own, and all of them together") {
  auto ports = make_production_ports();
  const auto all = cores_of_this_thread();
  const auto n = static_cast<std::uint32_t>(all.size());
  for (std::uint32_t parts : {1u, 2u, 3u, n, n + 1}) {
    CAPTURE(parts);
    std::set<int> seen;
    std::size_t cores = 0;
    for (std::uint32_t part = 0; part < parts; ++part) {
      const auto own = cores_of_part(*ports, part, parts);
      CHECK(!own.empty());
      if (parts > n) // nobody keeps to anything
        CHECK(own == all);
      cores += own.size();
      seen.insert(own.begin(), own.end());
    }
    CHECK(seen == all);
    CHECK(cores == (parts > n ? std::size_t{parts} * n : n));
  }
  CHECK(cores_of_this_thread() == all); // others' threads are others'
}

TEST_CASE(
  "production threads: a thread that another one starts keeps to no part, its own may be next") {
  auto ports = make_production_ports();
  const auto all = cores_of_this_thread();
  const auto parts = static_cast<std::uint32_t>(all.size());
  std::set<int> outer_cores, inner_cores, kept_cores;
  auto outer = ports->threads().start("outer", [&] {
    ports->threads().keep_to_part(0, parts);
    outer_cores = cores_of_this_thread();
    auto inner = ports->threads().start("inner", [&] {
      inner_cores = cores_of_this_thread();
      ports->threads().keep_to_part(parts - 1, parts);
      kept_cores = cores_of_this_thread();
    });
    inner->join();
  });
  outer->join();
  CHECK(inner_cores == all);
  CHECK(outer_cores.size() == 1);
  CHECK(kept_cores.size() == 1);
  CHECK((parts < 2 || outer_cores != kept_cores));
}
