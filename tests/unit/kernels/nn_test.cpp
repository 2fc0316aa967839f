// Goal: each layer equals the plain loops and the gradients equal finite differences.
#include <troupe/kernels/nn.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace k = troupe::kernels;

namespace {

template <class T>
std::vector<T> wave(std::size_t n, double salt) {
  std::vector<T> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<T>(std::sin(double(i) * 1.7 + salt));
  return out;
}

const k::dense_size layer_sizes[] = {{0, 3, 2},    {1, 1, 1},    {1, 5, 3},   {7, 9, 8},
                                     {64, 33, 10}, {3, 100, 65}, {2, 130, 17}};

/// c[r, s] = sum over j of a(r, j) * b(j, s), in double.
template <class A, class B>
std::vector<double> product(std::size_t rows, std::size_t inner, std::size_t cols, A a, B b) {
  std::vector<double> out(rows * cols, 0.0);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t s = 0; s < cols; ++s)
      for (std::size_t j = 0; j < inner; ++j)
        out[r * cols + s] += double(a(r, j)) * double(b(j, s));
  return out;
}

template <class T>
void check_near(const std::vector<T>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::fabs(double(got[i]) - want[i]) / (1.0 + std::fabs(want[i])));
  CHECK(worst < tolerance);
}

template <class T>
void check_dense() {
  for (const k::dense_size& s : layer_sizes) {
    CAPTURE(s.batch);
    CAPTURE(s.inputs);
    const auto x = wave<T>(s.batch * s.inputs, 0.1);
    const auto w = wave<T>(s.inputs * s.outputs, 0.2);
    const auto bias = wave<T>(s.outputs, 0.3);
    const auto dy = wave<T>(s.batch * s.outputs, 0.4);
    const auto at = [](const std::vector<T>& m, std::size_t cols) {
      return [&m, cols](std::size_t r, std::size_t c) { return m[r * cols + c]; };
    };
    const auto flipped = [](const std::vector<T>& m, std::size_t cols) {
      return [&m, cols](std::size_t r, std::size_t c) { return m[c * cols + r]; };
    };
    std::vector<T> y(dy.size(), T(99)), dw(w.size(), T(99)), db(s.outputs, T(99)),
      dx(x.size(), T(99));
    k::dense_forward<T>(x, w, bias, s, y);
    auto want = product(s.batch, s.inputs, s.outputs, at(x, s.inputs), at(w, s.outputs));
    for (std::size_t i = 0; i < want.size(); ++i)
      want[i] += double(bias[i % s.outputs]);
    check_near(y, want);
    k::dense_backward<T>(x, w, dy, s, dw, db, dx);
    check_near(dw, product(s.inputs, s.batch, s.outputs, flipped(x, s.inputs), at(dy, s.outputs)));
    check_near(dx, product(s.batch, s.outputs, s.inputs, at(dy, s.outputs), flipped(w, s.outputs)));
    std::vector<double> sums(s.outputs, 0.0);
    for (std::size_t i = 0; i < dy.size(); ++i)
      sums[i % s.outputs] += double(dy[i]);
    check_near(db, sums);
    auto without_dx = dw;
    k::dense_backward<T>(x, w, dy, s, without_dx, db, {});
    CHECK(without_dx == dw);
  }
}

} // namespace

TEST_CASE("nn: dense forward and backward equal the plain loops") {
  check_dense<float>();
  check_dense<double>();
}

TEST_CASE("nn: the same product gives the same bits every time") {
  const k::dense_size s{64, 784, 128};
  const auto x = wave<float>(s.batch * s.inputs, 0.1);
  const auto w = wave<float>(s.inputs * s.outputs, 0.2);
  const std::vector<float> bias(s.outputs, 0.0f);
  std::vector<float> first(s.batch * s.outputs), again(first.size());
  k::dense_forward<float>(x, w, bias, s, first);
  k::dense_forward<float>(x, w, bias, s, again);
  CHECK(first == again);
}

TEST_CASE("nn: ReLU and its gradient, in place and apart, with NaN kept") {
  std::vector<float> x{-1, 0, 2, -0.5f, 3}, dy{1, 2, 3, 4, 5}, y(5), dx(5);
  k::relu_forward<float>(x, y);
  CHECK(y == std::vector<float>{0, 0, 2, 0, 3});
  k::relu_backward<float>(y, dy, dx);
  CHECK(dx == std::vector<float>{0, 0, 3, 0, 5});
  k::relu_forward<float>(x, x);
  CHECK(x == y);
  k::relu_backward<float>(y, dy, dy);
  CHECK(dy == dx);
  std::vector<float> nan{std::nanf("")};
  k::relu_forward<float>(nan, nan);
  CHECK(std::isnan(nan[0]));
}

TEST_CASE("nn: cross-entropy of equal logits is log(classes)") {
  const std::vector<double> logits(4 * 10, 2.5);
  const std::vector<std::int32_t> labels{0, 3, 9, 5};
  std::vector<double> gradient(40);
  CHECK(k::softmax_cross_entropy<double, std::int32_t>(logits, labels, 10, std::span(gradient))
        == doctest::Approx(std::log(10.0)));
  CHECK(gradient[0] == doctest::Approx((0.1 - 1.0) / 4));
  CHECK(gradient[1] == doctest::Approx(0.1 / 4));
}

TEST_CASE("nn: the cross-entropy gradient equals finite differences, apart and in place") {
  const std::size_t classes = 7;
  const std::vector<std::int64_t> labels{0, 6, 3, 3, 1};
  const auto logits = wave<double>(labels.size() * classes, 0.7);
  const auto loss_of = [&](const std::vector<double>& x) {
    return k::softmax_cross_entropy<double, std::int64_t>(x, labels, classes, {});
  };
  std::vector<double> gradient(logits.size());
  const double loss =
    k::softmax_cross_entropy<double, std::int64_t>(logits, labels, classes, std::span(gradient));
  CHECK(loss == doctest::Approx(loss_of(logits)).epsilon(1e-14));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    auto up = logits, down = logits;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    CHECK(std::fabs((loss_of(up) - loss_of(down)) / 2e-5 - gradient[i]) < 1e-9);
  }
  auto same = logits;
  k::softmax_cross_entropy<double, std::int64_t>(same, labels, classes, std::span(same));
  CHECK(same == gradient);
}

TEST_CASE("nn: huge logits neither overflow nor lose the loss") {
  const std::vector<float> logits{1e4f, -1e4f, 0.0f, -1e4f, 1e4f, 0.0f};
  const std::vector<std::uint8_t> right{0, 1}, wrong{1, 1};
  std::vector<float> gradient(6);
  CHECK(k::softmax_cross_entropy<float, std::uint8_t>(logits, right, 3, std::span(gradient))
        == 0.0);
  CHECK(k::softmax_cross_entropy<float, std::uint8_t>(logits, wrong, 3, std::span(gradient))
        == doctest::Approx(1e4));
  for (float g : gradient)
    CHECK(std::isfinite(g));
}

TEST_CASE("nn: accuracy counts rows whose first largest logit is the label's") {
  const std::vector<float> logits{1, 2, 3, 5, 5, 1, 0, 9, 9};
  CHECK(k::accuracy_count<float, std::int32_t>(logits, std::vector<std::int32_t>{2, 0, 1}, 3) == 3);
  CHECK(k::accuracy_count<float, std::int32_t>(logits, std::vector<std::int32_t>{2, 1, 2}, 3) == 1);
  CHECK(k::accuracy_count<float, std::int32_t>({}, std::span<const std::int32_t>{}, 3) == 0);
}

TEST_CASE("nn: no rows have loss zero, bad labels and sizes are refused by name") {
  std::vector<float> none;
  CHECK(k::softmax_cross_entropy<float, std::uint8_t>(none, {}, 10, std::span(none)) == 0.0);
  std::vector<float> logits(6, 1.0f), gradient(6, 9.0f);
  const auto loss = [&](std::vector<std::int32_t> labels, std::size_t classes) {
    return k::softmax_cross_entropy<float, std::int32_t>(logits, labels, classes,
                                                         std::span(gradient));
  };
  try {
    loss({0, 3}, 3);
    FAIL("no exception");
  } catch (const std::invalid_argument& e) {
    CHECK(std::string(e.what())
          == "kernels::softmax_cross_entropy: labels[1] is 3, outside [0, 3)");
  }
  CHECK_THROWS_AS(loss({0, -1}, 3), std::invalid_argument);
  CHECK_THROWS_AS(loss({0}, 3), std::invalid_argument);
  CHECK(gradient == std::vector<float>(6, 9.0f));
  CHECK_THROWS_AS(k::dense_forward<float>(logits, logits, logits, {2, 3, 2}, std::span(gradient)),
                  std::invalid_argument);
}
