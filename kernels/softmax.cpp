#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/nn.hpp>

#include <troupe/kernels/detail/check.hpp>
#include <troupe/kernels/detail/exponentials.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

namespace {

// Sums and maxima of a row go in lanes of its own elements, so that long rows vectorise.
constexpr std::size_t lane_count = 16;
// Elements whose exponentials are taken in one loop: rows are often too short for one of their own.
constexpr std::size_t buffer_len = 1024;
static_assert(buffer_len % lane_count == 0, "pieces of a row keep their lanes");

template <class Label>
void expect_labels(const char* function, std::span<const Label> labels, std::size_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (static_cast<std::uint64_t>(labels[i]) >= classes) // negatives are huge here
      detail::fail_index(function, "labels", i, static_cast<long long>(labels[i]), classes);
}

/// The largest of x[0], ..., x[n - 1], n > 0. A NaN may be passed over: its exponential is one.
template <class T>
T largest_of(const T* x, std::size_t n) {
  T out = x[0];
  std::size_t i = 0;
  if (n >= 2 * lane_count) {
    T lanes[lane_count];
    for (std::size_t j = 0; j < lane_count; ++j)
      lanes[j] = x[j];
    for (i = lane_count; i + lane_count <= n; i += lane_count)
      for (std::size_t j = 0; j < lane_count; ++j)
        lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
    for (T lane : lanes)
      out = lane > out ? lane : out;
  }
  for (; i < n; ++i)
    out = x[i] > out ? x[i] : out;
  return out;
}

/// Short rows are added in order. In longer ones, lane j adds elements j, j + 16, j + 32, ... in that
/// order; then the lanes fold in halves.
template <class T>
class row_sum {
public:
  /// The row's next elements; all but the last `n` are multiples of `lane_count`.
  void add(const T* x, std::size_t n) {
    std::size_t i = 0;
    for (; i + lane_count <= n; i += lane_count)
      for (std::size_t j = 0; j < lane_count; ++j)
        lanes_[j] += x[i + j];
    for (std::size_t j = 0; i + j < n; ++j)
      lanes_[j] += x[i + j];
  }

  T fold() {
    for (std::size_t half = lane_count / 2; half > 0; half /= 2)
      for (std::size_t j = 0; j < half; ++j)
        lanes_[j] += lanes_[j + half];
    return lanes_[0];
  }

  static T of(const T* row, std::size_t n) {
    if (n >= 2 * lane_count) {
      row_sum sum;
      sum.add(row, n);
      return sum.fold();
    }
    T sum = T(0);
    for (std::size_t i = 0; i < n; ++i)
      sum += row[i];
    return sum;
  }

private:
  T lanes_[lane_count] = {};
};

/// to[i] = from[i] - largest, which is never above 0. `to` may be `from`.
template <class T>
void shift(const T* from, T largest, T* to, std::size_t n) {
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < n; ++i)
    to[i] = from[i] - largest;
}

template <class T>
double log_of(T total) {
  return std::log(static_cast<double>(total));
}

/// Loss of one row of any length, without its gradient.
template <class T>
double row_loss(const T* row, std::size_t classes, std::size_t label) {
  T buffer[buffer_len];
  const T largest = largest_of(row, classes);
  row_sum<T> total;
  for (std::size_t at = 0; at < classes; at += buffer_len) {
    const std::size_t n = std::min(buffer_len, classes - at);
    shift(row + at, largest, buffer, n);
    detail::exp_all(buffer, n);
    total.add(buffer, n);
  }
  return log_of(total.fold()) - static_cast<double>(row[label] - largest);
}

/// Turns the exponentials of a row into its gradient; gives their sum.
template <class T>
T finish_row(T* row, std::size_t classes, std::size_t label, T batch, bool with_gradient) {
  const T total = row_sum<T>::of(row, classes);
  if (with_gradient) {
    const T part = T(1) / (total * batch);
    for (std::size_t c = 0; c < classes; ++c)
      row[c] *= part;
    row[label] -= T(1) / batch;
  }
  return total;
}

/// Losses of rows side by side; their exponentials, and then the gradient, go to `work`.
template <class T, class Label>
double rows_loss(const T* logits, std::span<const Label> labels, std::size_t classes, T* work,
                 T batch, bool with_gradient) {
  double loss = 0.0;
  for (std::size_t r = 0; r < labels.size(); ++r) {
    T* to = work + r * classes;
    shift(logits + r * classes, largest_of(logits + r * classes, classes), to, classes);
    loss -= static_cast<double>(to[static_cast<std::size_t>(labels[r])]);
  }
  detail::exp_all(work, labels.size() * classes);
  for (std::size_t r = 0; r < labels.size(); ++r)
    loss += log_of(finish_row(work + r * classes, classes, static_cast<std::size_t>(labels[r]),
                              batch, with_gradient));
  return loss;
}

} // namespace

template <class T, class Label>
double softmax_cross_entropy(std::span<const std::type_identity_t<T>> logits,
                             std::span<const Label> labels, std::size_t classes,
                             std::span<T> dlogits) {
  const std::size_t batch = labels.size();
  detail::expect_size("softmax_cross_entropy", "logits.size()", logits.size(), batch * classes);
  if (!dlogits.empty())
    detail::expect_size("softmax_cross_entropy", "dlogits.size()", dlogits.size(), logits.size());
  expect_labels("softmax_cross_entropy", labels, classes);
  if (batch == 0)
    return 0.0;
  const std::size_t rows_at_once = std::max<std::size_t>(1, buffer_len / classes);
  double loss = 0.0;
  T buffer[buffer_len];
  for (std::size_t row = 0; row < batch; row += rows_at_once) {
    const auto here = labels.subspan(row, std::min(rows_at_once, batch - row));
    const T* in = logits.data() + row * classes;
    if (!dlogits.empty())
      loss +=
        rows_loss(in, here, classes, dlogits.data() + row * classes, static_cast<T>(batch), true);
    else if (classes <= buffer_len)
      loss += rows_loss(in, here, classes, buffer, static_cast<T>(batch), false);
    else
      loss += row_loss(in, classes, static_cast<std::size_t>(here[0]));
  }
  return loss / static_cast<double>(batch);
}

template <class T, class Label>
std::size_t accuracy_count(std::span<const T> logits, std::span<const Label> labels,
                           std::size_t classes) {
  detail::expect_size("accuracy_count", "logits.size()", logits.size(), labels.size() * classes);
  expect_labels("accuracy_count", labels, classes);
  std::size_t correct = 0;
  for (std::size_t b = 0; b < labels.size(); ++b) {
    const T* row = logits.data() + b * classes;
    std::size_t best = 0;
    for (std::size_t c = 1; c < classes; ++c)
      if (row[c] > row[best])
        best = c;
    correct += best == static_cast<std::size_t>(labels[b]) ? 1 : 0;
  }
  return correct;
}

#define TROUPE_INSTANTIATE(T, Label)                                                          \
  template double softmax_cross_entropy<T, Label>(std::span<const T>, std::span<const Label>, \
                                                  std::size_t, std::span<T>);                 \
  template std::size_t accuracy_count<T, Label>(std::span<const T>, std::span<const Label>,   \
                                                std::size_t);

TROUPE_INSTANTIATE(float, std::uint8_t)
TROUPE_INSTANTIATE(float, std::int32_t)
TROUPE_INSTANTIATE(float, std::int64_t)
TROUPE_INSTANTIATE(double, std::uint8_t)
TROUPE_INSTANTIATE(double, std::int32_t)
TROUPE_INSTANTIATE(double, std::int64_t)

#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels
