// Goal: the detector is patient with what is regular, quick with what was quick, and never counts
// its own absence.
#include <doctest/doctest.h>

#include <cmath>

#include <troupe/actors/membership/phi_accrual.hpp>

#include "membership_support.hpp"

using namespace troupe;
using troupe::test::ms;

namespace {

constexpr time_point start{std::chrono::seconds{5}};

/// A detector that heard `n` heartbeats `interval` apart, and the time of the last one.
std::pair<phi_accrual, time_point> heard(int n, duration interval, phi_options options = {}) {
  phi_accrual x{options, start};
  time_point now = start;
  for (int i = 0; i < n; ++i) {
    now += interval;
    x.heartbeat(now);
  }
  return {x, now};
}

} // namespace

TEST_CASE("phi: half of the heartbeats come later than the mean, and phi grows with the silence") {
  auto [x, last] = heard(200, ms(400));
  CHECK(x.mean_ms() == doctest::Approx(400));
  CHECK(x.deviation_ms() == doctest::Approx(50)); // the floor
  CHECK(x.phi(last + ms(400)) == doctest::Approx(std::log10(2.0)));
  // One deviation above the mean: 15.87 % come later still.
  CHECK(x.phi(last + ms(450)) == doctest::Approx(-std::log10(0.158655)).epsilon(1e-4));
  double before = -1.0;
  for (int t = 0; t < 5000; t += 10) {
    const double now = x.phi(last + ms(t));
    CHECK(now >= before);
    before = now;
  }
  CHECK(std::isinf(x.phi(last + ms(100'000))));
}

TEST_CASE("phi: mean and deviation are those of the last 64 intervals") {
  phi_accrual x{{}, start};
  time_point now = start;
  x.heartbeat(now);
  for (int i = 0; i < 1000; ++i)
    x.heartbeat(now += ms(7 * (i % 13)));
  for (int i = 0; i < 64; ++i)
    x.heartbeat(now += ms(i % 2 == 0 ? 200 : 600));
  CHECK(x.mean_ms() == doctest::Approx(400));
  CHECK(x.deviation_ms() == doctest::Approx(200));
}

TEST_CASE("phi: nothing is suspected under the floor, whatever phi says") {
  auto [x, last] = heard(100, ms(10));
  CHECK(x.phi(last + ms(900)) > 8.0);
  CHECK(!x.suspicious(last + ms(999)));
  CHECK(x.suspicious(last + ms(1000)));
  CHECK(x.patience() == ms(1000));
}

TEST_CASE("phi: a slow or irregular sender is given more time, up to the ceiling") {
  auto slow = heard(100, ms(1500)).first;
  CHECK(slow.patience() > ms(1500));
  CHECK(slow.patience() < ms(2000));
  phi_accrual wild{{}, start};
  time_point now = start;
  for (int i = 0; i < 100; ++i)
    wild.heartbeat(now += ms(i % 2 == 0 ? 100 : 9000));
  CHECK(wild.patience() == ms(10'000));
  CHECK(!wild.suspicious(now + ms(9999)));
  CHECK(wild.suspicious(now + ms(10'000)));
}

TEST_CASE("phi: patience is where suspicion begins") {
  for (int interval : {5, 100, 700, 1200, 2500, 6000}) {
    auto [x, last] = heard(70, ms(interval));
    CHECK(x.suspicious(last + x.patience()));
    CHECK(!x.suspicious(last + x.patience() - ms(1)));
  }
}

TEST_CASE("phi: before the first heartbeat only the first deadline counts") {
  phi_accrual x{{}, start};
  CHECK(!x.suspicious(start + ms(5999)));
  CHECK(x.suspicious(start + ms(6000)));
}

TEST_CASE("phi: the judge's own delay moves the deadline and does not become an interval") {
  auto [x, last] = heard(100, ms(100));
  const double mean = x.mean_ms();
  x.note_delay(ms(30'000), last + ms(30'050));
  CHECK(!x.suspicious(last + ms(30'999)));
  CHECK(x.suspicious(last + ms(31'000)));
  x.heartbeat(last + ms(30'100));
  CHECK(x.mean_ms() == doctest::Approx(mean));
  x.note_delay(ms(50'000), last + ms(30'200)); // never into the future
  CHECK(x.silence(last + ms(30'200)) == ms(0));
  CHECK(x.silence(last + ms(30'500)) == ms(300));
}

TEST_CASE("phi: a clock that stands still or a heartbeat from before does no harm") {
  auto [x, last] = heard(10, ms(100));
  x.heartbeat(last);
  x.heartbeat(last - ms(50));
  CHECK(x.silence(last + ms(10)) == ms(10));
}
