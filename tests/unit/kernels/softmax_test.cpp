// Goal: softmax cross-entropy is near the plain formula in double for every length of row, and its
// bits depend on the logits alone: not on the machine, the address or whether a gradient is asked
// for.
#include <troupe/kernels/hash.hpp>
#include <troupe/kernels/nn.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

namespace k = troupe::kernels;

namespace {

constexpr std::size_t class_counts[] = {1,  2,  9,   10,  15,   16,   17,   31,  32,
                                        33, 63, 100, 511, 1000, 1024, 1025, 3000};

/// Exact in float, the same on every machine: multiples of 1/64 in [-16, 16).
template <class T>
std::vector<T> logits_of(std::size_t n) {
  std::vector<T> out(n);
  std::uint32_t state = 7;
  for (T& x : out) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<T>(static_cast<std::int32_t>(state >> 21) - 1024) / T(64);
  }
  return out;
}

std::vector<std::int32_t> labels_of(std::size_t batch, std::size_t classes) {
  std::vector<std::int32_t> out(batch);
  for (std::size_t b = 0; b < batch; ++b)
    out[b] = static_cast<std::int32_t>(b * 31 % classes);
  return out;
}

/// The formula of nn.hpp in plain loops and double.
template <class T>
double plain_loss(const std::vector<T>& logits, const std::vector<std::int32_t>& labels,
                  std::size_t classes, std::vector<double>& gradient) {
  double loss = 0;
  gradient.assign(logits.size(), 0.0);
  for (std::size_t b = 0; b < labels.size(); ++b) {
    const T* row = logits.data() + b * classes;
    const double largest = double(*std::max_element(row, row + classes));
    double total = 0;
    for (std::size_t c = 0; c < classes; ++c)
      total += std::exp(double(row[c]) - largest);
    for (std::size_t c = 0; c < classes; ++c)
      gradient[b * classes + c] =
        (std::exp(double(row[c]) - largest) / total - (c == std::size_t(labels[b]) ? 1.0 : 0.0))
        / double(labels.size());
    loss += std::log(total) - (double(row[labels[b]]) - largest);
  }
  return loss / double(labels.size());
}

template <class T>
void check_near_plain(double tolerance) {
  for (std::size_t classes : class_counts) {
    CAPTURE(classes);
    const auto labels = labels_of(37, classes);
    const auto logits = logits_of<T>(labels.size() * classes);
    std::vector<double> want;
    const double want_loss = plain_loss(logits, labels, classes, want);
    std::vector<T> got(logits.size());
    const double loss =
      k::softmax_cross_entropy<T, std::int32_t>(logits, labels, classes, std::span(got));
    CHECK(std::fabs(loss - want_loss) <= tolerance * (1.0 + want_loss));
    double worst = 0; // of each element relative to itself, but for what cancels at the label
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::fabs(double(got[i]) - want[i])
                                / (want[i] < 0 ? 1.0 : std::fabs(want[i]) + 1e-30));
    CHECK(worst < tolerance);
    CHECK(k::softmax_cross_entropy<T, std::int32_t>(logits, labels, classes, {}) == loss);
  }
}

template <class T>
std::uint64_t gradient_bits() {
  k::hasher bits;
  for (std::size_t classes : class_counts) {
    const auto labels = labels_of(37, classes);
    const auto logits = logits_of<T>(labels.size() * classes);
    std::vector<T> gradient(logits.size());
    k::softmax_cross_entropy<T, std::int32_t>(logits, labels, classes, std::span(gradient));
    bits.update(gradient.data(), gradient.size() * sizeof(T));
  }
  return bits.digest();
}

} // namespace

TEST_CASE("softmax: loss and gradient are near the plain formula at every number of classes") {
  check_near_plain<float>(2e-6);
  check_near_plain<double>(4e-15);
}

TEST_CASE("softmax: the gradient's bits are pinned, for every compiler and machine") {
  CHECK(gradient_bits<float>() == 17118507882890910770u);
  CHECK(gradient_bits<double>() == 6738582450831452093u);
}

TEST_CASE("softmax: the same bits at every address and in place") {
  for (std::size_t classes : {10u, 33u, 1000u}) {
    const auto labels = labels_of(5, classes);
    const auto logits = logits_of<float>(labels.size() * classes);
    std::vector<float> want(logits.size());
    const double loss =
      k::softmax_cross_entropy<float, std::int32_t>(logits, labels, classes, std::span(want));
    for (std::size_t offset = 0; offset < 17; ++offset) {
      std::vector<float> moved(offset + logits.size());
      const auto place = std::span(moved).subspan(offset);
      std::copy(logits.begin(), logits.end(), place.begin());
      CHECK(k::softmax_cross_entropy<float, std::int32_t>(place, labels, classes, place) == loss);
      CHECK(std::equal(place.begin(), place.end(), want.begin()));
    }
  }
}

TEST_CASE("softmax: far smaller logits have the exponential's bits, down to denormal and zero") {
  for (float x : {-18.0f, -50.0f, -87.0f, -88.0f, -95.0f, -103.0f, -104.5f, -1e30f,
                  -std::numeric_limits<float>::infinity()}) {
    CAPTURE(x);
    std::vector<float> row{0.0f, x};
    k::softmax_cross_entropy<float, std::int32_t>(row, std::vector<std::int32_t>{0}, 2,
                                                  std::span(row));
    const double want = std::exp(double(x)); // beside it, 1 + e^x is 1
    CHECK(row[0] == 0.0f);
    CHECK(std::fabs(double(row[1]) - want) <= 1.2e-7 * want + 1.5e-45);
  }
}

TEST_CASE("softmax: NaN, +infinity or nothing but -infinity makes the row and the loss NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t classes : {3u, 40u})
    for (float odd : {nan, inf, -inf})
      for (std::size_t at = 0; at < classes; ++at) {
        std::vector<float> rows(2 * classes, odd == -inf ? -inf : 1.0f), gradient(rows.size());
        rows[at] = odd;
        std::fill(rows.begin() + std::ptrdiff_t(classes), rows.end(), 1.0f);
        const double loss = k::softmax_cross_entropy<float, std::int32_t>(
          rows, std::vector<std::int32_t>{1, 1}, classes, std::span(gradient));
        CHECK(std::isnan(loss));
        for (std::size_t c = 0; c < classes; ++c)
          CHECK(std::isnan(gradient[c]));
        CHECK(gradient[classes] == doctest::Approx(0.5 / double(classes)));
      }
}

TEST_CASE(
  "softmax: accuracy follows the search from the left, with equals and NaN at every place") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {nan, 1.0f, 2.0f, 3.0f, 3.0f, -0.0f};
  std::size_t wrong = 0, hits = 0;
  for (std::size_t classes : {1u, 3u, 10u, 31u, 32u, 33u, 70u}) {
    std::uint32_t state = 3;
    for (int round = 0; round < 40; ++round) {
      std::vector<float> row(classes);
      for (float& x : row) {
        state = state * 1664525u + 1013904223u;
        x = values[(state >> 16) % std::size(values)];
      }
      std::size_t best = 0;
      for (std::size_t c = 1; c < classes; ++c)
        if (row[c] > row[best])
          best = c;
      for (std::size_t label = 0; label < classes; ++label) {
        const std::vector<std::int32_t> labels{static_cast<std::int32_t>(label)};
        const std::size_t got = k::accuracy_count<float, std::int32_t>(row, labels, classes);
        wrong += got == (best == label ? 1u : 0u) ? 0 : 1;
        hits += got;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(hits == 7 * 40); // one place a row
}
