#include <troupe/actors/support/wait_log.hpp>

#include <chrono>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

} // namespace

TEST_CASE("wait_log: who waits in vain is told how often, how it ended and why, now and then") {
  const auto begun = after(time_point{}, 1s);
  wait_log log{begun, 5s};
  CHECK(log.text(after(begun, 20s)).empty());
  CHECK_FALSE(log.due(after(begun, 20s))); // nothing was tried
  for (int i = 0; i < 2; ++i)
    log.ended(make_failure(errc::peer_lost, "member 1 is gone"));
  CHECK_FALSE(log.due(after(begun, 4s)));
  log.ended(make_failure(errc::fenced, "epoch 3 is over"));
  CHECK(log.due(after(begun, 6s))
        == "3 attempts in 6 s failed (fenced once, peer_lost 2 "
           "times); last error: fenced: epoch 3 is over");
  CHECK_FALSE(log.due(after(begun, 10s))); // told at 6
  CHECK(log.due(after(begun, 11s)));
  CHECK(log.tries() == 3);
}
