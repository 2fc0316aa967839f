// Goal: the shrinker finds what a failure needs. Method: runs are made up; a rule of the test's own
// says which of them fail.
#include <troupe/sim/tools/shrink.hpp>

#include <doctest/doctest.h>

#include <algorithm>

#include <troupe/sim/schedule.hpp>
#include <troupe/sim/tools/pick_text.hpp>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

fault crash_at(duration at, node_name who, duration length = 0s) {
  return {.at = at, .what = {.kind = action_kind::crash, .target = who, .length = length}};
}

run_spec big_run() {
  run_spec out;
  out.scenario = "made_up";
  out.shape = {.workers = 6, .servers = 3, .closures = 500};
  out.order = order_kind::random;
  out.conditions.segment_bytes = 64;
  out.plan.steps = {.throws = 10, .hangs = 20, .kills = 30, .slows = 40};
  out.plan.core = {.at = 20s, .members = {chief, worker{5}, server{2}}};
  for (std::uint32_t i = 0; i < 12; ++i)
    out.plan.faults.push_back(crash_at(1s + i * 1s, worker{i % 6}, 4s));
  for (std::uint32_t i = 0; i < 12; ++i)
    out.plan.faults.push_back({.at = 13s + i * 1s, .what = {.kind = action_kind::reset}});
  return out;
}

seed_outcome broken(std::string rule, std::string picks = {}) {
  seed_outcome out;
  out.rule = std::move(rule);
  out.picks = std::move(picks);
  return out;
}

bool crashes(const run_spec& s, node_name who) {
  return std::any_of(s.plan.faults.begin(), s.plan.faults.end(), [&](const fault& f) {
    return f.what.kind == action_kind::crash && f.what.target == who;
  });
}

} // namespace

TEST_CASE("shrink: what is not needed goes, what is needed stays") {
  shrinker small{"INV-X1",
                 [](const run_spec& s) {
                   bool fails =
                     crashes(s, worker{1}) && s.shape.closures >= 37 && s.plan.steps.kills > 0;
                   return broken(fails ? "INV-X1" : "");
                 },
                 {.shape_min = {.workers = 2, .servers = 1, .closures = 1}}};
  auto out = small.shrink(big_run());
  CHECK(out.order == order_kind::fifo);
  CHECK(out.plan.steps == step_trouble{.throws = 0, .hangs = 0, .kills = 30, .slows = 0});
  CHECK(out.plan.core == core_plan{});
  CHECK(out.conditions == run_conditions{});
  REQUIRE(out.plan.faults.size() == 1);
  CHECK(out.plan.faults[0].what.target == worker{1});
  CHECK(out.plan.faults[0].at < 3ms);
  CHECK(out.plan.faults[0].what.length < 3ms);
  CHECK(out.plan.faults[0].what.length > 0s); // 0 would mean: for ever
  CHECK(out.shape == cluster_shape{.workers = 2, .servers = 1, .closures = 37});
  CHECK(small.runs() < 150);
}

TEST_CASE("shrink: another rule that breaks on the way is not taken for the same") {
  shrinker small{"INV-X1",
                 [](const run_spec& s) {
                   if (s.plan.faults.size() < 3)
                     return broken("INV-B2");
                   return broken("INV-X1");
                 },
                 {}};
  CHECK(small.shrink(big_run()).plan.faults.size() == 3);
}

TEST_CASE("shrink: plans that the guard forbids are not even run") {
  bool ran_forbidden = false;
  auto paired = [](const run_spec& s) { return crashes(s, worker{0}) == crashes(s, worker{1}); };
  shrinker small{"INV-X1",
                 [&](const run_spec& s) {
                   ran_forbidden |= !paired(s);
                   return broken(crashes(s, worker{0}) ? "INV-X1" : "");
                 },
                 {.allowed = paired}};
  auto out = small.shrink(big_run());
  CHECK_FALSE(ran_forbidden);
  CHECK(paired(out));
}

TEST_CASE("shrink: faults of machines that are gone go with them") {
  shrinker small{"INV-X1",
                 [](const run_spec& s) {
                   for (const auto& f : s.plan.faults)
                     if (f.what.target.task.job == job_kind::worker)
                       REQUIRE(f.what.target.task.index < s.shape.workers);
                   return broken(s.plan.faults.size() >= 4 ? "INV-X1" : "");
                 },
                 {}};
  auto out = small.shrink(big_run());
  CHECK(out.plan.faults.size() == 4);
  CHECK(out.shape.workers == 1);
}

TEST_CASE("shrink: of the picks only those stay that matter") {
  // fails when picks 100 and 900 are 3: with the random order they are
  std::vector<std::uint32_t> drawn(1'000, 1);
  drawn[100] = drawn[900] = 3;
  auto picked = [](const run_spec& s, std::size_t i) {
    return i < s.picks.size() ? s.picks[i] : fifo_pick;
  };
  shrinker small{
    "INV-X1",
    [&](const run_spec& s) {
      bool fails = s.order == order_kind::random
                   || (s.order == order_kind::replay && picked(s, 100) == 3 && picked(s, 900) == 3);
      return broken(fails ? "INV-X1" : "", picks_to_text(drawn));
    },
    {}};
  auto out = small.shrink(big_run());
  CHECK(out.order == order_kind::replay);
  REQUIRE(out.picks.size() == 901);
  CHECK(std::count(out.picks.begin(), out.picks.end(), fifo_pick) == 899);
  CHECK(picks_to_text(out.picks) == "f*100 3 f*799 3");
}

TEST_CASE("shrink: when no pick matters the run is FIFO") {
  shrinker small{"INV-X1",
                 [](const run_spec& s) {
                   bool fails = s.order != order_kind::fifo || s.shape.workers == 1;
                   return broken(fails ? "INV-X1" : "", "1*30");
                 },
                 {}};
  auto out = small.shrink(big_run());
  CHECK(out.order == order_kind::fifo);
  CHECK(out.picks.empty());
}

TEST_CASE("shrink: the budget is kept") {
  std::uint32_t runs = 0;
  shrinker small{"INV-X1",
                 [&](const run_spec& s) {
                   ++runs;
                   return broken(s.plan.faults.size() % 2 == 0 ? "INV-X1" : "");
                 },
                 {.runs_max = 25}};
  small.shrink(big_run());
  CHECK(runs <= 25);
  CHECK(small.runs() == runs);
}
