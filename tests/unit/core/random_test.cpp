#include <troupe/core/random.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace troupe;

TEST_CASE("prng: a seed means this sequence, on every machine") {
  // Positions, checkpoints and simulator seeds depend on these numbers; they must never change.
  CHECK(mix_bits(0) == 0xe220a8397b1dcdafu); // SplitMix64's first output for seed 0
  prng a{42};
  prng b{42};
  prng c{43};
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    auto x = a.next();
    CHECK(x == b.next());
    differs = differs || x != c.next();
  }
  CHECK(differs);
  CHECK(prng{0}.next() == 0x99ec5f36cb75f2b4u); // xoshiro256** seeded by SplitMix64 from 0
}

TEST_CASE("random: next_word is SplitMix64: one state, one sequence") {
  // The published first outputs for seed 0: choices of faults and of cut messages follow them.
  std::uint64_t state = 0;
  CHECK(next_word(state) == 0xe220a8397b1dcdafu);
  CHECK(next_word(state) == 0x6e789e6aa1b965f4u);
  CHECK(next_word(state) == 0x06c45d188009454fu);
  CHECK(state == 3 * 0x9e3779b97f4a7c15u); // and nothing else is kept
}

TEST_CASE("prng: below(n) stays below n and is uniform") {
  prng random{5};
  for (std::uint64_t n :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{10}, (std::uint64_t{1} << 63) + 1})
    for (int i = 0; i < 1000; ++i)
      REQUIRE(random.below(n) < n);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70000; ++i)
    ++counts[random.below(7)];
  double chi_squared = 0;
  for (auto n : counts)
    chi_squared += (n - 10000.0) * (n - 10000.0) / 10000.0;
  CHECK(chi_squared < 22.5); // 6 degrees of freedom, p = 0.001
}

TEST_CASE("prng: below(n) has no bias where n is close to 2^64") {
  // Without rejection two of four words would fall on each third value, so half of all draws.
  prng random{9};
  auto n = std::uint64_t{3} << 62;
  int thirds = 0;
  for (int i = 0; i < 30000; ++i)
    thirds += random.below(n) % 3 == 0 ? 1 : 0;
  CHECK(thirds > 9700);
  CHECK(thirds < 10300);
}

TEST_CASE("prng: uniform() stays in [0, 1) with mean one half") {
  prng random{1};
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    auto x = random.uniform();
    REQUIRE(x >= 0.0);
    REQUIRE(x < 1.0);
    sum += x;
  }
  CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("derive_seed: streams below one seed differ from each other and from other seeds'") {
  CHECK(derive_seed(1, 0) != derive_seed(1, 1));
  CHECK(derive_seed(1, 0) != derive_seed(2, 0));
  CHECK(derive_seed(0, 1) != derive_seed(1, 0));
}
