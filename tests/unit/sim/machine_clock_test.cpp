#include <doctest/doctest.h>

#include <troupe/sim/detail/machine.hpp>

using namespace troupe;
using namespace std::chrono_literals;
using troupe::sim::machine_clock;

TEST_CASE("machine clock: local time and back, with and without drift") {
  const time_point start{1h};
  machine_clock c{start, time_point{8h}};
  CHECK(c.local(start + 5s) == time_point{8h} + 5s);
  CHECK(c.world_at(time_point{8h} + 5s) == start + 5s);
  CHECK(c.world_at(never) == never);
  for (std::int64_t ppm : {-90'000, -50, 0, 3, 40'000}) {
    machine_clock d{start, time_point{8h}};
    d.set_drift(start + 1s, ppm);
    auto before = d.local(start + 1s);
    CHECK(before == time_point{8h} + 1s);
    for (duration x : {duration{1}, duration{999}, duration{1ms}, duration{17s}, duration{3h}}) {
      auto at = d.world_at(before + x);
      CHECK(d.local(at) >= before + x);
      CHECK(d.local(at - duration{1}) < before + x);
    }
    CHECK((d.local(start + 1001s) - before - 1000s).count() == ppm * 1'000'000);
  }
}
