// Whether to wait awake. Goal: a slow look rules out looks for a while, longer each time in a row.
// Method: plain numbers; no clock and no lane takes part.

#include <troupe/actors/support/crowd_watch.hpp>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr time_point start{1h};

TEST_CASE("crowd: quick looks rule out nothing") {
  crowd_watch w;
  CHECK(w.may_look(start));
  CHECK(w.looked(start, 0us));
  CHECK(w.looked(start, crowd_watch::slow_look - 1ns));
  CHECK(w.may_look(start));
}

TEST_CASE("crowd: slow looks rule out others for twice as long each time, and no longer") {
  crowd_watch w;
  auto now = start;
  for (duration pause : {2ms, 4ms, 8ms, 16ms, 32ms, 64ms, 128ms, 128ms}) {
    REQUIRE(w.may_look(now));
    CHECK_FALSE(w.looked(now, crowd_watch::slow_look));
    CHECK_FALSE(w.may_look(after(now, pause - 1ns)));
    now = after(now, pause);
    CHECK(w.may_look(now));
  }
}

TEST_CASE("crowd: a wait that went well makes the next slow look a matter of chance again") {
  crowd_watch w;
  for (int i = 0; i < 5; ++i)
    (void)w.looked(start, 5ms);
  const auto later = after(start, 1s);
  w.went_well();
  CHECK_FALSE(w.looked(later, 5ms));
  CHECK_FALSE(w.may_look(after(later, crowd_watch::shortest - 1ns)));
  CHECK(w.may_look(after(later, crowd_watch::shortest)));
}

} // namespace
