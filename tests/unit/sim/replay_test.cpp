// Goal: a world built by hand says what broke, with which seed, and one command that runs it again.
// Method: programs tell the trace what a broken cluster would.

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <troupe/sim/doctest.hpp>
#include <troupe/sim/scenario.hpp>
#include <troupe/sim/scenario_run.hpp>
#include <troupe/sim/twice.hpp>
#include <troupe/sim/world.hpp>

#include "../../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

/// Sets a variable for as long as it lives.
class variable_set {
public:
  variable_set(const char* name, const char* value) : name_{name} {
    if (const char* before = std::getenv(name))
      before_ = before;
    ::setenv(name, value, 1);
  }
  ~variable_set() {
    if (before_.empty())
      ::unsetenv(name_);
    else
      ::setenv(name_, before_.c_str(), 1);
  }

private:
  const char* name_;
  std::string before_{};
};

/// Closure 1 runs on worker 0.
void dispatches(process& p) {
  trace(p.env(), "queue.accepted", {{"term", 1}, {"closure", 1}, {"priority", 0}, {"queued", 0}});
  trace(p.env(), "queue.dispatched", {{"term", 1}, {"closure", 1}, {"attempt", 1}, {"worker", 0}});
}

/// One operation of it is applied twice.
void doubles_an_effect(process& p) {
  dispatches(p);
  for (int version : {1, 2})
    trace(p.env(), "server.applied",
          {{"term", 1},
           {"closure", 1},
           {"op", 0},
           {"attempt", 1},
           {"variable", 7},
           {"shard", 0},
           {"bytes", 8},
           {"job", job_kind::worker},
           {"task", 0},
           {"incarnation", 1},
           {"version", version}});
}

report run_with(program main, world_options options = {}) {
  world w{std::move(options)};
  w.coordinator(std::move(main));
  return w.run();
}

} // namespace

TEST_CASE("replay: TROUPE_SIM_SEED takes the place of a world's seed, and must be one") {
  {
    variable_set seed{"TROUPE_SIM_SEED", "18446744073709551615"};
    CHECK(seed_or(3) == 18446744073709551615u);
    CHECK(seeds(50) == std::vector<std::uint64_t>{18446744073709551615u});
    CHECK(world{3}.seed() == 18446744073709551615u);
    world_options own;
    own.from_environment = false;
    own.seed = 3;
    CHECK(world{std::move(own)}.seed() == 3);
  }
  for (const char* bad : {"-1", "18446744073709551616", "7x", " 7", "seven"}) {
    variable_set seed{"TROUPE_SIM_SEED", bad};
    CHECK_THROWS_WITH_AS(world{3}, doctest::Contains(bad), troupe::error);
  }
  variable_set none{"TROUPE_SIM_SEED", ""};
  CHECK(world{3}.seed() == 3);
  CHECK(seeds(3, 5) == std::vector<std::uint64_t>{5, 6, 7});
}

TEST_CASE("replay: a report has the seed and a command, with this program and test in it") {
  variable_set none{"TROUPE_SIM_SEED", ""};
  world_options options;
  options.seed = 42;
  auto out = run_with([](process&) {}, std::move(options));
  CHECK(out.ok());
  CHECK(says(out.text(), ", seed 42"));
  CHECK(says(out.text(), "\n  replay: TROUPE_SIM_SEED=42 TROUPE_SIM_TRACE=1 "));
  CHECK(says(out.text(),
             "unit_sim --test-case='replay: a report has the seed and a command? with "
             "this program and test in it'"));
  world_options named;
  named.seed = 42;
  named.replay_arguments = "--gtest_filter=my.step";
  CHECK(
    says(run_with([](process&) {}, std::move(named)).text(), "unit_sim --gtest_filter=my.step"));
}

TEST_CASE("INV-P2 a world built by hand is held to the invariants, unless it says otherwise") {
  auto out = run_with(doubles_an_effect);
  CHECK(out.how == outcome::violated);
  REQUIRE_FALSE(out.violations.empty());
  CHECK(out.violations[0].rule == "INV-P2");
  CHECK(says(out.text(), "INV-P2"));
  world_options none;
  none.checks = world_checks::none;
  CHECK(run_with(doubles_an_effect, std::move(none)).ok());
}

TEST_CASE("INV-B2 what is left open when a world built by hand ends is told") {
  auto out = run_with([](process& p) { trace(p.env(), "queue.join_begun", {{"term", 1}}); });
  CHECK_FALSE(out.ok());
  REQUIRE(out.violations.size() == 1);
  CHECK(out.violations[0].rule == "INV-B2");
}

TEST_CASE("INV-X4 beyond the promises errors of the cluster's ways may reach the program") {
  auto fails = [](process& p) {
    dispatches(p);
    trace(p.env(), "queue.ended",
          {{"term", 1},
           {"closure", 1},
           {"attempt", 1},
           {"status", 2},
           {"tagged", 0},
           {"code", errc::unavailable},
           {"why", "ps:0 is gone"}});
  };
  auto out = run_with(fails);
  REQUIRE_FALSE(out.violations.empty());
  CHECK(out.violations[0].rule == "INV-X4");
  world_options beyond;
  beyond.checks = world_checks::beyond;
  CHECK(run_with(fails, std::move(beyond)).ok());
}

TEST_CASE(
  "a program that throws, and a coordinator's that says a code, break a world built by hand") {
  auto threw = run_with([](process&) { throw_failure(errc::unavailable, "on purpose"); });
  CHECK(threw.how == outcome::ended);
  REQUIRE(threw.violations.size() == 1);
  CHECK(threw.violations[0].rule == "program");
  CHECK(says(threw.text(), "on purpose"));
  auto of_worker = [](world_checks checks) {
    world_options options;
    options.checks = checks;
    world w{std::move(options)};
    w.node(worker{0}, [](process&) { throw_failure(errc::unavailable, "on purpose"); });
    return w.run();
  };
  CHECK(says(of_worker(world_checks::all).text(), "worker0's program threw"));
  CHECK(of_worker(world_checks::beyond).ok());
  auto coded = run_with([](process& p) { p.set_exit_code(3); });
  REQUIRE(coded.violations.size() == 1);
  CHECK(says(coded.violations[0].text, "ended with 3"));
  auto crashed = [] {
    world w{1};
    w.coordinator([](process& p) { p.env().threads.spend(1s); });
    w.at(10ms).crash(chief); // by the test's own will
    return w.run();
  }();
  CHECK(crashed.ok());
}

TEST_CASE(
  "why_failed: of a scenario of somebody's own, with a command of the program that has it") {
  const scenario mine{.name = "my_scenario", .fault_free = true, .build = [](scenario_run& run) {
                        run.cluster().coordinator([&run](process&) {
                          run.expect(run.spec().seed != 7, "my-rule", "seven");
                        });
                      }};
  variable_set none{"TROUPE_SIM_SEED", ""};
  CHECK(why_failed(mine, 8).empty());
  auto why = why_failed(mine, 7);
  CHECK(says(why, "my-rule"));
  CHECK(says(why, "my_scenario seed 7"));
  CHECK(says(why, "\nreplay: TROUPE_SIM_SEED=7 TROUPE_SIM_TRACE=1 "));
  CHECK(says(why, "unit_sim --test-case='why_failed"));
  CHECK_FALSE(says(why, "troupe-sim"));
  variable_set seven{"TROUPE_SIM_SEED", "7"};
  CHECK(why_failed(mine, 8) == why);
}

TEST_CASE("INV-D1 a run that depends on what was before it differs, and the event is named") {
  static int runs = 0;
  const scenario flawed{.name = "flawed", .fault_free = true, .build = [](scenario_run& run) {
                          run.cluster().coordinator([n = ++runs](process& p) {
                            trace(p.env(), "test.same", {});
                            trace(p.env(), "test.count", {{"n", n % 2}, {"real", 0.5 + n % 2}});
                          });
                        }};
  auto spec = draw_spec(flawed, 1);
  compared_run two{flawed, spec};
  CHECK(two.first().ok());
  auto parted = two.again();
  CHECK(says(parted, "test.count of chief/1"));
  auto out = run_twice(flawed, spec);
  CHECK(out.rule() == "INV-D1");
  CHECK(says(out.text(), "test.count"));
}
