// Goal: --stats adds up what the tracer was told, by name.
#include "stats.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tool;

TEST_CASE("stats: messages are added up by actor, events and marks are counted") {
  stats_tracer stats;
  tracer_pair both{&stats, nullptr};
  const std::uint64_t five = 5;
  const std::vector<troupe::trace_field> worker{{"actor", "troupe.worker"}, {"messages", five}};
  const std::vector<troupe::trace_field> chief{{"actor", "troupe.coordinator"}, {"messages", five}};
  both.event("actor.ended", worker);
  both.event("actor.ended", worker);
  both.event("actor.ended", chief);
  both.event("coordinator.worker_lost", {});
  both.mark("client.all_acked");
  both.mark("client.all_acked");
  CHECK(stats.lines("chief")
        == std::vector<std::string>{
          "stats chief: actor troupe.coordinator messages 5",
          "stats chief: actor troupe.worker messages 10", "stats chief: event actor.ended 3",
          "stats chief: event coordinator.worker_lost 1", "stats chief: mark client.all_acked 2"});
}

TEST_CASE("stats: each server has a line") {
  troupe::coordinator_statistics s;
  s.servers.push_back(
    {.server = 1, .bytes = 9, .pushes_applied = 4, .duplicates = 3, .refused = 2});
  CHECK(server_lines(s)
        == std::vector<std::string>{"stats ps:1: pushes 4 duplicates 3 refused 2 bytes 9"});
}
