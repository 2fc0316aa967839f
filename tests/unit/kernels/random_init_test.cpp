// Goal: the generator is Philox as published; a variable's values don't depend on how it is cut;
// the distributions have the right moments and bounds.
#include <troupe/kernels/random_init.hpp>

#include <troupe/kernels/detail/portable_math.hpp>
#include <troupe/kernels/hash.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace k = troupe::kernels;
using kind = k::initializer_kind;

namespace {

constexpr kind random_kinds[] = {kind::uniform, kind::normal, kind::truncated_normal,
                                 kind::glorot_uniform, kind::he_normal};

k::initializer_spec of(kind which, double a = 0, double b = 1, std::uint64_t seed = 7) {
  k::initializer_spec spec;
  spec.kind = which;
  spec.a = a;
  spec.b = b;
  spec.seed = seed;
  return spec;
}

template <class T = float>
std::vector<T> whole(const k::initializer_spec& spec, k::row_shape shape, const char* name = "w") {
  std::vector<T> out(shape.rows * shape.cols);
  k::fill_rows<T>(spec, name, shape, 0, out);
  return out;
}

struct moments {
  double mean = 0, deviation = 0, skew = 0, lowest = 0, highest = 0;
};

moments of_sample(const std::vector<float>& x) {
  moments m;
  m.lowest = m.highest = double(x[0]);
  for (float v : x) {
    m.mean += double(v) / double(x.size());
    m.lowest = std::min(m.lowest, double(v));
    m.highest = std::max(m.highest, double(v));
  }
  for (float v : x) {
    const double d = double(v) - m.mean;
    m.deviation += d * d / double(x.size());
    m.skew += d * d * d / double(x.size());
  }
  m.deviation = std::sqrt(m.deviation);
  return m;
}

} // namespace

TEST_CASE("random init: Philox4x32-10 gives the published answers") {
  using words = std::array<std::uint32_t, 4>;
  CHECK(k::philox4x32_10({0, 0, 0, 0}, {0, 0})
        == words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  const std::uint32_t f = 0xffffffffu;
  CHECK(k::philox4x32_10({f, f, f, f}, {f, f})
        == words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(k::philox4x32_10({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
                         {0xa4093822u, 0x299f31d0u})
        == words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("random init: the portable functions agree with the C library") {
  double worst_log = 0, worst_trig = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double u = (double(i * 214748u % 4294967296u) + 1.0) / 4294967296.0;
    worst_log = std::max(worst_log, std::fabs(k::detail::portable_log(u) - std::log(u))
                                      / std::max(1e-3, std::fabs(std::log(u))));
    const auto [sine, cosine] = k::detail::portable_sincos(u);
    worst_trig = std::max(worst_trig, std::fabs(sine - std::sin(u * 6.283185307179586)));
    worst_trig = std::max(worst_trig, std::fabs(cosine - std::cos(u * 6.283185307179586)));
  }
  CHECK(worst_log < 1e-14);
  CHECK(worst_trig < 2e-15);
  CHECK(k::detail::portable_log(1.0) == 0.0);
  CHECK(k::detail::portable_sincos(0.0).cosine == 1.0);
  CHECK(k::detail::portable_sincos(0.25).sine == 1.0);
  CHECK(k::detail::portable_sincos(1.0).cosine == 1.0);
}

TEST_CASE("random init: every split into shards gives the bits of the whole") {
  for (kind which : random_kinds)
    for (std::size_t cols : {1u, 2u, 3u, 4u, 5u, 17u}) {
      CAPTURE(int(which));
      CAPTURE(cols);
      const k::row_shape shape{37, cols};
      const auto spec = of(which, -0.5, 0.25);
      const auto want = whole(spec, shape);
      for (std::size_t shards = 1; shards <= 37; ++shards) {
        std::vector<float> got(want.size(), 99.0f);
        for (std::size_t s = 0; s < shards; ++s) {
          const std::size_t from = s * 37 / shards, to = (s + 1) * 37 / shards;
          k::fill_rows<float>(spec, "w", shape, from,
                              std::span(got).subspan(from * cols, (to - from) * cols));
        }
        REQUIRE(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)) == 0);
      }
    }
}

TEST_CASE(
  "PS-H11 random init: identity 4x4 in two shards is rows 0-1 and rows 2-3 of the identity") {
  std::vector<float> upper(8), lower(8);
  k::fill_rows<float>(of(kind::identity), "w", {4, 4}, 0, upper);
  k::fill_rows<float>(of(kind::identity), "w", {4, 4}, 2, lower);
  CHECK(upper == std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0});
  CHECK(lower == std::vector<float>{0, 0, 1, 0, 0, 0, 0, 1});
  CHECK(whole<std::int32_t>(of(kind::identity), {3, 2})
        == std::vector<std::int32_t>{1, 0, 0, 1, 0, 0});
  CHECK(whole<double>(of(kind::identity), {2, 3}) == std::vector<double>{1, 0, 0, 0, 1, 0});
}

TEST_CASE("random init: the fixed kinds fill every type") {
  CHECK(whole<float>(of(kind::zeros), {2, 2}) == std::vector<float>(4, 0.0f));
  CHECK(whole<double>(of(kind::ones), {2, 2}) == std::vector<double>(4, 1.0));
  CHECK(whole<std::int32_t>(of(kind::constant, -5), {2, 2}) == std::vector<std::int32_t>(4, -5));
  CHECK(whole<std::int64_t>(of(kind::constant, 1e15), {2, 2})
        == std::vector<std::int64_t>(4, 1'000'000'000'000'000));
}

TEST_CASE("random init: seed, name and element change the values") {
  std::set<std::vector<float>> seen;
  for (std::uint64_t seed : {0u, 1u, 2u})
    for (const char* name : {"w", "v", "w/part_0", ""})
      seen.insert(whole(of(kind::uniform, 0, 1, seed), {3, 3}, name));
  CHECK(seen.size() == 12);
  const auto many = whole(of(kind::uniform), {1000, 1});
  CHECK(std::set<float>(many.begin(), many.end()).size() > 990);
}

TEST_CASE("random init: elements past the first 2^34 use the counter's second word") {
  const std::size_t rows = std::size_t{1} << 40;
  std::vector<float> low(4), high(4);
  k::fill_rows<float>(of(kind::uniform), "w", {rows, 1}, 0, low);
  k::fill_rows<float>(of(kind::uniform), "w", {rows, 1}, std::size_t{1} << 34, high);
  CHECK(low != high);
}

TEST_CASE("random init: uniform has its mean, spread and half-open bounds") {
  const auto m = of_sample(whole(of(kind::uniform, -1, 3), {1000, 100}));
  CHECK(std::fabs(m.mean - 1.0) < 0.015); // 4 standard errors
  CHECK(m.deviation == doctest::Approx(4.0 / std::sqrt(12.0)).epsilon(0.01));
  CHECK(m.lowest >= -1.0);
  CHECK(m.lowest < -0.998);
  CHECK(m.highest < 3.0);
  CHECK(m.highest > 2.998);
  const float one_up =
    std::nextafter(1.0f, 2.0f); // an interval that holds one float: rounding must not leave it
  for (float x : whole(of(kind::uniform, 1.0, double(one_up)), {1000, 1}))
    CHECK(x == 1.0f);
}

TEST_CASE("random init: normal has its moments and tails") {
  const auto sample = whole(of(kind::normal, 2, 0.5), {1000, 100});
  const auto m = of_sample(sample);
  CHECK(std::fabs(m.mean - 2.0) < 0.0064);
  CHECK(m.deviation == doctest::Approx(0.5).epsilon(0.01));
  CHECK(std::fabs(m.skew) < 0.004);
  std::size_t within1 = 0, beyond3 = 0;
  for (float x : sample) {
    within1 += std::fabs(double(x) - 2.0) < 0.5 ? 1 : 0;
    beyond3 += std::fabs(double(x) - 2.0) > 1.5 ? 1 : 0;
  }
  CHECK(double(within1) / 1e5 == doctest::Approx(0.6827).epsilon(0.01));
  CHECK(double(beyond3) / 1e5 == doctest::Approx(0.0027).epsilon(0.25));
  double covariance = 0; // the two of a Box-Muller pair, and neighbours in general
  for (std::size_t i = 0; i + 1 < sample.size(); ++i)
    covariance += (double(sample[i]) - 2.0) * (double(sample[i + 1]) - 2.0) / 0.25 / 1e5;
  CHECK(std::fabs(covariance) < 0.013);
}

TEST_CASE("random init: truncated normal stays within two deviations") {
  const auto m = of_sample(whole(of(kind::truncated_normal, 1, 0.5), {1000, 100}));
  CHECK(std::fabs(m.mean - 1.0) < 0.006);
  CHECK(m.deviation == doctest::Approx(0.5 * 0.8796).epsilon(0.01));
  CHECK(m.lowest >= 0.0);
  CHECK(m.highest <= 2.0);
  CHECK(m.highest > 1.99);
}

TEST_CASE("random init: Glorot and He take their fans from the spec or from the shape") {
  const auto glorot = of_sample(whole(of(kind::glorot_uniform), {784, 128}));
  const double limit = std::sqrt(6.0 / (784 + 128));
  CHECK(glorot.highest <= limit);
  CHECK(glorot.highest > 0.999 * limit);
  CHECK(glorot.lowest >= -limit);
  CHECK(glorot.deviation == doctest::Approx(limit / std::sqrt(3.0)).epsilon(0.01));
  const auto he = of_sample(whole(of(kind::he_normal), {784, 128}));
  CHECK(he.deviation == doctest::Approx(std::sqrt(2.0 / 784)).epsilon(0.01));
  CHECK(std::fabs(he.mean) < 0.001);
  auto spec = of(kind::he_normal);
  spec.fan_in = 8;
  CHECK(of_sample(whole(spec, {784, 128})).deviation == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("random init: double holds the same values before rounding") {
  for (kind which : random_kinds) {
    const auto low = whole<float>(of(which), {20, 3});
    const auto high = whole<double>(of(which), {20, 3});
    for (std::size_t i = 0; i < low.size(); ++i)
      CHECK(low[i] == static_cast<float>(high[i]));
  }
}

TEST_CASE("random init: values are pinned to the bit, for every compiler and machine") {
  const std::uint64_t want[] = {0x94307e90dc49422a, 0x559ea1692bbdacd, 0x816d795b2b6ea26,
                                0xdfd12f3e88436f1d, 0x8118d8dd1f1605c5};
  for (std::size_t i = 0; i < 5; ++i) {
    const auto low = whole<float>(of(random_kinds[i], -0.5, 0.25, 42), {1000, 3}, "layer/kernel");
    const auto high = whole<double>(of(random_kinds[i], -0.5, 0.25, 42), {1000, 3}, "layer/kernel");
    k::hasher bits;
    bits.update(low.data(), low.size() * sizeof(float));
    bits.update(high.data(), high.size() * sizeof(double));
    CHECK(bits.digest() == want[i]);
  }
}

TEST_CASE("random init: a bad spec or range is refused by field and value") {
  const auto why = [](const k::initializer_spec& spec, bool integral = false) {
    return k::invalid_initializer(spec, integral).value_or("");
  };
  CHECK(why(of(kind::uniform, 1, 1))
        == "initializer_spec.b is 1.000000, expected more than a = 1.000000, both finite");
  CHECK(why(of(kind::normal, 0, -1)).find("b is -1") != std::string::npos);
  CHECK(why(of(kind::truncated_normal, std::nan(""), 1)).find("a is nan") != std::string::npos);
  CHECK(why(of(static_cast<kind>(9))).find("kind is 9") != std::string::npos);
  CHECK(why(of(kind::normal), true).find("kind is 5") != std::string::npos);
  CHECK(why(of(kind::normal)).empty());
  std::vector<float> out(6, 8.0f);
  const auto fill = [&](k::row_shape shape, std::size_t row_begin) {
    k::fill_rows<float>(of(kind::ones), "w", shape, row_begin, out);
  };
  CHECK_THROWS_AS(fill({4, 4}, 0), std::invalid_argument);
  CHECK_THROWS_AS(fill({4, 2}, 2), std::invalid_argument);
  CHECK_THROWS_AS(fill({4, 2}, std::numeric_limits<std::size_t>::max()), std::invalid_argument);
  CHECK_THROWS_AS(fill({4, 0}, 0), std::invalid_argument);
  CHECK(out == std::vector<float>(6, 8.0f));
  std::vector<std::int32_t> ints(4);
  CHECK_THROWS_AS(k::fill_rows<std::int32_t>(of(kind::uniform), "w", {2, 2}, 0, ints),
                  std::invalid_argument);
}
