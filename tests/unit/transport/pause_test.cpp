#include <doctest/doctest.h>

#include <troupe/transport/detail/pause.hpp>

TEST_CASE("pause: members that outnumber the cores yield sooner, and all look at least once") {
  using troupe::detail::tries_per_look;
  CHECK(tries_per_look(1'000'000) < tries_per_look(1));
  CHECK(tries_per_look(1'000'000) > 0);
}
