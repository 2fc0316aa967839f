#include <troupe/sim/tools/ddmin.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <random>

using namespace troupe::sim;

namespace {

std::vector<int> first_numbers(int n) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

bool has_all(const std::vector<int>& some, const std::vector<int>& needed) {
  return std::includes(some.begin(), some.end(), needed.begin(), needed.end());
}

} // namespace

TEST_CASE("ddmin: finds exactly the needed ones, in order") {
  std::mt19937 draw{7};
  for (int round = 0; round < 200; ++round) {
    auto n = 1 + static_cast<int>(draw() % 40);
    std::vector<int> needed;
    for (int i = 0; i < n; ++i)
      if (draw() % 6 == 0)
        needed.push_back(i);
    auto out =
      ddmin(first_numbers(n), [&](const std::vector<int>& some) { return has_all(some, needed); });
    CHECK(out == needed);
  }
}

TEST_CASE("ddmin: nothing needed costs one call, one of many costs few") {
  int calls = 0;
  CHECK(ddmin(first_numbers(1'000), [&](const auto&) { return ++calls > 0; }).empty());
  CHECK(calls == 1);
  calls = 0;
  CHECK(ddmin(first_numbers(1'024),
              [&](const std::vector<int>& some) {
                ++calls;
                return has_all(some, {777});
              })
        == std::vector{777});
  CHECK(calls <= 22);
}

TEST_CASE("ddmin: a rule that is not monotone ends at a part of which nothing can be left out") {
  // fails with an odd number of items that holds 0
  auto fails = [](const std::vector<int>& some) {
    return has_all(some, {0}) && some.size() % 2 == 1;
  };
  auto out = ddmin(first_numbers(31), fails);
  CHECK(fails(out));
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto less = out;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK_FALSE(fails(less));
  }
}

TEST_CASE("ddmin: when the budget ends, the smallest so far is kept") {
  int left = 6;
  auto out = ddmin(first_numbers(64), [&](const std::vector<int>& some) {
    return left-- > 0 && has_all(some, {3, 60});
  });
  CHECK(has_all(out, {3, 60}));
}
