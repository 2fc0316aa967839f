#include <doctest/doctest.h>

#include <array>

#include <troupe/sim/draws.hpp>
#include <troupe/sim/run_hash.hpp>

using namespace troupe::sim;

TEST_CASE("draws: a value is a function of seed, stream and counter") {
  draw_stream a{7, "link"}, b{7, "link"}, other{7, "disk"}, seed{8, "link"};
  for (std::uint64_t i = 0; i < 100; ++i) {
    auto x = a.next();
    CHECK(x == b.value(i));
    CHECK(x != other.value(i));
    CHECK(x != seed.value(i));
  }
  CHECK(a.at(1).value(0) != a.at(2).value(0));
}

TEST_CASE("draws: below is in range and hits everything") {
  draw_stream d{1, "x"};
  std::array<int, 7> hits{};
  for (int i = 0; i < 7000; ++i)
    ++hits.at(d.below(7));
  for (int n : hits)
    CHECK((n > 800 && n < 1200));
  CHECK(d.below(0) == 0);
  int often = 0;
  for (int i = 0; i < 10'000; ++i)
    often += d.chance(250) ? 1 : 0;
  CHECK((often > 2300 && often < 2700));
}

TEST_CASE("run hash: order, lengths and bytes count") {
  auto of = [](std::initializer_list<std::string_view> parts) {
    run_hash h;
    for (auto p : parts)
      h.fold(p);
    return h.value();
  };
  CHECK(of({"a", "b"}) != of({"b", "a"}));
  CHECK(of({"ab", ""}) != of({"a", "b"}));
  CHECK(of({"12345678"}) != of({"12345679"}));
  CHECK(of({"123456789"}) != of({"123456780"}));
  CHECK(of({"a"}) != of({std::string_view{"a\0", 2}}));
  CHECK(of({"same"}) == of({"same"}));
}
