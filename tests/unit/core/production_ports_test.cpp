#include <troupe/core/production_ports.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <string>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/core/lane_context.hpp>

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

TEST_CASE("production wait: a notification wakes a lane that waits without limit") {
  auto ports = make_production_ports();
  auto point = ports->waits().make_point();
  std::mutex m;
  bool ready = false;
  bool seen = false;
  auto waiter = ports->lanes().start("waiter", [&] {
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

TEST_CASE("production wait: notify_one hands a token through many lanes") {
  auto ports = make_production_ports();
  auto point = ports->waits().make_point();
  std::mutex m;
  int tokens = 0;
  int taken = 0;
  std::vector<std::unique_ptr<lane>> lanes;
  for (int i = 0; i < 4; ++i)
    lanes.push_back(ports->lanes().start("taker" + std::to_string(i), [&] {
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
  for (auto& each : lanes)
    each->join();
  CHECK(taken == 1000);
  CHECK(tokens == 0);
}

TEST_CASE("production lane: it bears 15 characters of its name and has its own context") {
  auto ports = make_production_ports();
  int mine = 0;
  current_context().step = &mine;
  char name[32] = {};
  void* step = &mine;
  auto l = ports->lanes().start("a-name-of-twenty-chars", [&] {
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    step = current_context().step;
    ports->lanes().yield();
  });
  l->join();
  CHECK(std::string{name} == "a-name-of-twent");
  CHECK(step == nullptr);
  current_context().step = nullptr;
}

TEST_CASE("production lane: an abandoned lane runs on with what it owns") {
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
    auto l = ports->lanes().start("left", [s] {
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

TEST_CASE("production lane: leave_now ends the process with the code and runs no destructor") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct loud {
      ~loud() { ::_exit(1); }
    } never_destroyed;
    make_production_ports()->lanes().leave_now(42);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}
