// Plans are functions of their seed, and the guard keeps them inside the promises.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include <troupe/sim/fault_guard.hpp>
#include <troupe/sim/fault_plan.hpp>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

const cluster_shape shape{.workers = 4, .servers = 2, .closures = 100};

fault_profile profile_of(std::initializer_list<fault_kind> kinds) {
  fault_profile out;
  for (auto kind : kinds)
    out.rates.push_back({kind, 1000, 6});
  return out;
}

fault_profile all_kinds() {
  fault_profile out;
  for (std::uint32_t i = 0; i < fault_kinds; ++i)
    out.rates.push_back({static_cast<fault_kind>(i), 500, 4});
  return out;
}

bool is_sorted_by_time(const fault_plan& plan) {
  return std::ranges::is_sorted(plan.faults, {}, &fault::at);
}

} // namespace

TEST_CASE("fault plan: the same seed gives the same plan, another seed another") {
  auto profile = all_kinds();
  std::set<std::size_t> sizes;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto plan = draw_plan(seed, profile, shape);
    CHECK(plan == draw_plan(seed, profile, shape));
    CHECK(is_sorted_by_time(plan));
    CHECK_FALSE(plan == draw_plan(seed + 1000, profile, shape));
    sizes.insert(plan.faults.size());
  }
  CHECK(sizes.size() > 10);
}

TEST_CASE("fault plan: a kind more shifts no fault of the others") {
  auto few = profile_of({fault_kind::worker_crash, fault_kind::stall});
  auto more = profile_of({fault_kind::worker_crash, fault_kind::delay, fault_kind::stall});
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto a = draw_plan(seed, few, shape);
    auto b = draw_plan(seed, more, shape);
    std::erase_if(b.faults, [](const fault& f) { return f.what.kind == action_kind::delay; });
    for (const auto& f : a.faults)
      if (f.what.kind == action_kind::crash)
        CHECK(std::ranges::find(b.faults, f) != b.faults.end());
  }
}

TEST_CASE("fault plan: over many seeds every kind happens") {
  auto profile = all_kinds();
  profile.servers_may_crash = profile.chief_may_crash = true;
  std::map<action_kind, int> seen;
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    for (const auto& f : draw_plan(seed, profile, shape).faults)
      ++seen[f.what.kind];
  for (auto kind :
       {action_kind::crash, action_kind::restart, action_kind::pause, action_kind::slow,
        action_kind::partition, action_kind::partition_one_way, action_kind::isolate,
        action_kind::heal, action_kind::reset, action_kind::stall, action_kind::delay,
        action_kind::clock_offset, action_kind::clock_drift, action_kind::torn_write,
        action_kind::io_error, action_kind::no_space, action_kind::bit_flip, action_kind::slow_io})
    CHECK_MESSAGE(seen[kind] > 0, to_string(kind));
}

TEST_CASE("fault guard: every drawn plan passes it") {
  auto profile = all_kinds();
  fault_guard guard{profile, shape};
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    auto plan = draw_plan(seed, profile, shape);
    auto complaints = guard.complaints(plan);
    CHECK_MESSAGE(complaints.empty(), (complaints.empty() ? "" : complaints.front()));
    CHECK(guard.keep(plan) == plan);
  }
}

TEST_CASE("fault guard: what nobody promises to survive") {
  fault_profile profile;
  fault_guard guard{profile, shape};
  auto complaint = [&](action what) { return guard.complaint({1s, what}); };
  CHECK(complaint({.kind = action_kind::crash, .target = worker{0}}).empty());
  CHECK_FALSE(complaint({.kind = action_kind::crash, .target = worker{9}}).empty());
  CHECK_FALSE(complaint({.kind = action_kind::crash, .target = server{0}}).empty());
  CHECK_FALSE(complaint({.kind = action_kind::crash, .target = chief}).empty());
  CHECK_FALSE(complaint({.kind = action_kind::reset, .target = chief, .other = server{0}}).empty());
  CHECK(complaint({.kind = action_kind::reset, .target = worker{0}, .other = server{0}}).empty());
  CHECK(complaint({.kind = action_kind::pause, .target = worker{0}, .length = 1h}).empty());
  CHECK_FALSE(complaint({.kind = action_kind::pause, .target = server{0}, .length = 5s}).empty());
  CHECK(complaint({.kind = action_kind::pause, .target = server{0}, .length = 500ms}).empty());
  CHECK(complaint({.kind = action_kind::pause, .target = chief, .length = 5s}).empty());
  CHECK_FALSE(complaint({.kind = action_kind::isolate, .target = chief, .length = 5s}).empty());
  CHECK_FALSE(
    complaint({.kind = action_kind::partition, .target = chief, .other = server{1}}).empty());
  CHECK_FALSE(
    complaint({.kind = action_kind::clock_drift, .target = chief, .amount = 900}).empty());
  CHECK_FALSE(complaint({.kind = action_kind::torn_write, .target = worker{0}}).empty());
}

TEST_CASE("fault guard: shortens what is too long, drops what must not be") {
  fault_profile profile;
  fault_guard guard{profile, shape};
  fault_plan plan;
  plan.faults = {{2s, {.kind = action_kind::pause, .target = server{0}, .length = 9s}},
                 {1s, {.kind = action_kind::crash, .target = server{0}}}};
  auto kept = guard.keep(plan);
  REQUIRE(kept.faults.size() == 1);
  CHECK(kept.faults[0].what.length == fault_guard::silence_forgiven);
}

TEST_CASE("fault guard: a core has the coordinator, all servers and a worker") {
  fault_profile profile;
  fault_guard guard{profile, shape};
  fault_plan plan;
  plan.core = {.at = 5s, .members = {server{0}}};
  CHECK(guard.complaints(plan).size() == 3);
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    CHECK(guard.complaints(draw_plan(seed, profile, shape)).empty());
}
