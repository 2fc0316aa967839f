#include <troupe/actors/coordinator/function_times.hpp>

#include <doctest/doctest.h>

namespace {
using namespace troupe;
constexpr function_index fn{1};
constexpr function_index other{2};
} // namespace

TEST_CASE("the median of a function's run times, each function for itself") {
  function_times times;
  CHECK(times.median_ns(fn) == 0);
  for (std::uint64_t ns : {30, 10, 20})
    times.add(fn, ns);
  times.add(other, 7);
  CHECK(times.median_ns(fn) == 20);
  CHECK(times.median_ns(other) == 7);
}

TEST_CASE("one slow run does not move the median; the last 32 runs do") {
  function_times times;
  for (int i = 0; i < 16; ++i)
    times.add(fn, 100);
  times.add(fn, 1'000'000);
  CHECK(times.median_ns(fn) == 100);
  for (std::size_t i = 0; i < function_times::window; ++i)
    times.add(fn, 500);
  CHECK(times.median_ns(fn) == 500);
}

TEST_CASE("credits ahead are four milliseconds of work, from 1 to 256") {
  CHECK(prefetch_credits(0) == 1); // never seen
  CHECK(prefetch_credits(1) == 256);
  CHECK(prefetch_credits(15'625) == 256);
  CHECK(prefetch_credits(20'000) == 200);
  CHECK(prefetch_credits(500'000) == 8);
  CHECK(prefetch_credits(3'000'000) == 1);
  CHECK(prefetch_credits(4'000'000) == 1);
  CHECK(prefetch_credits(60'000'000'000) == 1);
}
