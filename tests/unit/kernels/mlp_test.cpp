// Goal: the perceptron's gradients are the derivatives of its loss, and the workspace carries
// nothing between calls.
#include <troupe/kernels/mlp.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace k = troupe::kernels;

namespace {

template <class T>
struct model {
  std::vector<std::size_t> widths;
  std::vector<std::vector<T>> weights, gradients;

  explicit model(std::vector<std::size_t> w) : widths(std::move(w)) {
    for (std::size_t l = 0; l + 1 < widths.size(); ++l)
      for (std::size_t n : {widths[l] * widths[l + 1], widths[l + 1]}) {
        weights.emplace_back(n);
        for (std::size_t i = 0; i < n; ++i)
          weights.back()[i] =
            static_cast<T>(0.6 * std::sin(double(i) * 2.3 + double(weights.size())));
      }
    gradients = weights;
  }

  std::vector<std::span<const T>> inputs() const { return {weights.begin(), weights.end()}; }

  std::vector<std::span<T>> outputs() { return {gradients.begin(), gradients.end()}; }
};

template <class T>
std::vector<T> pixels(std::size_t n) {
  std::vector<T> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<T>(std::cos(double(i) * 0.9));
  return out;
}

std::vector<std::int32_t> labels_for(std::size_t batch, std::size_t classes) {
  std::vector<std::int32_t> out(batch);
  for (std::size_t i = 0; i < batch; ++i)
    out[i] = static_cast<std::int32_t>((i * 7 + 1) % classes);
  return out;
}

template <class T>
k::mlp_result gradients_of(model<T>& m, const std::vector<T>& x, const std::vector<std::int32_t>& y,
                           k::mlp_workspace<T>& workspace) {
  const auto in = m.inputs();
  const auto out = m.outputs();
  return k::mlp_gradients<T, std::int32_t>(in, x, y, workspace, out);
}

/// Loss and one weight's influence by the plainest loops, in double.
double naive_loss(const model<double>& m, const std::vector<double>& x,
                  const std::vector<std::int32_t>& y) {
  double loss = 0;
  for (std::size_t b = 0; b < y.size(); ++b) {
    std::vector<double> a(x.begin() + std::ptrdiff_t(b * m.widths[0]),
                          x.begin() + std::ptrdiff_t((b + 1) * m.widths[0]));
    for (std::size_t l = 0; l + 1 < m.widths.size(); ++l) {
      std::vector<double> next = m.weights[2 * l + 1];
      for (std::size_t i = 0; i < a.size(); ++i)
        for (std::size_t o = 0; o < next.size(); ++o)
          next[o] += a[i] * m.weights[2 * l][i * next.size() + o];
      if (l + 2 < m.widths.size())
        for (double& v : next)
          v = v > 0 ? v : 0;
      a = next;
    }
    double total = 0;
    for (double v : a)
      total += std::exp(v);
    loss += std::log(total) - a[std::size_t(y[b])];
  }
  return loss / double(y.size());
}

} // namespace

TEST_CASE("mlp: gradients equal finite differences of the plain loss, for one to four layers") {
  for (const auto& widths :
       {std::vector<std::size_t>{6, 4}, std::vector<std::size_t>{6, 5, 4},
        std::vector<std::size_t>{6, 5, 7, 4}, std::vector<std::size_t>{3, 9, 2, 8, 5}}) {
    CAPTURE(widths.size());
    model<double> m(widths);
    const auto x = pixels<double>(11 * widths[0]);
    const auto y = labels_for(11, widths.back());
    k::mlp_workspace<double> workspace(widths, 11);
    const auto result = gradients_of(m, x, y, workspace);
    CHECK(result.loss == doctest::Approx(naive_loss(m, x, y)).epsilon(1e-12));
    double worst = 0, largest = 0;
    for (std::size_t tensor = 0; tensor < m.weights.size(); ++tensor)
      for (std::size_t i = 0; i < m.weights[tensor].size(); ++i) {
        double& w = m.weights[tensor][i];
        const double at = w;
        w = at + 1e-6;
        const double up = naive_loss(m, x, y);
        w = at - 1e-6;
        const double down = naive_loss(m, x, y);
        w = at;
        worst = std::max(worst, std::fabs((up - down) / 2e-6 - m.gradients[tensor][i]));
        largest = std::max(largest, std::fabs(m.gradients[tensor][i]));
      }
    CHECK(worst < 1e-8);
    CHECK(largest > 1e-2); // the check is not one of zeros
  }
}

TEST_CASE("mlp: float gradients at 784-128-10 agree with double") {
  model<float> low({784, 128, 10});
  model<double> high({784, 128, 10});
  for (std::size_t t = 0; t < low.weights.size(); ++t)
    for (std::size_t i = 0; i < low.weights[t].size(); ++i)
      high.weights[t][i] = double(low.weights[t][i] *= 0.1f);
  const auto x = pixels<float>(8 * 784);
  const std::vector<double> x_high(x.begin(), x.end());
  const auto y = labels_for(8, 10);
  k::mlp_workspace<float> workspace(low.widths, 64);
  k::mlp_workspace<double> workspace_high(low.widths, 64);
  const auto a = gradients_of(low, x, y, workspace);
  const auto b = gradients_of(high, x_high, y, workspace_high);
  CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-5));
  CHECK(a.correct == b.correct);
  double worst = 0;
  for (std::size_t t = 0; t < low.gradients.size(); ++t)
    for (std::size_t i = 0; i < low.gradients[t].size(); ++i)
      worst = std::max(worst, std::fabs(double(low.gradients[t][i]) - high.gradients[t][i]));
  CHECK(worst < 1e-5);
}

TEST_CASE("mlp: a workspace used for other batches in between gives the same bits") {
  model<float> m({20, 16, 5});
  const auto x = pixels<float>(32 * 20);
  const auto y = labels_for(32, 5);
  k::mlp_workspace<float> workspace(m.widths, 32);
  const auto first = gradients_of(m, x, y, workspace);
  const auto want = m.gradients;
  const std::vector<float> other(3 * 20, -4.0f);
  gradients_of(m, other, labels_for(3, 5), workspace);
  CHECK(m.gradients != want);
  const auto again = gradients_of(m, x, y, workspace);
  CHECK(m.gradients == want);
  CHECK(again.loss == first.loss);
}

TEST_CASE("mlp: weights in row blocks give the whole weights' results") {
  for (const auto& cuts : {std::vector<std::size_t>{384, 784}, std::vector<std::size_t>{392, 784},
                           std::vector<std::size_t>{1, 7, 500, 784}}) {
    CAPTURE(cuts.size());
    model<float> m({784, 128, 10});
    for (auto& w : m.weights)
      for (float& v : w)
        v *= 0.1f;
    const auto x = pixels<float>(16 * 784);
    const auto y = labels_for(16, 10);
    k::mlp_workspace<float> workspace(m.widths, 64);
    const auto whole = gradients_of(m, x, y, workspace);
    const auto want = m.gradients;
    const auto in = m.inputs();
    // w0 by `cuts`, b0 in two parts, w1 in three blocks, b1 whole
    std::vector<std::vector<std::span<const float>>> parts(4);
    std::size_t from = 0;
    for (std::size_t to : cuts) {
      parts[0].push_back(in[0].subspan(from * 128, (to - from) * 128));
      from = to;
    }
    parts[1] = {in[1].first(60), in[1].subspan(60)};
    parts[2] = {in[2].first(10), in[2].subspan(10, 990), in[2].subspan(1000)};
    parts[3] = {in[3]};
    const std::vector<k::row_blocks<float>> blocks(parts.begin(), parts.end());
    for (auto& g : m.gradients)
      g.assign(g.size(), 99.0f);
    const auto cut = k::mlp_gradients<float, std::int32_t>(blocks, x, y, workspace, m.outputs());
    CHECK(cut.loss == doctest::Approx(whole.loss).epsilon(1e-6));
    CHECK(cut.correct == whole.correct);
    float worst = 0;
    for (std::size_t t = 0; t < want.size(); ++t)
      for (std::size_t i = 0; i < want[t].size(); ++i)
        worst = std::max(worst, std::fabs(want[t][i] - m.gradients[t][i]));
    CHECK(worst < 1e-6f);
    const auto evaluated = k::mlp_evaluate<float, std::int32_t>(blocks, x, y, workspace);
    CHECK(evaluated.loss == doctest::Approx(whole.loss).epsilon(1e-6));
    CHECK(evaluated.correct == whole.correct);
  }
}

TEST_CASE("mlp: row blocks of multiples of 128 rows give the same bits as the whole") {
  model<float> m({384, 16, 4});
  const auto x = pixels<float>(9 * 384);
  const auto y = labels_for(9, 4);
  k::mlp_workspace<float> workspace(m.widths, 9);
  const auto whole = gradients_of(m, x, y, workspace);
  const auto want = m.gradients;
  const auto in = m.inputs();
  const std::vector<std::span<const float>> w0{in[0].first(128 * 16), in[0].subspan(128 * 16)};
  const std::vector<k::row_blocks<float>> blocks{w0, k::row_blocks<float>(&in[1], 1),
                                                 k::row_blocks<float>(&in[2], 1),
                                                 k::row_blocks<float>(&in[3], 1)};
  CHECK(k::mlp_gradients<float, std::int32_t>(blocks, x, y, workspace, m.outputs()).loss
        == whole.loss);
  CHECK(m.gradients == want);
}

TEST_CASE("mlp: a block that splits a row is refused by number") {
  model<float> m({6, 5, 4});
  k::mlp_workspace<float> workspace(m.widths, 9);
  const auto in = m.inputs();
  const std::vector<std::span<const float>> w0{in[0].first(7), in[0].subspan(7)};
  const std::vector<k::row_blocks<float>> blocks{w0, k::row_blocks<float>(&in[1], 1),
                                                 k::row_blocks<float>(&in[2], 1),
                                                 k::row_blocks<float>(&in[3], 1)};
  const auto x = pixels<float>(12);
  CHECK_THROWS_WITH_AS(k::mlp_forward<float>(blocks, x, workspace),
                       "kernels::dense_forward: w block 0 has 7 elements, expected whole rows of 5",
                       std::invalid_argument);
}

TEST_CASE("mlp: evaluate and forward agree with the gradient pass") {
  model<double> m({6, 5, 4});
  const auto x = pixels<double>(9 * 6);
  const auto y = labels_for(9, 4);
  k::mlp_workspace<double> workspace(m.widths, 9);
  const auto trained = gradients_of(m, x, y, workspace);
  const auto in = m.inputs();
  const auto evaluated = k::mlp_evaluate<double, std::int32_t>(in, x, y, workspace);
  CHECK(evaluated.loss == doctest::Approx(trained.loss).epsilon(1e-14));
  CHECK(evaluated.correct == trained.correct);
  CHECK(k::mlp_forward<double>(in, x, workspace).size() == 9 * 4);
}

TEST_CASE("mlp: an empty batch has loss zero and zero gradients") {
  model<float> m({6, 5, 4});
  k::mlp_workspace<float> workspace(m.widths, 9);
  CHECK(gradients_of(m, {}, {}, workspace).loss == 0.0);
  for (const auto& g : m.gradients)
    CHECK(g == std::vector<float>(g.size(), 0.0f));
}

TEST_CASE("mlp: a few hundred steps learn what can be learned") {
  model<float> m({2, 16, 2});
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 64; ++i) { // exclusive or of two signs: no single layer can
    const float a = i % 2 ? 1.0f : -1.0f, b = i / 2 % 2 ? 1.0f : -1.0f;
    x.insert(x.end(), {a * (0.5f + float(i) / 128), b * (1.0f - float(i) / 128)});
    y.push_back(a * b > 0 ? 1 : 0);
  }
  k::mlp_workspace<float> workspace(m.widths, 64);
  const auto before = gradients_of(m, x, y, workspace);
  for (int step = 0; step < 400; ++step) {
    gradients_of(m, x, y, workspace);
    for (std::size_t t = 0; t < m.weights.size(); ++t)
      for (std::size_t i = 0; i < m.weights[t].size(); ++i)
        m.weights[t][i] -= 0.3f * m.gradients[t][i];
  }
  const auto after = gradients_of(m, x, y, workspace);
  CHECK(before.correct < 64);
  CHECK(after.correct == 64);
  CHECK(after.loss < 0.1);
}

TEST_CASE("mlp: wrong sizes are refused and gradients stay") {
  CHECK_THROWS_AS(k::mlp_workspace<float>(std::vector<std::size_t>{5}, 4), std::invalid_argument);
  CHECK_THROWS_AS(k::mlp_workspace<float>(std::vector<std::size_t>{5, 0, 2}, 4),
                  std::invalid_argument);
  model<float> m({6, 5, 4});
  const auto before = m.gradients;
  k::mlp_workspace<float> workspace(m.widths, 4);
  CHECK_THROWS_AS(gradients_of(m, pixels<float>(5 * 6), labels_for(5, 4), workspace),
                  std::invalid_argument);
  CHECK_THROWS_AS(gradients_of(m, pixels<float>(13), labels_for(2, 4), workspace),
                  std::invalid_argument);
  CHECK_THROWS_AS(gradients_of(m, pixels<float>(12), {0, 4}, workspace), std::invalid_argument);
  m.weights[2].pop_back();
  CHECK_THROWS_AS(gradients_of(m, pixels<float>(12), {0, 3}, workspace), std::invalid_argument);
  CHECK(m.gradients == before);
}
