#include <doctest/doctest.h>

#include <set>
#include <vector>

#include <troupe/sim/schedule.hpp>

using namespace troupe::sim;

namespace {

struct fixed_choices final : choices {
  explicit fixed_choices(std::vector<choice> c) : all{std::move(c)} {}
  std::size_t size() const override { return all.size(); }
  choice at(std::size_t i) const override { return all[i]; }
  std::size_t oldest() const override {
    std::size_t best = 0;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i].since < all[best].since)
        best = i;
    return best;
  }
  std::vector<choice> all;
};

fixed_choices three() {
  return fixed_choices{
    {{choice::actor, 0, 5, 30}, {choice::thread, 1, 2, 10}, {choice::timer, 2, 0, 20}}};
}

std::vector<std::size_t> picks_of(schedule& s, int n) {
  auto among = three();
  std::vector<std::size_t> out;
  for (int i = 0; i < n; ++i)
    out.push_back(s.pick(among));
  return out;
}

} // namespace

TEST_CASE("schedule: fifo takes what waits longest") {
  CHECK(picks_of(*make_fifo_schedule(), 2) == std::vector<std::size_t>{1, 1});
}

TEST_CASE("schedule: random picks follow from the seed and reach everything") {
  auto a = picks_of(*make_random_schedule(3), 50);
  CHECK(a == picks_of(*make_random_schedule(3), 50));
  CHECK(a != picks_of(*make_random_schedule(4), 50));
  CHECK(std::set<std::size_t>(a.begin(), a.end()).size() == 3);
}

TEST_CASE("schedule: pct keeps to one until a change, then that one comes last") {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    auto steady = picks_of(*make_pct_schedule(seed, 0, 100), 100);
    CHECK(std::set<std::size_t>(steady.begin(), steady.end()).size() == 1);
    auto changing = picks_of(*make_pct_schedule(seed, 2, 50), 100);
    CHECK(changing == picks_of(*make_pct_schedule(seed, 2, 50), 100));
    CHECK(std::set<std::size_t>(changing.begin(), changing.end()).size() == 3);
    CHECK(changing.back() != changing.front());
  }
}

TEST_CASE(
  "schedule: a replay gives the recorded picks, then fifo, and survives picks that don't fit") {
  CHECK(picks_of(*make_replay_schedule({2, 0, fifo_pick, 7}), 6)
        == std::vector<std::size_t>{2, 0, 1, 1, 1, 1});
}
