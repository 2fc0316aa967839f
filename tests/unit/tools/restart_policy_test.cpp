#include <restart_policy.hpp>

#include <doctest/doctest.h>

using namespace tool;

TEST_CASE("restarts: the delay doubles up to five seconds and then ends") {
  CHECK(restart_delay_ms(1) == 100);
  CHECK(restart_delay_ms(2) == 200);
  CHECK(restart_delay_ms(6) == 3'200);
  CHECK(restart_delay_ms(10) == 5'000);
  CHECK_FALSE(restart_delay_ms(11).has_value());
}

TEST_CASE("restart policy: a process that was killed starts again at once, however often") {
  restart_policy policy;
  for (int i = 0; i < 50; ++i)
    CHECK(policy.failed(true, 10) == 0);
  CHECK(policy.deaths_in_row() == 0);
}

TEST_CASE("restart policy: one that ends soon by itself waits longer each time, then is given up") {
  restart_policy policy;
  for (const std::int64_t delay : {100, 200, 400, 800, 1'600, 3'200, 5'000, 5'000, 5'000, 5'000})
    CHECK(policy.failed(false, 4'999) == delay);
  CHECK_FALSE(policy.failed(false, 4'999).has_value());
  CHECK(policy.deaths_in_row() == 11);
}

TEST_CASE("restart policy: a long life and a kill end the row") {
  restart_policy policy;
  CHECK(policy.failed(false, 10) == 100);
  CHECK(policy.failed(false, 10) == 200);
  CHECK(policy.failed(false, 5'000) == 100);
  CHECK(policy.deaths_in_row() == 0);
  CHECK(policy.failed(false, 10) == 100);
  CHECK(policy.failed(false, 10) == 200);
  CHECK(policy.failed(true, 10) == 0);
  CHECK(policy.failed(false, 10) == 100);
}
