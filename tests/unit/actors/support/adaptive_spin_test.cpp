// Whether to wait awake. Goal: a slow look rules out looks for a while, longer each time in a row.
// Method: plain numbers; no clock and no thread takes part.

#include <troupe/actors/support/adaptive_spin.hpp>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr time_point start{1h};

TEST_CASE("adaptive_spin: quick looks rule out nothing") {
  adaptive_spin w;
  CHECK(w.may_look(start));
  CHECK(w.looked(start, 0us));
  CHECK(w.looked(start, adaptive_spin::slow_look - 1ns));
  CHECK(w.may_look(start));
}

TEST_CASE("adaptive_spin: slow looks rule out others for twice as long each time, and no longer") {
  adaptive_spin w;
  auto now = start;
  for (duration pause : {2ms, 4ms, 8ms, 16ms, 32ms, 64ms, 128ms, 128ms}) {
    REQUIRE(w.may_look(now));
    CHECK_FALSE(w.looked(now, adaptive_spin::slow_look));
    CHECK_FALSE(w.may_look(after(now, pause - 1ns)));
    now = after(now, pause);
    CHECK(w.may_look(now));
  }
}

TEST_CASE(
  "adaptive_spin: a wait that went well makes the next slow look a matter of chance again") {
  adaptive_spin w;
  for (int i = 0; i < 5; ++i)
    (void)w.looked(start, 5ms);
  const auto later = after(start, 1s);
  w.went_well();
  CHECK_FALSE(w.looked(later, 5ms));
  CHECK_FALSE(w.may_look(after(later, adaptive_spin::shortest - 1ns)));
  CHECK(w.may_look(after(later, adaptive_spin::shortest)));
}

} // namespace
