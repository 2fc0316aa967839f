// Goal: the documented order is the order, errors stay small, and special values behave.
#include <troupe/kernels/reduce.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace k = troupe::kernels;

namespace {

constexpr std::size_t sizes[] = {0,  1,    7,    8,    9,    31,   32,   33,   63,    64,
                                 65, 1000, 1023, 1024, 1025, 2048, 3072, 3073, 10000, 70001};

std::vector<float> wild_floats(std::size_t n) {
  std::vector<float> out(n);
  std::uint32_t state = 12345;
  for (float& x : out) {
    state = state * 1664525u + 1013904223u;
    const float mantissa = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
    x = std::ldexp(mantissa, static_cast<int>(state % 24u));
  }
  return out;
}

/// The order of reduce.hpp in words turned into the plainest code: recursion over aligned powers of
/// two of blocks.
float reference_block(const float* x, std::size_t n) {
  std::vector<float> lanes(32, 0.0f);
  for (std::size_t i = 0; i < n; ++i)
    lanes[i % 32] += x[i];
  for (std::size_t half : {16u, 8u, 4u, 2u, 1u})
    for (std::size_t j = 0; j < half; ++j)
      lanes[j] += lanes[j + half];
  return lanes[0];
}

float reference_tree(const std::vector<float>& blocks, std::size_t first, std::size_t count) {
  if (count == 1)
    return blocks[first];
  const std::size_t left = std::has_single_bit(count) ? count / 2 : std::bit_floor(count);
  return reference_tree(blocks, first, left) + reference_tree(blocks, first + left, count - left);
}

float reference_sum(const std::vector<float>& x) {
  std::vector<float> blocks;
  for (std::size_t at = 0; at < x.size(); at += 1024)
    blocks.push_back(reference_block(x.data() + at, std::min<std::size_t>(1024, x.size() - at)));
  return blocks.empty() ? 0.0f : reference_tree(blocks, 0, blocks.size());
}

} // namespace

TEST_CASE("reduce: sum adds in the documented order, bit for bit") {
  for (std::size_t n : sizes) {
    CAPTURE(n);
    const auto x = wild_floats(n);
    CHECK(std::bit_cast<std::uint32_t>(k::sum<float>(x))
          == std::bit_cast<std::uint32_t>(reference_sum(x)));
  }
}

TEST_CASE("reduce: a million equal floats sum without drift") {
  std::vector<float> x(1'000'000, 0.1f);
  CHECK(std::fabs(k::sum<float>(x) - 100000.0f) < 0.05f); // a plain loop is off by 958
  CHECK(k::mean<float>(x) == doctest::Approx(0.1).epsilon(1e-6));
}

TEST_CASE("reduce: integers sum exactly in 64 bits") {
  std::vector<std::int32_t> x(5000, std::numeric_limits<std::int32_t>::max());
  CHECK(k::sum<std::int32_t>(x) == 5000LL * std::numeric_limits<std::int32_t>::max());
  CHECK(k::mean<std::int32_t>(x) == double(std::numeric_limits<std::int32_t>::max()));
  std::vector<std::int64_t> y{std::numeric_limits<std::int64_t>::max(), 1};
  CHECK(k::sum<std::int64_t>(y) == std::numeric_limits<std::int64_t>::lowest());
}

TEST_CASE("reduce: nothing sums to zero, has no mean and the lowest maximum") {
  CHECK(k::sum<float>({}) == 0.0f);
  CHECK(std::isnan(k::mean<float>({})));
  CHECK(k::max_element<float>({}) == -std::numeric_limits<float>::infinity());
  CHECK(k::max_element<std::int32_t>({}) == std::numeric_limits<std::int32_t>::lowest());
  CHECK(k::l2_norm<double>({}) == 0.0);
}

TEST_CASE("reduce: max finds the largest at every position and a NaN anywhere") {
  for (std::size_t n : {1u, 7u, 32u, 33u, 100u})
    for (std::size_t at = 0; at < n; ++at) {
      std::vector<float> x(n, -5.0f);
      x[at] = -1.0f;
      CHECK(k::max_element<float>(x) == -1.0f);
      x[at] = std::numeric_limits<float>::quiet_NaN();
      CHECK(std::isnan(k::max_element<float>(x)));
      std::vector<std::int64_t> y(n, -5);
      y[at] = -1;
      CHECK(k::max_element<std::int64_t>(y) == -1);
    }
}

TEST_CASE("reduce: a largest zero is +0 and a NaN the quiet one, wherever they stand") {
  for (std::size_t n : {1u, 2u, 31u, 64u, 65u, 130u})
    for (std::size_t at = 0; at < n; ++at) {
      std::vector<float> x(n, -1.0f);
      x[at] = -0.0f;
      CHECK(std::bit_cast<std::uint32_t>(k::max_element<float>(x)) == 0u);
      x[(at + n / 2) % n] = 0.0f;
      CHECK(std::bit_cast<std::uint32_t>(k::max_element<float>(x)) == 0u);
      x[at] = std::bit_cast<float>(0xffc12345u);
      CHECK(std::bit_cast<std::uint32_t>(k::max_element<float>(x)) == 0x7fc00000u);
    }
  CHECK(!std::signbit(k::max_element<double>(std::vector<double>(70, -0.0))));
}

TEST_CASE("reduce: the norm survives squares outside double's range") {
  CHECK(k::l2_norm<float>(std::vector<float>{3.0f, 4.0f}) == 5.0);
  CHECK(k::l2_norm<float>(std::vector<float>{3e38f, 3e38f})
        == doctest::Approx(std::sqrt(2.0) * double(3e38f)).epsilon(1e-14));
  CHECK(k::l2_norm<double>(std::vector<double>{3e300, 4e300})
        == doctest::Approx(5e300).epsilon(1e-14));
  CHECK(k::l2_norm<double>(std::vector<double>{3e-300, 4e-300})
        == doctest::Approx(5e-300).epsilon(1e-14));
  CHECK(k::l2_norm<double>(std::vector<double>{0.0, 0.0}) == 0.0);
  CHECK(std::isinf(
    k::l2_norm<float>(std::vector<float>{1.0f, -std::numeric_limits<float>::infinity()})));
  CHECK(std::isnan(
    k::l2_norm<double>(std::vector<double>{1.0, std::numeric_limits<double>::quiet_NaN()})));
}

TEST_CASE(
  "reduce: the i64 mean of 2^62 and 2^62 was negative: integers are summed without a wrap") {
  const std::int64_t huge = std::int64_t{1} << 62;
  using limits = std::numeric_limits<std::int64_t>;
  for (std::size_t n : {2u, 33u, 1025u, 5000u}) {
    const std::vector<std::int64_t> x(n, huge), low(n, limits::min());
    CHECK(k::mean<std::int64_t>(x) == 0x1p62);
    CHECK(k::mean<std::int64_t>(low) == -0x1p63);
    const std::vector<std::int32_t> narrow(n, std::numeric_limits<std::int32_t>::max());
    CHECK(k::mean<std::int32_t>(narrow) == 2147483647.0);
  }
  const std::vector<std::int64_t> ends{limits::max(), limits::min()};
  CHECK(k::mean<std::int64_t>(ends) == -0.5);
}
