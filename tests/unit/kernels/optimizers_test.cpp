// Goal: the rules are the published formulas, step for step and bit for bit, whatever the memory
// layout. Method: a scalar reference in the same element type (rounded after every operation) must
// match exactly; the same reference in double shows that the float result stays near the true one
// over many steps.
#include <troupe/kernels/optimizers.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

namespace k = troupe::kernels;

namespace {

constexpr std::size_t sizes[] = {0, 1, 7, 8, 9, 63, 64, 65, 1000};

/// Stops the compiler from fusing a product into a sum.
template <class T>
T rounded(T x) {
  volatile T y = x;
  return y;
}

template <class T>
struct state {
  std::vector<T> p, a, b; // parameter, first slot, second slot

  explicit state(std::size_t n, T slot = T(0)) : p(n), a(n, slot), b(n, slot) {
    for (std::size_t i = 0; i < n; ++i)
      p[i] = static_cast<T>(static_cast<int>(i % 19) - 9) / T(8);
  }

  friend bool same_bits(const state& x, const state& y) {
    const std::size_t bytes = x.p.size() * sizeof(T);
    return x.p.size() == y.p.size()
           && (bytes == 0
               || (std::memcmp(x.p.data(), y.p.data(), bytes) == 0
                   && std::memcmp(x.a.data(), y.a.data(), bytes) == 0
                   && std::memcmp(x.b.data(), y.b.data(), bytes) == 0));
  }
};

template <class T>
std::vector<T> gradient(std::size_t n, std::uint64_t t) {
  std::vector<T> g(n);
  for (std::size_t i = 0; i < n; ++i)
    g[i] = static_cast<T>(std::sin(double(i * 31 + t * 17))) * (i % 5 == 0 ? T(1e-3) : T(1));
  return g;
}

enum class rule { sgd, momentum, nesterov, adagrad, adam };
constexpr rule rules[] = {rule::sgd, rule::momentum, rule::nesterov, rule::adagrad, rule::adam};

template <class T>
void kernel_step(rule r, const state<T>& in, state<T>& out, const std::vector<T>& g,
                 std::uint64_t t) {
  switch (r) {
    case rule::sgd: return k::sgd_update<T>(in.p, out.p, g, {.learning_rate = 0.1});
    case rule::momentum:
      return k::momentum_update<T>(in.p, out.p, in.a, out.a, g, {.learning_rate = 0.1});
    case rule::nesterov:
      return k::momentum_update<T>(in.p, out.p, in.a, out.a, g,
                                   {.learning_rate = 0.1, .nesterov = true});
    case rule::adagrad:
      return k::adagrad_update<T>(in.p, out.p, in.a, out.a, g, {.learning_rate = 0.1});
    case rule::adam: return k::adam_update<T>(in.p, out.p, in.a, out.a, in.b, out.b, g, t, {});
  }
}

template <class T>
void reference_step(rule r, T& p, T& a, T& b, T g, std::uint64_t t) {
  const T lr = static_cast<T>(0.1);
  const T mu = static_cast<T>(0.9);
  const T eps = static_cast<T>(1e-7);
  switch (r) {
    case rule::sgd: p = p - rounded(lr * g); return;
    case rule::momentum:
      a = rounded(mu * a) - rounded(lr * g);
      p = p + a;
      return;
    case rule::nesterov:
      a = rounded(mu * a) - rounded(lr * g);
      p = p + rounded(rounded(mu * a) - rounded(lr * g));
      return;
    case rule::adagrad:
      a = a + rounded(g * g);
      p = p - rounded(rounded(lr * g) / rounded(std::sqrt(a) + eps));
      return;
    case rule::adam: {
      const double steps = double(t);
      const T rate = static_cast<T>(0.001 * std::sqrt(1.0 - std::pow(0.999, steps))
                                    / (1.0 - std::pow(0.9, steps)));
      a = rounded(mu * a) + rounded(static_cast<T>(1.0 - 0.9) * g);
      b =
        rounded(static_cast<T>(0.999) * b) + rounded(static_cast<T>(1.0 - 0.999) * rounded(g * g));
      p = p - rounded(rounded(rate * a) / rounded(std::sqrt(b) + eps));
      return;
    }
  }
}

template <class T>
T first_slot(rule r) {
  return r == rule::adagrad ? T(0.1) : T(0);
}

template <class T>
void check_against_reference() {
  for (rule r : rules)
    for (std::size_t n : sizes) {
      CAPTURE(int(r));
      CAPTURE(n);
      state<T> got(n, first_slot<T>(r));
      state<T> want = got;
      for (std::uint64_t t = 1; t <= 50; ++t) {
        const auto g = gradient<T>(n, t);
        kernel_step(r, got, got, g, t);
        for (std::size_t i = 0; i < n; ++i)
          reference_step(r, want.p[i], want.a[i], want.b[i], g[i], t);
        REQUIRE(same_bits(got, want));
      }
    }
}

} // namespace

TEST_CASE("optimizers: fifty steps of every rule equal the scalar formula bit for bit") {
  check_against_reference<float>();
  check_against_reference<double>();
}

TEST_CASE("optimizers: five hundred float steps stay near the same steps in double") {
  for (rule r : rules) {
    CAPTURE(int(r));
    state<float> low(65, first_slot<float>(r));
    state<double> high(65, first_slot<double>(r));
    for (std::uint64_t t = 1; t <= 500; ++t) {
      const auto g = gradient<float>(65, t);
      kernel_step(r, low, low, g, t);
      for (std::size_t i = 0; i < 65; ++i)
        reference_step(r, high.p[i], high.a[i], high.b[i], double(g[i]), t);
    }
    for (std::size_t i = 0; i < 65; ++i)
      CHECK(std::fabs(double(low.p[i]) - high.p[i]) < 2e-5 * (1.0 + std::fabs(high.p[i])));
  }
}

TEST_CASE("optimizers: in place and out of place give the same bits, the old buffer stays") {
  for (rule r : rules)
    for (std::size_t n : sizes) {
      CAPTURE(int(r));
      CAPTURE(n);
      state<float> here(n, first_slot<float>(r));
      state<float> old = here;
      for (std::uint64_t t = 1; t <= 5; ++t) {
        const auto g = gradient<float>(n, t);
        const state<float> before = old;
        state<float> fresh = old; // slots a rule does not have are carried over
        kernel_step(r, old, fresh, g, t);
        CHECK(same_bits(old, before));
        kernel_step(r, here, here, g, t);
        REQUIRE(same_bits(here, fresh));
        old = fresh;
      }
    }
}

TEST_CASE("optimizers: any cut of the array gives the bits of the whole") {
  for (rule r : rules) {
    state<float> whole(1000, first_slot<float>(r));
    const state<float> start = whole;
    const auto g = gradient<float>(1000, 3);
    kernel_step(r, whole, whole, g, 3);
    for (std::size_t cut : {1u, 5u, 16u, 255u, 256u, 257u, 999u}) {
      CAPTURE(cut);
      state<float> joined(0);
      for (auto [from, to] : {std::pair<std::size_t, std::size_t>{0, cut}, {cut, 1000}}) {
        state<float> part(0);
        auto slice = [from = from, to = to](const std::vector<float>& x) {
          return std::vector<float>(x.begin() + std::ptrdiff_t(from),
                                    x.begin() + std::ptrdiff_t(to));
        };
        part.p = slice(start.p);
        part.a = slice(start.a);
        part.b = slice(start.b);
        kernel_step(r, part, part, slice(g), 3);
        joined.p.insert(joined.p.end(), part.p.begin(), part.p.end());
        joined.a.insert(joined.a.end(), part.a.begin(), part.a.end());
        joined.b.insert(joined.b.end(), part.b.begin(), part.b.end());
      }
      CHECK(same_bits(joined, whole));
    }
  }
}

TEST_CASE("optimizers: zero, denormal, infinite and NaN gradients behave as IEEE says") {
  const float inf = std::numeric_limits<float>::infinity();
  const float tiny = std::numeric_limits<float>::denorm_min();
  for (rule r : rules)
    for (std::size_t at : {0u, 15u, 16u, 19u}) {
      CAPTURE(int(r));
      CAPTURE(at);
      state<float> s(20, first_slot<float>(r));
      const state<float> start = s;
      std::vector<float> g(20, 0.0f);
      kernel_step(r, s, s, g, 1);
      CHECK(s.p == start.p); // a zero gradient from a zero state moves nothing
      g[at] = tiny;
      kernel_step(r, s, s, g, 2);
      CHECK(std::isfinite(s.p[at]));
      g[at] = std::numeric_limits<float>::quiet_NaN();
      kernel_step(r, s, s, g, 3);
      CHECK(std::isnan(s.p[at]));
      CHECK(std::isfinite(s.p[(at + 1) % 20]));
      state<float> far(20, first_slot<float>(r));
      g[at] = inf;
      kernel_step(r, far, far, g, 1);
      CHECK_FALSE(std::isfinite(far.p[at]));
    }
}

TEST_CASE("optimizers: a slot that decays ends at zero and does not stay denormal") {
  std::vector<float> p(40, 1.0f), m(40, 0.0f), v(40, 0.0f), velocity(40, 0.0f), g(40, 1e-3f);
  for (std::uint64_t t = 1; t <= 1500; ++t) { // 0.9 ^ 1000 * 1e-3 is below the normal numbers
    k::adam_update<float>(p, p, m, m, v, v, g, t, {});
    k::momentum_update<float>(p, p, velocity, velocity, g, {});
    std::fill(g.begin(), g.end(), 0.0f);
  }
  CHECK(m == std::vector<float>(40, 0.0f));
  CHECK(velocity == std::vector<float>(40, 0.0f));
  volatile float tiny = std::numeric_limits<float>::min();
  CHECK(tiny / 2 > 0); // outside the kernels denormals are what they were
}

TEST_CASE("optimizers: Adam's first step moves each parameter by the learning rate") {
  std::vector<float> p(9, 1.0f), m(9, 0.0f), v(9, 0.0f), g{1, -1, 10, -10, 100, .5f, -.5f, 3, -3};
  k::adam_update<float>(p, p, m, m, v, v, g, 1, {.learning_rate = 0.25});
  for (std::size_t i = 0; i < 9; ++i)
    CHECK(p[i] == doctest::Approx(g[i] > 0 ? 0.75 : 1.25).epsilon(1e-5));
  CHECK(k::adam_corrected_rate({}, 0) == k::adam_corrected_rate({}, 1));
  CHECK(k::adam_corrected_rate({.learning_rate = 0.5}, 1'000'000'000'000) == doctest::Approx(0.5));
}

namespace {

template <class T>
void rows_step(rule r, state<T>& s, std::size_t cols, const std::vector<std::int64_t>& rows,
               const std::vector<T>& g, std::uint64_t t) {
  switch (r) {
    case rule::sgd: return k::sgd_update_rows<T>(s.p, cols, rows, g, {.learning_rate = 0.1});
    case rule::momentum:
      return k::momentum_update_rows<T>(s.p, s.a, cols, rows, g, {.learning_rate = 0.1});
    case rule::nesterov:
      return k::momentum_update_rows<T>(s.p, s.a, cols, rows, g,
                                        {.learning_rate = 0.1, .nesterov = true});
    case rule::adagrad:
      return k::adagrad_update_rows<T>(s.p, s.a, cols, rows, g, {.learning_rate = 0.1});
    case rule::adam: return k::adam_update_rows<T>(s.p, s.a, s.b, cols, rows, g, t, {});
  }
}

} // namespace

TEST_CASE("optimizers: a sparse update moves the named rows as the dense rule, and only those") {
  const std::vector<std::int64_t> rows{29, 0, 12, 10, 22, 3, 4, 5, 6, 7, 8, 21};
  for (rule r : rules)
    for (std::size_t cols : {1u, 3u, 16u, 33u, 300u}) {
      CAPTURE(int(r));
      CAPTURE(cols);
      state<float> sparse(30 * cols, first_slot<float>(r));
      state<float> dense = sparse;
      for (std::uint64_t t = 1; t <= 3; ++t) {
        const auto g = gradient<float>(rows.size() * cols, t);
        std::vector<float> scattered(30 * cols, 0.0f);
        for (std::size_t i = 0; i < rows.size(); ++i)
          std::copy_n(g.begin() + std::ptrdiff_t(i * cols), cols,
                      scattered.begin() + std::ptrdiff_t(rows[i]) * std::ptrdiff_t(cols));
        rows_step(r, sparse, cols, rows, g, t);
        kernel_step(r, dense, dense, scattered, t);
      }
      CHECK(
        same_bits(sparse, dense)); // untouched rows start from a state that a zero gradient keeps
    }
}

TEST_CASE("optimizers: lazy rows keep their slots while others move") {
  state<float> s(4 * 2);
  rows_step(rule::adam, s, 2, {1}, {1.0f, 2.0f}, 1);
  const state<float> after_first = s;
  rows_step(rule::adam, s, 2, {3}, {1.0f, 2.0f}, 2);
  for (std::size_t i : {2u, 3u}) {
    CHECK(s.p[i] == after_first.p[i]);
    CHECK(s.a[i] == after_first.a[i]); // the dense rule would decay m and move p
    CHECK(s.b[i] == after_first.b[i]);
  }
  CHECK(s.p[6] != after_first.p[6]);
}

namespace {

/// Steps with changing rows, some of none, beside the dense rule with the same gradient.
template <class T>
void check_all_rows(std::size_t cols, bool in_place) {
  constexpr std::size_t height = 30;
  const std::vector<std::vector<std::int64_t>> steps{{0, 3, 4, 5, 29},  {}, {7},
                                                     {0, 1, 2, 28, 29}, {}, {3, 29}};
  state<T> sparse(height * cols), dense = sparse;
  for (std::uint64_t t = 1; t <= steps.size(); ++t) {
    const auto& rows = steps[t - 1];
    const auto g = gradient<T>(rows.size() * cols, t);
    std::vector<T> scattered(height * cols, T(0));
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(g.begin() + std::ptrdiff_t(i * cols), cols,
                  scattered.begin() + std::ptrdiff_t(rows[i]) * std::ptrdiff_t(cols));
    state<T> next(height * cols);
    state<T>& out = in_place ? sparse : next;
    k::adam_update_all_rows<T>(sparse.p, out.p, sparse.a, out.a, sparse.b, out.b, cols, rows, g, t,
                               {});
    if (!in_place)
      sparse = next;
    k::adam_update<T>(dense.p, dense.p, dense.a, dense.a, dense.b, dense.b, scattered, t, {});
    CHECK(same_bits(sparse, dense));
  }
}

} // namespace

TEST_CASE("optimizers: Adam on all rows has the dense rule's bits in every row, named or not") {
  for (std::size_t cols : {1u, 3u, 16u, 33u, 300u})
    for (bool in_place : {true, false}) {
      CAPTURE(cols);
      CAPTURE(in_place);
      check_all_rows<float>(cols, in_place);
      check_all_rows<double>(cols, in_place);
    }
}

TEST_CASE("optimizers: Adam on all rows refuses rows that do not ascend and writes nothing") {
  state<float> s(8);
  const state<float> start = s;
  const auto with = [&](std::vector<std::int64_t> rows) {
    const std::vector<float> g(rows.size() * 2, 1.0f);
    k::adam_update_all_rows<float>(s.p, s.p, s.a, s.a, s.b, s.b, 2, rows, g, 1, {});
  };
  for (const auto& rows :
       {std::vector<std::int64_t>{1, 0}, {2, 2}, {0, 4}, {-1}, {0, 1, 2, 3, 3}}) {
    CHECK_THROWS_AS(with(rows), std::invalid_argument);
    CHECK(same_bits(s, start));
  }
}

TEST_CASE("optimizers: a bad size or row is refused and nothing is written") {
  for (rule r : rules) {
    CAPTURE(int(r));
    state<float> s(8, first_slot<float>(r));
    const state<float> start = s;
    CHECK_THROWS_AS(kernel_step(r, s, s, std::vector<float>(7, 1.0f), 1), std::invalid_argument);
    CHECK_THROWS_AS(rows_step(r, s, 2, {0, 4}, std::vector<float>(4, 1.0f), 1),
                    std::invalid_argument);
    CHECK_THROWS_AS(rows_step(r, s, 2, {0, -1}, std::vector<float>(4, 1.0f), 1),
                    std::invalid_argument);
    CHECK_THROWS_AS(rows_step(r, s, 3, {0}, std::vector<float>(3, 1.0f), 1), std::invalid_argument);
    CHECK_THROWS_AS(rows_step(r, s, 2, {0}, std::vector<float>(3, 1.0f), 1), std::invalid_argument);
    CHECK(same_bits(s, start));
  }
}
