// Goal: narrowing is the nearest value with ties to even, widening is exact, on every 16-bit
// pattern. Method: the reference knows a pattern's value from its fields by ldexp, and finds the
// nearest by comparing distances in double, where all of them are exact.
#include <troupe/kernels/casts.hpp>

#include <troupe/kernels/detail/denormals.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

namespace k = troupe::kernels;

namespace {

/// Value of a positive finite pattern with `mantissa` bits of fraction and exponent bias `bias`.
double value_of(std::uint32_t bits, int mantissa, int bias) {
  const int exponent = static_cast<int>(bits >> mantissa);
  const double fraction = double(bits & ((1u << mantissa) - 1u));
  return exponent == 0 ? std::ldexp(fraction, 1 - bias - mantissa)
                       : std::ldexp(fraction + double(1u << mantissa), exponent - bias - mantissa);
}

struct format {
  int mantissa;
  int bias;
  std::uint32_t infinity; // bits
  std::uint16_t (*narrow)(float);
  float (*widen)(std::uint16_t);
  void (*narrow_all)(std::span<const float>, std::span<std::uint16_t>);
  void (*widen_all)(std::span<const std::uint16_t>, std::span<float>);
};

const format formats[] = {
  {7, 127, 0x7f80, k::bf16_from_f32, k::f32_from_bf16, k::cast_f32_to_bf16, k::cast_bf16_to_f32},
  {10, 15, 0x7c00, k::f16_from_f32, k::f32_from_f16, k::cast_f32_to_f16, k::cast_f16_to_f32},
};

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

} // namespace

TEST_CASE("casts: widening gives the value of the fields, for all 65536 patterns") {
  for (const format& f : formats) {
    std::size_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const std::uint32_t magnitude = bits & 0x7fffu;
      const float got = f.widen(static_cast<std::uint16_t>(bits));
      const bool negative = (bits & 0x8000u) != 0;
      bool good = std::signbit(got) == negative;
      if (magnitude > f.infinity)
        good = good && std::isnan(got);
      else if (magnitude == f.infinity)
        good = good && std::isinf(got);
      else
        good = good && double(std::fabs(got)) == value_of(magnitude, f.mantissa, f.bias);
      wrong += good ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("casts: narrowing what was widened gives the pattern back, NaN made quiet") {
  for (const format& f : formats) {
    std::size_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto pattern = static_cast<std::uint16_t>(bits);
      const bool nan = (bits & 0x7fffu) > f.infinity;
      const auto want = static_cast<std::uint16_t>(nan ? bits | (1u << (f.mantissa - 1)) : bits);
      wrong += f.narrow(f.widen(pattern)) == want ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE(
  "casts: around every pattern and every midpoint, narrowing picks the nearest, ties to even") {
  for (const format& f : formats) {
    std::size_t wrong = 0;
    for (std::uint32_t low = 0; low < f.infinity; ++low) {
      const double below = value_of(low, f.mantissa, f.bias);
      const double above =
        value_of(low + 1, f.mantissa, f.bias); // past the largest: where infinity would stand
      const double middle_exact = (below + above) / 2;
      const float middle = static_cast<float>(middle_exact);
      REQUIRE(double(middle) == middle_exact);
      const std::uint32_t even = low % 2 == 0 ? low : low + 1;
      const float inf = std::numeric_limits<float>::infinity();
      for (int sign : {0, 1}) {
        auto narrow = [&](float x) { return f.narrow(sign ? -x : x) & 0x7fffu; };
        wrong += narrow(middle) == even ? 0 : 1;
        wrong += narrow(std::nextafter(middle, 0.0f)) == low ? 0 : 1;
        wrong += narrow(std::nextafter(middle, inf)) == low + 1 ? 0 : 1;
        wrong += (f.narrow(sign ? -middle : middle) >> 15) == sign ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("casts: specials") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const format& f : formats) {
    CHECK(f.narrow(inf) == f.infinity);
    CHECK(f.narrow(-inf) == (f.infinity | 0x8000u));
    CHECK(f.narrow(std::numeric_limits<float>::max()) == f.infinity);
    CHECK(f.narrow(-0.0f) == 0x8000u);
    CHECK(f.narrow(std::numeric_limits<float>::denorm_min()) == 0);
    for (std::uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
      const std::uint16_t bits = f.narrow(std::bit_cast<float>(nan));
      CHECK((bits & 0x7fffu) > f.infinity);
      CHECK(std::isnan(f.widen(bits)));
    }
  }
  CHECK(k::f16_from_f32(65504.0f) == 0x7bff);
  CHECK(k::f16_from_f32(65519.0f) == 0x7bff);
  CHECK(k::f16_from_f32(65520.0f) == 0x7c00);
}

TEST_CASE("casts: arrays equal the scalar functions bit for bit at every length") {
  for (const format& f : formats) {
    std::vector<float> floats;
    for (std::uint32_t i = 0; i < 40000; ++i)
      floats.push_back(
        std::bit_cast<float>(i * 2654435761u)); // normals, denormals, NaN with payloads
    for (std::size_t n : {0u, 1u, 7u, 8u, 9u, 63u, 64u, 65u, 1000u, 40000u}) {
      CAPTURE(n);
      std::vector<std::uint16_t> narrowed(n);
      f.narrow_all(std::span(floats).first(n), narrowed);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i)
        wrong += narrowed[i] == f.narrow(floats[i]) ? 0 : 1;
      CHECK(wrong == 0);
    }
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::uint16_t>(i);
    std::vector<float> widened(all.size());
    f.widen_all(all, widened);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      wrong += bits_of(widened[i]) == bits_of(f.widen(all[i])) ? 0 : 1;
    CHECK(wrong == 0);
    std::vector<float> three(3);
    CHECK_THROWS_AS(f.widen_all(all, three), std::invalid_argument);
    CHECK_THROWS_AS(f.narrow_all(three, all), std::invalid_argument);
  }
}

TEST_CASE("casts: denormal numbers keep their bits, on threads that take them as zero too") {
  std::vector<float> floats(1000, 1.5f);
  for (std::uint32_t i = 0; i < 100; ++i) // alone in their step, and side by side
    floats[i * i % 1000] = std::bit_cast<float>((i % 2 << 31) | (i * 83885u + 1u));
  for (const format& f : formats) {
    std::vector<std::uint16_t> want, got(floats.size()), guarded(floats.size());
    for (float x : floats)
      want.push_back(f.narrow(x));
    f.narrow_all(floats, got);
    CHECK(got == want);
    if (f.mantissa == 10) // its instruction is defined by that mode
      continue;
    {
      const k::detail::denormals_as_zero guard;
      f.narrow_all(floats, guarded);
    }
    CHECK(guarded == want);
    CHECK(std::count(want.begin(), want.end(), 0) + std::count(want.begin(), want.end(), 0x8000)
          < 10);
  }
}
