// Goal: whatever a child does, the parent goes on and knows what happened.
#include <troupe/sim/tools/child_pool.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include <unistd.h>

#include <troupe/core/error.hpp>
#include <troupe/sim/tools/seed_run.hpp>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

child_end run_one(const std::function<std::string()>& body, child_limits limits = {}) {
  child_pool pool{1, limits};
  pool.start(7, body);
  return pool.wait();
}

} // namespace

TEST_CASE("children: an answer comes back whole, however long it is") {
  for (std::size_t n : {0u, 1u, 65'535u, 65'536u, 3'000'000u}) {
    auto out = run_one([n] { return std::string(n, 'x'); });
    CHECK(out.how == child_end::answered);
    CHECK(out.key == 7);
    CHECK(out.answer == std::string(n, 'x'));
  }
}

TEST_CASE("children: many at once, each with its own answer") {
  child_pool pool{4};
  std::map<std::uint64_t, std::string> seen;
  for (std::uint64_t next = 0; next < 100 || !pool.idle();)
    if (next < 100 && !pool.full()) {
      pool.start(next, [next] { return std::to_string(next * next); });
      ++next;
    } else {
      auto end = pool.wait();
      seen[end.key] = end.answer;
    }
  REQUIRE(seen.size() == 100);
  for (const auto& [key, answer] : seen)
    CHECK(answer == std::to_string(key * key));
}

TEST_CASE("children: one that aborts is told apart, with what it said") {
  auto out = run_one([]() -> std::string {
    TROUPE_ASSERT(1 > 2, "INV-P2");
    return "no";
  });
  CHECK(out.how == child_end::died);
  CHECK(out.signal == SIGABRT);
  CHECK(out.errors.find("INV-P2") != std::string::npos);
  CHECK(outcome_of(out).rule == "INV-P2");
}

TEST_CASE("children: a sentence in an assertion is the rule `assertion`") {
  auto out = run_one([]() -> std::string {
    TROUPE_ASSERT(1 > 2, "threads are joined before their owner goes");
    return "no";
  });
  CHECK(outcome_of(out).rule == "assertion");
  CHECK(outcome_of(out).text.find("threads are joined") != std::string::npos);
}

TEST_CASE("children: one that throws, exits or is killed is told apart") {
  auto threw = run_one([]() -> std::string { throw std::runtime_error{"it broke"}; });
  CHECK(threw.how == child_end::died);
  CHECK(threw.errors.find("it broke") != std::string::npos);
  auto left = run_one([]() -> std::string { ::_exit(3); });
  CHECK(left.code == 3);
  CHECK(outcome_of(left).rule == "exit 3");
  auto killed = run_one([]() -> std::string {
    ::raise(SIGKILL);
    return {};
  });
  CHECK(outcome_of(killed).rule == "signal 9");
}

TEST_CASE("children: one that does not end is ended") {
  auto out = run_one(
    []() -> std::string {
      for (;;)
        ::pause();
    },
    {.wall = 100ms});
  CHECK(out.how == child_end::too_long);
  CHECK(outcome_of(out).rule == "wall_limit");
}

TEST_CASE("children: a pool that goes kills what still runs") {
  child_pool pool{2};
  for (std::uint64_t i = 0; i < 2; ++i)
    pool.start(i, []() -> std::string {
      for (;;)
        ::pause();
    });
  CHECK(pool.full());
}
