#include <troupe/kernels/detail/strict_math.hpp>

#include <troupe/kernels/nn.hpp>

#include <troupe/kernels/detail/check.hpp>
#include <troupe/kernels/detail/exponentials.hpp>
#include <troupe/kernels/detail/simd.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace troupe::kernels {

namespace {

// Sums and maxima of a row go in lanes of its own elements, so that long rows vectorise.
constexpr std::size_t lane_count = 32;
// Elements whose exponentials are taken in one loop: rows are often too short for one of their own.
constexpr std::size_t buffer_len = 1024;

template <class Label>
void expect_labels(const char* function, std::span<const Label> labels, std::size_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (static_cast<std::uint64_t>(labels[i]) >= classes) // negatives are huge here
      detail::fail_index(function, "labels", i, static_cast<long long>(labels[i]), classes);
}

template <class T>
constexpr T infinity_of = std::numeric_limits<T>::infinity();

/// The largest of x[0], ..., x[n - 1], n > 0. A NaN may be passed over: its exponential is one.
template <class T>
T largest_of_short(const T* x, std::size_t n) {
  T out = x[0];
  for (std::size_t i = 1; i < n; ++i)
    out = x[i] > out ? x[i] : out;
  return out;
}

// A stride of lane_count elements in registers.
template <class T>
using strip = detail::widest_simd<T>[lane_count * sizeof(T) / sizeof(detail::widest_simd<T>)];

/// `step(lanes, at)` for the parts of a stride that begins at element `i`.
template <class T, class F>
void each_part(strip<T>& parts, std::size_t i, F step) {
  for (auto& part : parts) {
    step(part, i);
    i += sizeof(part) / sizeof(T);
  }
}

/// The same for n >= lane_count.
template <class T>
T largest_of_wide(const T* x, std::size_t n) {
  using v = detail::widest_simd<T>;
  strip<T> largest;
  each_part<T>(largest, 0, [=](v& part, std::size_t at) { part = v::load(x + at); });
  const auto take = [=](v& part, std::size_t at) { part = above(v::load(x + at), part); };
  for (std::size_t i = lane_count; i + lane_count <= n; i += lane_count)
    each_part<T>(largest, i, take);
  each_part<T>(largest, n - lane_count, take); // once more what is there already
  return detail::fold(largest, [](auto a, auto b) { return above(b, a); });
}

/// to[i] = e^(from[i] - largest); gives their sum: lane j of 32 adds elements j, j + 32, j + 64,
/// ..., and the lanes fold in halves. `to` may be `from`.
template <class T>
T exp_piece(const T* from, T largest, T* to, std::size_t n) {
  using v = detail::widest_simd<T>;
  strip<T> sums;
  each_part<T>(sums, 0, [](v& sum, std::size_t) { sum = v::of(T(0)); });
  const auto exp_at = [=](v x) { return detail::exp_of(x - v::of(largest)); };
  std::size_t i = 0;
  for (; i + lane_count <= n; i += lane_count)
    each_part<T>(sums, i, [=](v& sum, std::size_t at) {
      const v e = exp_at(v::load(from + at));
      e.store(to + at);
      sum = sum + e;
    });
  each_part<T>(sums, i, [=](v& sum, std::size_t at) {
    const std::size_t left = at < n ? n - at : 0;
    constexpr std::size_t all = sizeof(v) / sizeof(T);
    if (left >= all) {
      const v e = exp_at(v::load(from + at));
      e.store(to + at);
      sum = sum + e;
    } else if (left > 0) { // filled up with what has the exponential 0
      const v e = exp_at(load_first(from + at, left, v::of(-infinity_of<T>)));
      store_first(e, to + at, left);
      sum = sum + e;
    }
  });
  return detail::fold(sums, [](auto a, auto b) { return a + b; });
}

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

/// Turns the exponentials of a row into its gradient.
template <class T>
void finish_row(T* row, std::size_t classes, std::size_t label, T total, T batch) {
  const T part = T(1) / (total * batch);
  TROUPE_INDEPENDENT_LOOP
  for (std::size_t c = 0; c < classes; ++c)
    row[c] *= part;
  row[label] -= T(1) / batch;
}

/// Loss of rows of lane_count elements or more. The gradient, if not null, is written; it may be
/// `logits`. Pieces of a row are summed each for itself and then in order.
template <class T, class Label>
double wide_rows_loss(const T* logits, std::span<const Label> labels, std::size_t classes,
                      T* gradient) {
  T buffer[buffer_len];
  const T batch = static_cast<T>(labels.size());
  double loss = 0.0;
  T largest = largest_of_wide(logits, classes);
  for (std::size_t r = 0; r < labels.size(); ++r) {
    const T* row = logits + r * classes;
    T* to = gradient ? gradient + r * classes : nullptr;
    const auto label = static_cast<std::size_t>(labels[r]);
    const T at_label = row[label] - largest;
    T total = T(0);
    for (std::size_t at = 0; at < classes; at += buffer_len)
      total +=
        exp_piece(row + at, largest, to ? to + at : buffer, std::min(buffer_len, classes - at));
    // The next row's search has something to do while the sum above is still under way.
    if (r + 1 < labels.size())
      largest = largest_of_wide(row + classes, classes);
    if (to)
      finish_row(to, classes, label, total, batch);
    loss += log_of(total) - static_cast<double>(at_label);
  }
  return loss;
}

/// Loss of short rows side by side, of at most `buffer_len` elements in all, with one loop for
/// their exponentials. The gradient, if not null, is written; it may be `logits`.
template <class T, class Label>
double short_rows_loss(const T* logits, std::span<const Label> labels, std::size_t classes, T batch,
                       T* gradient) {
  T buffer[buffer_len];
  T* const work = gradient ? gradient : buffer;
  double loss = 0.0;
  for (std::size_t r = 0; r < labels.size(); ++r) {
    T* to = work + r * classes;
    shift(logits + r * classes, largest_of_short(logits + r * classes, classes), to, classes);
    loss -= static_cast<double>(to[static_cast<std::size_t>(labels[r])]);
  }
  detail::exp_all(work, labels.size() * classes);
  for (std::size_t r = 0; r < labels.size(); ++r) {
    T* row = work + r * classes;
    T total = T(0);
    for (std::size_t c = 0; c < classes; ++c)
      total += row[c];
    loss += log_of(total);
    if (gradient)
      finish_row(row, classes, static_cast<std::size_t>(labels[r]), total, batch);
  }
  return loss;
}

/// Whether a search that starts at row[0] and moves on to what is larger ends at row[at]. Asked of
/// the one element, so that no step waits for another; there is no early exit to mispredict.
template <class T>
bool is_first_largest(const T* row, std::size_t n, std::size_t at) {
  const T x = row[at];
  if (row[0] != row[0]) // nothing is larger than a NaN
    return at == 0;
  unsigned beaten = x == x ? 0u : 1u; // nor is a NaN
  if (n < lane_count) {
    for (std::size_t c = 0; c < n; ++c)
      beaten |= unsigned{row[c] > x} | (unsigned{row[c] == x} & unsigned{c < at});
  } else {
    for (std::size_t c = 0; c < at; ++c)
      beaten |= unsigned{row[c] >= x};
    for (std::size_t c = at + 1; c < n; ++c)
      beaten |= unsigned{row[c] > x};
  }
  return beaten == 0;
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
  T* const gradient = dlogits.empty() ? nullptr : dlogits.data();
  if (classes >= lane_count)
    return wide_rows_loss(logits.data(), labels, classes, gradient) / static_cast<double>(batch);
  const std::size_t rows_at_once = buffer_len / classes;
  double loss = 0.0;
  for (std::size_t row = 0; row < batch; row += rows_at_once)
    loss += short_rows_loss(logits.data() + row * classes,
                            labels.subspan(row, std::min(rows_at_once, batch - row)), classes,
                            static_cast<T>(batch), gradient ? gradient + row * classes : nullptr);
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
    correct += is_first_largest(row, classes, static_cast<std::size_t>(labels[b])) ? 1 : 0;
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
