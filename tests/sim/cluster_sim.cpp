// Whole clusters under faults, each seed twice: the production boot code, actors and lanes.

#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <string>

#include <scenario.hpp>

using namespace troupe::sim;

namespace {

report run(const std::string& name, std::uint64_t seed) {
  const auto* found = find_scenario(name);
  REQUIRE(found);
  world w{seed};
  return found->body(w);
}

/// Every seed ends well and twice alike; different seeds differ.
void check_seeds(const std::string& name, std::uint64_t seeds) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    auto first = run(name, seed);
    auto second = run(name, seed);
    INFO("replay: build/troupe-sim run " << name << " --seed " << seed << " --trace");
    INFO(first.text());
    CHECK(first.ok());
    CHECK(first.hash == second.hash);
    CHECK(first.events == second.events);
    hashes.insert(first.hash);
  }
  CHECK(hashes.size() == seeds);
}

} // namespace

TEST_CASE("INV-X1 a cluster without faults runs every closure once") {
  check_seeds("closures", 20);
}

TEST_CASE("INV-X1 a crash with restart, a partition and a pause lose and double nothing") {
  check_seeds("crash_and_partition", 50);
}

TEST_CASE("INV-X1 a storm of worker faults loses and doubles nothing") {
  check_seeds("worker_storm", 50);
}

TEST_CASE("protocol 1.4: a restarted coordinator takes a higher term and its workers obey it") {
  check_seeds("coordinator_restart", 20);
}

TEST_CASE("INV-X1 without ledgers the same storm doubles effects, and the witness sees it") {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    world w{seed};
    w.settings().effect_once = false;
    auto out = find_scenario("worker_storm")->body(w);
    for (const auto& v : out.violations)
      found += v.rule == "INV-X1" && v.text.find("0 effects lost") == 0 ? 1 : 0;
  }
  CHECK(found > 0);
  MESSAGE(found << " of 30 seeds");
}
