#include <troupe/sim/tools/pick_text.hpp>

#include <doctest/doctest.h>

#include <troupe/sim/schedule.hpp>

using namespace troupe;
using namespace troupe::sim;

TEST_CASE("picks: runs become short words, and come back") {
  const std::vector<std::uint32_t> picks{fifo_pick, fifo_pick, fifo_pick, 3, 0, 0, fifo_pick};
  CHECK(picks_to_text(picks) == "f*3 3 0*2 f");
  CHECK(picks_from_text(picks_to_text(picks)).value_or_throw() == picks);
  CHECK(picks_to_text({}).empty());
  CHECK(picks_from_text("").value_or_throw().empty());
}

TEST_CASE("picks: a word that is none is named") {
  for (const char* bad : {"x", "3*", "*3", "-1", "3*x", "4294967295", "1*999999999999", "f3"}) {
    auto out = picks_from_text(bad);
    REQUIRE_FALSE(out);
    CHECK(out.error().code == errc::corrupt);
    CHECK(out.error().text.find(bad) != std::string::npos);
  }
}
