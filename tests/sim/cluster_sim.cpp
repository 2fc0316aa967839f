// Whole clusters under faults, each seed twice: the production boot code, actors and threads.

#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <string>

#include "cluster_worlds.hpp"

using namespace troupe::sim;

namespace {

using world_run = report (*)(world&);

report run(world_run what, std::uint64_t seed) {
  world w{seed};
  return what(w);
}

/// Every seed ends well and twice alike; different seeds differ.
void check_seeds(world_run what, std::uint64_t seeds) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    auto first = run(what, seed);
    auto second = run(what, seed);
    INFO("seed " << seed);
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
  check_seeds(worlds::calm, 20);
}

TEST_CASE("INV-X1 a crash with restart, a partition and a pause lose and double nothing") {
  check_seeds(worlds::crash_and_partition, 50);
}

TEST_CASE("INV-X1 a storm of worker faults loses and doubles nothing") {
  check_seeds(worlds::worker_storm, 50);
}

TEST_CASE("protocol 1.4: a restarted coordinator takes a higher term and its workers obey it") {
  check_seeds(worlds::coordinator_restart, 20);
}

TEST_CASE("INV-X1 without ledgers the same storm doubles effects, and the audit sees it") {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    world_options options;
    options.seed = seed;
    options.checks = world_checks::none; // the audit alone
    world w{std::move(options)};
    w.settings().effect_once = false;
    auto out = worlds::worker_storm(w);
    for (const auto& v : out.violations)
      found += v.rule == "INV-X1" && v.text.find("0 effects lost") == 0 ? 1 : 0;
  }
  CHECK(found > 0);
  MESSAGE(found << " of 30 seeds");
}
