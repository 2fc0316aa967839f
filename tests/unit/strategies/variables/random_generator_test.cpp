// Random numbers over replicas. Goal: rows SYNC-RNG, CKP-7, V31, V32. Method: fixed seeds, so that
// every comparison is exact; distributions by wide bounds on their moments.

#include "../replicas/workers_support.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace {

using namespace replicas_test;

std::vector<float> draws(random_generator g, int n) {
  std::vector<float> out;
  for (int i = 0; i < n; ++i)
    out.push_back(g.uniform({}).item<float>());
  return out;
}

/// n draws on each replica.
std::vector<std::vector<float>> replica_draws(const strategy& s, random_generator g, int n) {
  return s.run([&](replica_context&) { return draws(g, n); }).local_results();
}

random_generator made_in(const strategy& s, std::uint64_t seed) {
  return s.scope([&] { return random_generator{seed}; });
}

bool all_different(const std::vector<std::vector<float>>& xs) {
  std::set<float> seen;
  std::size_t count = 0;
  for (const auto& each : xs) {
    seen.insert(each.begin(), each.end());
    count += each.size();
  }
  return seen.size() == count;
}

TEST_CASE("SYNC-RNG-1 SYNC-V31 other numbers on every replica and at every call") {
  for (const auto& s : {strategy{mirrored_over(4)}, strategy{mirrored_over(1)},
                        strategy{central_storage_strategy{shared_runtime(), cpus(3)}}}) {
    auto g = made_in(s, 7);
    auto first = replica_draws(s, g, 2), second = replica_draws(s, g, 2);
    first.insert(first.end(), second.begin(), second.end());
    first.push_back(draws(g, 4)); // cross-replica context has a stream of its own
    CHECK(all_different(first));
    CHECK(replica_draws(s, made_in(s, 7), 2)[0] == first[0]); // a seed is a sequence
    CHECK(replica_draws(s, made_in(s, 8), 2)[0] != first[0]);
  }
}

TEST_CASE("SYNC-V31 without a seed") {
  auto s = mirrored_over(2);
  auto fresh = [&] { return s.scope([&] { return random_generator{shared_runtime().env()}; }); };
  auto a = fresh(), b = fresh();
  CHECK(a.seed() != b.seed());
  auto xs = replica_draws(s, a, 2), ys = replica_draws(s, b, 2);
  xs.insert(xs.end(), ys.begin(), ys.end());
  CHECK(all_different(xs));
}

TEST_CASE("SYNC-RNG-1 cross-replica draws move all counters alike") {
  auto s = mirrored_over(3);
  auto g = made_in(s, 1), h = made_in(s, 1);
  (void)g.uniform({5});
  const auto saved = g.saved_value();
  REQUIRE(saved.shape() == shape_t{5});
  CHECK(saved.as<std::int64_t>()[0] == 1);
  for (std::size_t i = 1; i < 5; ++i)
    CHECK(saved.as<std::int64_t>()[i] == 8); // whole blocks of four
  h.skip(5);
  CHECK(h.saved_value() == saved);
  CHECK(replica_draws(s, g, 2) == replica_draws(s, h, 2));
}

/// Replica `who` of all draws alone.
void draw_on(const strategy& s, random_generator g, std::int64_t who) {
  s.run([g, who](replica_context& ctx) mutable {
    if (id_of(ctx) == who)
      (void)g.uniform({7});
  });
}

TEST_CASE("SYNC-RNG-1 what cross-replica context draws does not depend on the replicas' draws") {
  auto s = mirrored_over(2);
  auto g = made_in(s, 5), h = made_in(s, 5), later = made_in(s, 6);
  draw_on(s, g, 0);
  CHECK(draws(g, 3) == draws(h, 3));
  draw_on(s, g, 1);
  later.restore_value(g.saved_value());
  const auto next = draws(h, 3);
  CHECK(draws(g, 3) == next);
  CHECK(draws(later, 3) == next);
  CHECK(replica_draws(s, later, 2) == replica_draws(s, g, 2));
}

TEST_CASE(
  "SYNC-RNG-1 workers draw the same in cross-replica context, whatever their replicas drew") {
  std::vector<std::vector<float>> seen(2), again(2);
  on_workers(
    2,
    [&](std::uint32_t worker, runtime& rt) {
      const auto s = strategy_over(rt, 2);
      auto g = made_in(s, 5), later = made_in(s, 6);
      draw_on(s, g, 2); // of the second worker
      seen[worker] = draws(g, 3);
      draw_on(s, g, 1);
      later.restore_value(g.saved_value());
      for (const float each : draws(g, 3))
        seen[worker].push_back(each);
      again[worker] = draws(later, 3);
    },
    2);
  CHECK(seen[0] == seen[1]);
  CHECK(again[0] == again[1]);
  CHECK(again[0] == std::vector<float>(seen[0].begin() + 3, seen[0].end()));
}

TEST_CASE("SYNC-V32 a state goes from a generator made outside to replicas, and back") {
  auto s = mirrored_over(2);
  random_generator outside{5}, back{1};
  (void)draws(outside, 3);
  auto g = made_in(s, 9);
  g.restore_value(outside.saved_value());
  const auto expected = draws(outside, 2);
  CHECK(draws(g, 2) == expected);
  draw_on(s, g, 0);
  back.restore_value(g.saved_value());
  CHECK(draws(back, 2) == draws(g, 2));
}

TEST_CASE("SYNC-RNG-2 a generator made outside is one, from which all draw") {
  auto s = mirrored_over(4);
  random_generator g{3}, h{3};
  auto xs = replica_draws(s, g, 3);
  CHECK(all_different(xs));
  std::vector<float> drawn, wanted = draws(h, 12);
  for (const auto& each : xs)
    drawn.insert(drawn.end(), each.begin(), each.end());
  std::sort(drawn.begin(), drawn.end());
  std::sort(wanted.begin(), wanted.end());
  CHECK(drawn == wanted); // the same twelve numbers, whoever got which
  s.scope([&] { CHECK(draws(g, 1) == draws(h, 1)); });
}

TEST_CASE("SYNC-RNG-3 generators that were split") {
  auto s = mirrored_over(3);
  random_generator g{3};
  per_replica<random_generator> each{g.split(3)};
  auto draw = [](random_generator mine) { return draws(mine, 3); };
  auto xs = s.run(draw, each).local_results();
  CHECK(all_different(xs));
  random_generator again{3};
  auto same = again.split(3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(draws(same[i], 3) == xs[i]);
  auto next = again.split(1);
  xs.push_back(draws(next[0], 3));
  xs.push_back(draws(again, 3));
  CHECK(all_different(xs));
}

TEST_CASE("SYNC-V32 SYNC-CKP-7 a state goes over to another number of replicas") {
  for (auto [n1, n2] :
       {std::pair{2u, 4u}, std::pair{4u, 2u}, std::pair{1u, 3u}, std::pair{3u, 1u}}) {
    auto a = mirrored_over(n1), b = mirrored_over(n2);
    auto g = made_in(a, 11), h = made_in(b, 99);
    (void)replica_draws(a, g, 3);
    a.run([&](replica_context& ctx) {
      if (id_of(ctx) == 0)
        (void)g.uniform({7}); // counters need not be alike
    });
    h.restore_value(g.saved_value());
    CHECK(h.seed() == 11);
    for (int round = 0; round < 2; ++round) {
      auto xs = replica_draws(a, g, 2), ys = replica_draws(b, h, 2);
      for (std::size_t i = 0; i < std::min(n1, n2); ++i)
        CHECK(xs[i] == ys[i]);
      CHECK(all_different(ys));
    }
  }
}

TEST_CASE("SYNC-RNG-4 what is not a whole state is refused") {
  auto s = mirrored_over(2);
  auto g = made_in(s, 11);
  const auto whole = g.saved_value();
  names(failure_of([&] { g.restore_value(whole.rows(0, 2)); }), errc::invalid_argument,
        {"restore_value", "[2]"});
  names(failure_of([&] {
          g.restore_value(tensor::vector<std::int64_t>({1, 0, -4}));
        }),
        errc::invalid_argument, {"counter is -4"});
  names(failure_of([&] {
          g.restore_value(tensor::vector<std::int64_t>({1, 3, 0}));
        }),
        errc::invalid_argument, {"counter is 3"});
  names(failure_of([&] {
          g.restore_value(tensor::vector<float>({1, 0, 4}));
        }),
        errc::invalid_argument, {"f32"});
  CHECK(g.saved_value() == whole);
  names(failure_of([&] { s.run([&] { (void)g.saved_value(); }); }), errc::wrong_state,
        {"saved_value", "merge_call"});
}

TEST_CASE("SYNC-CTX-18 a generator of one strategy under another is refused, naming both") {
  auto a = mirrored_over(2), b = mirrored_over(3);
  auto g = made_in(a, 1);
  names(failure_of([&] { b.run([&] { (void)g.uniform({}); }); }), errc::wrong_state,
        {"mixed", "mirrored_strategy(cpu:0, cpu:1)", "mirrored_strategy(cpu:0, cpu:1, cpu:2)"});
}

TEST_CASE("random_generator: the distributions have their bounds and moments") {
  random_generator g{5};
  auto moments = [](const tensor& x) {
    double sum = 0, squares = 0;
    for (const auto each : x.as<float>()) {
      sum += each;
      squares += double{each} * each;
    }
    const auto n = static_cast<double>(x.size());
    return std::pair{sum / n, squares / n - sum / n * sum / n};
  };
  const auto u = g.uniform({20000}, -1, 3);
  CHECK(std::all_of(u.as<float>().begin(), u.as<float>().end(),
                    [](float x) { return x >= -1 && x < 3; }));
  CHECK(std::abs(moments(u).first - 1) < 0.05);
  CHECK(std::abs(moments(u).second - 16.0 / 12) < 0.05);
  const auto n = g.normal({20000}, 2, 3);
  CHECK(std::abs(moments(n).first - 2) < 0.1);
  CHECK(std::abs(moments(n).second - 9) < 0.5);
  const auto t = g.truncated_normal({20000}, 1, 0.5);
  CHECK(std::all_of(t.as<float>().begin(), t.as<float>().end(),
                    [](float x) { return x >= 0 && x <= 2; }));
  const auto w = g.uniform({3}, 0, 1, dtype::f64);
  CHECK(w.as<double>()[0] != w.as<double>()[1]);
  CHECK(g.normal({2, 3}, 0, 1, dtype::f64).shape() == shape_t{2, 3});
  const auto k = g.uniform_int({6000}, -2, 4, dtype::i32);
  std::array<int, 6> counts{};
  for (const auto each : k.as<std::int32_t>())
    ++counts.at(static_cast<std::size_t>(each + 2));
  for (const int each : counts)
    CHECK(std::abs(each - 1000) < 150);
  constexpr auto low = std::numeric_limits<std::int64_t>::min();
  constexpr auto high = std::numeric_limits<std::int64_t>::max();
  CHECK(g.uniform_int({1}, high - 1, high).at<std::int64_t>(0) == high - 1);
  const auto wide = g.uniform_int({100}, low, high);
  CHECK(std::count_if(wide.as<std::int64_t>().begin(), wide.as<std::int64_t>().end(),
                      [](std::int64_t x) { return x < 0; })
        > 20);
  CHECK(g.uniform({0}).size() == 0);
}

TEST_CASE("random_generator: what cannot be drawn is refused, naming field and value") {
  random_generator g{5};
  names(failure_of([&] { (void)g.uniform({2}, 1, 1); }), errc::invalid_argument, {"range is [1"});
  names(failure_of([&] { (void)g.uniform({2}, 0, 1, dtype::i32); }), errc::invalid_argument,
        {"type is i32"});
  names(failure_of([&] { (void)g.uniform({-2}); }), errc::invalid_argument, {"shape is [-2]"});
  names(failure_of([&] { (void)g.uniform_int({2}, 3, 3); }), errc::invalid_argument, {"[3, 3)"});
  names(failure_of([&] { (void)g.uniform_int({2}, 0, std::int64_t{1} << 40, dtype::i32); }),
        errc::invalid_argument, {"does not fit i32"});
  names(failure_of([&] { (void)g.normal({2}, 0, -1); }), errc::invalid_argument, {"stddev is -1"});
  names(failure_of([&] { g.skip(~std::uint64_t{0}); }), errc::invalid_argument, {"skip"});
  CHECK(g.saved_value().at<std::int64_t>(1) == 0); // nothing was taken
}

} // namespace
