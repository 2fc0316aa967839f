// Goal: every element type and size, exact results, aliasing, and the integer corners that trap in
// plain C++.
#include <troupe/kernels/elementwise.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace k = troupe::kernels;

namespace {

constexpr std::size_t sizes[] = {0, 1, 7, 8, 9, 63, 64, 65, 1000};

template <class T>
std::vector<T> numbers(std::size_t n, int salt) {
  std::vector<T> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] =
      static_cast<T>(static_cast<int>((i * 7919 + static_cast<std::size_t>(salt)) % 201) - 100);
  return out;
}

template <class T, class Kernel, class Reference>
void check_binary(Kernel kernel, Reference reference) {
  for (std::size_t n : sizes) {
    CAPTURE(n);
    const auto a = numbers<T>(n, 3);
    const auto b = numbers<T>(n, 77);
    std::vector<T> want(n);
    for (std::size_t i = 0; i < n; ++i)
      want[i] = reference(a[i], b[i]);
    std::vector<T> out(n, T(42));
    kernel(a, b, std::span<T>(out));
    CHECK(out == want);
    auto onto_a = a;
    kernel(onto_a, b, std::span<T>(onto_a));
    CHECK(onto_a == want);
    auto onto_b = b;
    kernel(a, onto_b, std::span<T>(onto_b));
    CHECK(onto_b == want);
  }
}

template <class T>
void check_type() {
  using in = const std::vector<T>&;
  check_binary<T>([](in a, in b, std::span<T> o) { k::add(a, b, o); },
                  [](T a, T b) { return T(a + b); });
  check_binary<T>([](in a, in b, std::span<T> o) { k::sub(a, b, o); },
                  [](T a, T b) { return T(a - b); });
  check_binary<T>([](in a, in b, std::span<T> o) { k::mul(a, b, o); },
                  [](T a, T b) { return T(a * b); });
  check_binary<T>([](in a, in b, std::span<T> o) { k::min(a, b, o); },
                  [](T a, T b) { return a < b ? a : b; });
  check_binary<T>([](in a, in b, std::span<T> o) { k::max(a, b, o); },
                  [](T a, T b) { return a < b ? b : a; });
  for (std::size_t n : sizes) {
    CAPTURE(n);
    const auto x = numbers<T>(n, 5);
    auto y = numbers<T>(n, 9);
    auto want = y;
    for (std::size_t i = 0; i < n; ++i)
      want[i] = static_cast<T>(want[i] + T(3) * x[i]);
    k::axpy(T(3), x, std::span<T>(y));
    CHECK(y == want);
    k::scale(T(-2), x, std::span<T>(y));
    for (std::size_t i = 0; i < n; ++i)
      want[i] = static_cast<T>(T(-2) * x[i]);
    CHECK(y == want);
    k::fill(T(6), std::span<T>(y));
    CHECK(y == std::vector<T>(n, T(6)));
    CHECK_FALSE(k::any_zero(std::span<const T>(y)));
    if (n > 0) {
      y[n - 1] = T(0);
      CHECK(k::any_zero(std::span<const T>(y)));
    }
  }
}

} // namespace

TEST_CASE("elementwise: every operation equals the scalar one, in place and out of place") {
  check_type<float>();
  check_type<double>();
  check_type<std::int32_t>();
  check_type<std::int64_t>();
}

TEST_CASE("elementwise: float division is IEEE") {
  check_binary<float>(
    [](const std::vector<float>& a, std::vector<float> b, std::span<float> o) {
      for (float& x : b)
        x += 0.5f; // never zero
      k::div(a, b, o);
    },
    [](float a, float b) { return a / (b + 0.5f); });
  std::vector<float> a{1, -1, 0, 1}, b{0, 0, 0, 3}, out(4);
  k::div<float>(a, b, out);
  CHECK(out[0] == std::numeric_limits<float>::infinity());
  CHECK(out[1] == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(out[2]));
  CHECK(out[3] == 1.0f / 3.0f);
}

TEST_CASE("elementwise: integer division truncates, by zero gives zero, lowest by -1 wraps") {
  constexpr auto lowest32 = std::numeric_limits<std::int32_t>::lowest();
  std::vector<std::int32_t> a{7, -7, 5, lowest32, lowest32}, b{2, 2, 0, -1, 1}, out(5);
  k::div<std::int32_t>(a, b, out);
  CHECK(out == std::vector<std::int32_t>{3, -3, 0, lowest32, lowest32});
  constexpr auto lowest64 = std::numeric_limits<std::int64_t>::lowest();
  std::vector<std::int64_t> c{7, -7, 5, lowest64}, d{-2, -2, 0, -1}, out64(4);
  k::div<std::int64_t>(c, d, out64);
  CHECK(out64 == std::vector<std::int64_t>{-3, 3, 0, lowest64});
}

TEST_CASE("elementwise: integer overflow wraps") {
  constexpr auto highest = std::numeric_limits<std::int32_t>::max();
  constexpr auto lowest = std::numeric_limits<std::int32_t>::lowest();
  std::vector<std::int32_t> a{highest, lowest, highest}, b{1, 1, 2}, out(3);
  k::add<std::int32_t>(a, b, out);
  CHECK(out == std::vector<std::int32_t>{lowest, lowest + 1, lowest + 1});
  k::sub<std::int32_t>(a, b, out);
  CHECK(out == std::vector<std::int32_t>{highest - 1, highest, highest - 2});
  k::mul<std::int32_t>(a, b, out);
  CHECK(out == std::vector<std::int32_t>{highest, lowest, -2});
}

TEST_CASE("elementwise: a NaN on either side of min and max comes through at every position") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t at = 0; at < 20; ++at) {
    std::vector<float> a(20, 1.0f), b(20, 2.0f), out(20);
    a[at] = nan;
    k::min<float>(a, b, out);
    CHECK(std::isnan(out[at]));
    k::max<float>(b, a, out);
    CHECK(std::isnan(out[at]));
    CHECK(out[(at + 1) % 20] == 2.0f);
  }
}

TEST_CASE("elementwise: min and max give b of equal zeros and a of two NaNs, at every width") {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  const float first = std::bit_cast<float>(0x7fc00001u), second = std::bit_cast<float>(0x7fc00002u);
  for (std::size_t n = 1; n <= 40; ++n) {
    CAPTURE(n);
    std::vector<float> plus(n, 0.0f), minus(n, -0.0f), a(n, first), b(n, second), out(n);
    std::size_t wrong = 0;
    const auto expect_all = [&](float want) {
      for (float x : out)
        wrong += bits(x) == bits(want) ? 0 : 1;
    };
    for (auto call : {k::min<float>, k::max<float>}) {
      call(plus, minus, out);
      expect_all(-0.0f);
      call(minus, plus, out);
      expect_all(0.0f);
      call(a, b, out);
      expect_all(first);
      call(plus, b, out);
      expect_all(second);
      call(a, plus, out);
      expect_all(first);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("elementwise: sizes that differ are refused by name and nothing is written") {
  std::vector<float> a(3, 1.0f), b(4, 1.0f), out(4, 9.0f);
  try {
    k::add<float>(a, b, out);
    FAIL("no exception");
  } catch (const std::invalid_argument& e) {
    CHECK(std::string(e.what()) == "kernels::add: a.size() is 3, expected 4");
  }
  CHECK(out == std::vector<float>(4, 9.0f));
  CHECK_THROWS_AS(k::axpy<float>(1.0f, a, out), std::invalid_argument);
  CHECK_THROWS_AS(k::scale<float>(1.0f, a, out), std::invalid_argument);
}
