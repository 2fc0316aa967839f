// Goal: a training that does not get further says so, with the reason, and one that does is left in
// peace. Method: made-up times.
#include "standstill.hpp"

#include <doctest/doctest.h>

namespace {

using tool::standstill;

troupe::task_id worker(std::uint32_t index) {
  return {.job = troupe::job_kind::worker, .index = index};
}

} // namespace

TEST_CASE(
  "standstill: a storm of kills without a save is told every 15 s, with who ended and how soon") {
  standstill watch{1'000, "it saves every 100 steps"};
  for (std::int64_t at = 1'700; at < 16'000; at += 700) {
    watch.ended(worker(at / 700 % 2), 1'400);
    CHECK_FALSE(watch.due(at));
  }
  const auto told = watch.due(16'100);
  REQUIRE(told);
  CHECK(*told
        == "no progress for 15 s: it saves every 100 steps; since the last one processes exited "
           "before the next: worker:0 11 times, worker:1 10 times, after 1.4 s on average");
  CHECK_FALSE(watch.due(30'000));
  CHECK(watch.due(31'200));
}

TEST_CASE("standstill: processes that are stopped are told as such") {
  standstill watch{0, "it saves at the end"};
  for (int i = 0; i < 5; ++i)
    watch.stopped(worker(1));
  const auto told = watch.due(20'000);
  REQUIRE(told);
  CHECK(told->find("worker:1 5 times (a step needs all workers)") != std::string::npos);
}

TEST_CASE("standstill: what is saved, and quiet times, are no reason to say anything") {
  standstill calm{0, ""};
  CHECK_FALSE(calm.due(1'000'000)); // nobody was hit
  calm.ended(worker(0), 5'000);
  calm.ended(worker(1), 5'000);
  CHECK_FALSE(calm.due(2'000'000)); // no storm
  calm.ended(worker(1), 5'000);
  calm.progressed(2'000'000);
  CHECK_FALSE(calm.due(2'010'000));
  CHECK_FALSE(calm.due(2'100'000)); // hits before the save do not count
}
