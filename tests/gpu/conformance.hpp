#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/device/ops.hpp>
#include <troupe/kernels/bucket.hpp>
#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/gather_scatter.hpp>
#include <troupe/kernels/nn.hpp>
#include <troupe/kernels/optimizers.hpp>
#include <troupe/kernels/reduce.hpp>

/// Each kernel on a device against the CPU's, over sizes around the edges of what it cuts its work
/// into, unaligned arrays, and special values. The same checks run on a CPU device, on a made-up
/// device, and on a GPU.
namespace conformance {

using namespace troupe;

/// Under a checker that slows everything down, TROUPE_GPU_QUICK leaves out most sizes.
inline const std::vector<std::size_t> all_sizes = {0,   1,   2,    3,    7,    31,   32,    33,
                                                   255, 256, 1023, 1024, 1025, 4097, 32773, 100003};
inline const std::vector<std::size_t> few_sizes = {0, 1, 5, 33, 1025, 32773};

inline const std::vector<std::size_t>& sizes =
  std::getenv("TROUPE_GPU_QUICK") == nullptr ? all_sizes : few_sizes;

/// A device under test, one stream of it, and its kernels.
struct rig {
  explicit rig(std::shared_ptr<device> on)
    : d{std::move(on)}, s{d->make_stream("test").value_or_throw()}, ops{d, s} {}

  template <class T>
  device_tensor up(const std::vector<T>& x, dtype type, shape_t shape) {
    tensor host{type, shape};
    if (!x.empty())
      std::memcpy(host.mutable_bytes().data(), x.data(), host.size_bytes());
    return device_tensor::from_host(d, s, host).value_or_throw();
  }
  template <class T>
  device_tensor up(const std::vector<T>& x) {
    return up(x, dtype_of<T>::value, {static_cast<std::int64_t>(x.size())});
  }
  /// The elements behind the first, so that no vector load may be used.
  template <class T>
  device_tensor up_unaligned(const std::vector<T>& x) {
    std::vector<T> longer(1);
    longer.insert(longer.end(), x.begin(), x.end());
    auto all = up(longer);
    return device_tensor::wrap(d, all.type(), {static_cast<std::int64_t>(x.size())}, all.owner(),
                               static_cast<T*>(all.data()) + 1);
  }
  template <class T>
  std::vector<T> down(const device_tensor& x) {
    auto host = x.to_host(s).value_or_throw();
    std::vector<T> out(host.size_bytes() / sizeof(T));
    if (!out.empty())
      std::memcpy(out.data(), host.bytes().data(), host.size_bytes());
    return out;
  }
  device_tensor empty(dtype type, shape_t shape) {
    return device_tensor::make(d, s, type, std::move(shape)).value_or_throw();
  }

  std::shared_ptr<device> d;
  device_stream s;
  device_ops ops;
};

/// Numbers of a bell, with special ones among them when `special`.
template <class T>
std::vector<T> numbers(std::size_t n, unsigned seed, bool special = true) {
  std::mt19937 random{seed};
  std::vector<T> out(n);
  if constexpr (std::is_floating_point_v<T>) {
    using lim = std::numeric_limits<T>;
    const T odd[] = {
      lim::quiet_NaN(),   lim::infinity(), -lim::infinity(), T(0),       -T(0), lim::denorm_min(),
      -lim::denorm_min(), lim::max(),      lim::lowest(),    lim::min(), T(1),  T(-1)};
    std::normal_distribution<T> bell{T(0), T(2)};
    for (auto& x : out)
      x = special && random() % 8 == 0 ? odd[random() % std::size(odd)] : bell(random);
  } else {
    using lim = std::numeric_limits<T>;
    const T odd[] = {T(0), T(1), T(-1), lim::max(), lim::lowest()};
    for (auto& x : out)
      x = special && random() % 8 == 0 ? odd[random() % std::size(odd)]
                                       : static_cast<T>(static_cast<int>(random() % 2001) - 1000);
  }
  return out;
}

/// Same bits, where any NaN is any other.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a != a || b != b)
      return a != a && b != b;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// The first difference, in words; empty when there is none.
template <class T>
std::string differs(const std::vector<T>& got, const std::vector<T>& expected) {
  if (got.size() != expected.size())
    return std::to_string(got.size()) + " elements, expected " + std::to_string(expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!same(got[i], expected[i]))
      return "[" + std::to_string(i) + "] is " + std::to_string(got[i]) + ", expected "
             + std::to_string(expected[i]);
  return {};
}

/// The first element that is off by more than `relative` of its size, or `absolute`.
template <class T>
std::string off(const std::vector<T>& got, const std::vector<T>& expected, double relative,
                double absolute) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(expected[i]);
    if (same(got[i], expected[i]) || std::fabs(a - b) <= absolute + relative * std::fabs(b))
      continue;
    return "[" + std::to_string(i) + "] is " + std::to_string(a) + ", expected "
           + std::to_string(b);
  }
  return got.size() == expected.size() ? std::string{} : "other number of elements";
}

inline void done(const result<void>& x) {
  REQUIRE_MESSAGE(x, (x ? std::string{} : to_string(x.error())));
}

#define TROUPE_SAME(got, expected) CHECK(conformance::differs(got, expected) == "")

// -- element-wise ---------------------------------------------------------------------------------

template <class T>
void check_elementwise(rig& r) {
  using binary =
    result<void> (device_ops::*)(const device_tensor&, const device_tensor&, const device_tensor&);
  using reference = void (*)(std::span<const T>, std::span<const T>, std::span<T>);
  struct pair {
    const char* name;
    binary on_device;
    reference on_host;
  };
  const pair all[] = {
    {"add", &device_ops::add, kernels::add<T>}, {"sub", &device_ops::sub, kernels::sub<T>},
    {"mul", &device_ops::mul, kernels::mul<T>}, {"div", &device_ops::div, kernels::div<T>},
    {"min", &device_ops::min, kernels::min<T>}, {"max", &device_ops::max, kernels::max<T>}};
  for (auto n : sizes) {
    const auto a = numbers<T>(n, 1), b = numbers<T>(n, 2);
    for (const auto& each : all) {
      CAPTURE(each.name);
      CAPTURE(n);
      std::vector<T> expected(n);
      each.on_host(a, b, expected);
      auto x = r.up(a), y = r.up(b),
           out = r.empty(dtype_of<T>::value, {static_cast<std::int64_t>(n)});
      done((r.ops.*each.on_device)(x, y, out));
      TROUPE_SAME(r.down<T>(out), expected);
      done((r.ops.*each.on_device)(x, y, x)); // in place
      TROUPE_SAME(r.down<T>(x), expected);
      auto ua = r.up_unaligned(a), ub = r.up_unaligned(b);
      done((r.ops.*each.on_device)(ua, ub, ub));
      TROUPE_SAME(r.down<T>(ub), expected);
    }
    const T alpha = static_cast<T>(3);
    auto expected = b;
    kernels::axpy<T>(alpha, a, expected);
    auto x = r.up(a), y = r.up(b);
    done(r.ops.axpy(3, x, y));
    TROUPE_SAME(r.down<T>(y), expected);
    kernels::scale<T>(alpha, a, expected);
    done(r.ops.scale(3, x, x));
    TROUPE_SAME(r.down<T>(x), expected);
    kernels::fill<T>(alpha, expected);
    done(r.ops.fill(3, y));
    TROUPE_SAME(r.down<T>(y), expected);
  }
}

inline void check_casts(rig& r) {
  using bits = std::uint16_t;
  for (auto n : sizes) {
    CAPTURE(n);
    const auto x = numbers<float>(n, 3);
    std::vector<bits> any(n);
    for (std::size_t i = 0; i < n; ++i)
      any[i] = static_cast<bits>(i * 40503u);
    for (auto type : {dtype::bf16, dtype::f16}) {
      CAPTURE(to_string(type));
      const bool bf16 = type == dtype::bf16;
      std::vector<bits> narrow(n);
      std::vector<float> wide(n);
      (bf16 ? kernels::cast_f32_to_bf16 : kernels::cast_f32_to_f16)(x, narrow);
      (bf16 ? kernels::cast_bf16_to_f32 : kernels::cast_f16_to_f32)(any, wide);
      const shape_t shape{static_cast<std::int64_t>(n)};
      auto out = r.empty(type, shape);
      done(r.ops.cast(r.up(x), out));
      TROUPE_SAME(r.down<bits>(out), narrow);
      auto back = r.empty(dtype::f32, shape);
      done(r.ops.cast(r.up(any, type, shape), back));
      TROUPE_SAME(r.down<float>(back), wide);
    }
  }
}

// -- reductions -----------------------------------------------------------------------------------

template <class T>
void check_reductions(rig& r) {
  auto with_large = sizes;
  with_large.push_back(1024 * 1024 * 2 + 3000); // partial results of many blocks
  for (auto n : with_large)
    for (bool special : {false, true}) {
      CAPTURE(n);
      CAPTURE(special);
      const auto x = numbers<T>(n, 4, special);
      auto in = r.up(x);
      using sum_type = kernels::sum_t<T>;
      auto total = r.empty(dtype_of<sum_type>::value, {});
      done(r.ops.sum(in, total));
      TROUPE_SAME(r.down<sum_type>(total), std::vector{kernels::sum<T>(x)});
      auto f64 = r.empty(dtype::f64, {});
      done(r.ops.mean(in, f64));
      TROUPE_SAME(r.down<double>(f64), std::vector{kernels::mean<T>(x)});
      if constexpr (std::is_integral_v<T>) { // whose sum would wrap
        const std::vector<T> ends(n, std::numeric_limits<T>::max());
        done(r.ops.mean(r.up(ends), f64));
        TROUPE_SAME(r.down<double>(f64), std::vector{kernels::mean<T>(ends)});
      }
      auto largest = r.empty(dtype_of<T>::value, {});
      done(r.ops.max_element(in, largest));
      TROUPE_SAME(r.down<T>(largest), std::vector{kernels::max_element<T>(x)});
      if constexpr (std::is_same_v<T, float>) {
        done(r.ops.l2_norm(in, f64));
        TROUPE_SAME(r.down<double>(f64), std::vector{kernels::l2_norm<T>(x)});
      }
    }
}

/// A largest zero is +0 on every device, whatever the signs and places of the zeros.
template <class T>
void check_largest_zero(rig& r) {
  for (std::size_t n : {1, 33, 1024, 70001})
    for (std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      CAPTURE(n);
      CAPTURE(at);
      std::vector<T> x(n, T(-1));
      x[at] = -T(0);
      for (T other : {-T(0), T(0)}) {
        x[(at + n / 3) % n] = other;
        auto largest = r.empty(dtype_of<T>::value, {});
        done(r.ops.max_element(r.up(x), largest));
        TROUPE_SAME(r.down<T>(largest), std::vector{T(0)});
        TROUPE_SAME(r.down<T>(largest), std::vector{kernels::max_element<T>(x)});
      }
    }
}

// -- update rules ---------------------------------------------------------------------------------

template <class T>
void check_updates(rig& r) {
  // Where the CPU takes denormal numbers as zero, results may be apart by less than a normal
  // number.
  const double tiny = static_cast<double>(std::numeric_limits<T>::min());
  for (auto n : sizes) {
    CAPTURE(n);
    auto p = numbers<T>(n, 5), g = numbers<T>(n, 6), m = numbers<T>(n, 7), v = numbers<T>(n, 8);
    for (auto& x : v)
      x = std::fabs(x);
    const auto gd = r.up(g);
    {
      auto a = p;
      auto pd = r.up(p);
      kernels::sgd_update<T>(a, a, g, {.learning_rate = 0.1});
      done(r.ops.sgd_update(pd, gd, {.learning_rate = 0.1}));
      TROUPE_SAME(r.down<T>(pd), a);
    }
    for (bool nesterov : {false, true}) {
      auto a = p, b = m;
      auto pd = r.up(p), md = r.up_unaligned(m);
      const kernels::momentum_params how{.learning_rate = 0.1, .nesterov = nesterov};
      kernels::momentum_update<T>(a, a, b, b, g, how);
      done(r.ops.momentum_update(pd, md, gd, how));
      CHECK(off(r.down<T>(pd), a, 0, tiny) == "");
      CHECK(off(r.down<T>(md), b, 0, tiny) == "");
    }
    {
      auto a = p, b = v;
      auto pd = r.up(p), vd = r.up(v);
      kernels::adagrad_update<T>(a, a, b, b, g, {.learning_rate = 0.1});
      done(r.ops.adagrad_update(pd, vd, gd, {.learning_rate = 0.1}));
      TROUPE_SAME(r.down<T>(pd), a);
      TROUPE_SAME(r.down<T>(vd), b);
    }
    for (std::uint64_t t : {1, 1000}) {
      auto a = p, b = m, c = v;
      auto pd = r.up(p), md = r.up(m), vd = r.up(v);
      kernels::adam_update<T>(a, a, b, b, c, c, g, t, {});
      done(r.ops.adam_update(pd, md, vd, gd, t, {}));
      CHECK(off(r.down<T>(pd), a, 0, tiny) == "");
      CHECK(off(r.down<T>(md), b, 0, tiny) == "");
      CHECK(off(r.down<T>(vd), c, 0, tiny) == "");
    }
  }
}

/// The rule of every row of the table of optimizers, dispatched on the device as on the CPU.
template <class T>
void check_updates_by_kind(rig& r) {
  const double tiny = static_cast<double>(std::numeric_limits<T>::min());
  const kernels::update_step step{.learning_rate = 0.1, .t = 3};
  const std::size_t n = 1025;
  const auto p = numbers<T>(n, 5), g = numbers<T>(n, 6);
  for (const auto& row : optimizer_table) {
    CAPTURE(row.name);
    const optimizer_spec how{.kind = row.kind, .momentum = 0.5f, .nesterov = true, .beta_1 = 0.75f};
    std::vector<std::vector<T>> slots;
    std::vector<device_tensor> on_device;
    for (std::size_t i = 0; i < row.slots.size(); ++i) {
      slots.push_back(numbers<T>(n, static_cast<unsigned>(7 + i)));
      for (auto& x : slots.back())
        x = std::fabs(x);
      on_device.push_back(r.up(slots.back()));
    }
    auto want = p;
    const auto pd = r.up(p), gd = r.up(g);
    if (row.kind == optimizer_kind::none) {
      CHECK(r.ops.update(how, step, pd, on_device, gd).error().code == errc::invalid_argument);
      continue;
    }
    kernels::update_arrays<T> at{.p_in = want, .p_out = want};
    for (std::size_t i = 0; i < slots.size(); ++i) {
      at.slots_in[i] = slots[i];
      at.slots_out[i] = slots[i];
    }
    kernels::update<T>(how, step, at, g);
    done(r.ops.update(how, step, pd, on_device, gd));
    CHECK(off(r.down<T>(pd), want, 0, tiny) == "");
    for (std::size_t i = 0; i < slots.size(); ++i)
      CHECK(off(r.down<T>(on_device[i]), slots[i], 0, tiny) == "");
    on_device.push_back(gd); // one slot too many
    CHECK(r.ops.update(how, step, pd, on_device, gd).error().code == errc::invalid_argument);
  }
}

// -- layers ---------------------------------------------------------------------------------------

template <class T>
void check_dense(rig& r) {
  const double close = std::is_same_v<T, float> ? 1e-5 : 1e-13;
  const kernels::dense_size all[] = {
    {1, 1, 1}, {3, 5, 7}, {64, 784, 128}, {33, 129, 10}, {0, 4, 3}};
  for (const auto& size : all) {
    CAPTURE(size.batch);
    CAPTURE(size.inputs);
    const auto [n, in, out] =
      std::tuple{static_cast<std::int64_t>(size.batch), static_cast<std::int64_t>(size.inputs),
                 static_cast<std::int64_t>(size.outputs)};
    const auto type = dtype_of<T>::value;
    const auto x = numbers<T>(size.batch * size.inputs, 1, false);
    const auto w = numbers<T>(size.inputs * size.outputs, 2, false);
    const auto b = numbers<T>(size.outputs, 3, false);
    std::vector<T> y(size.batch * size.outputs), dw(w.size()), db(b.size()), dx(x.size());
    kernels::dense_forward<T>(x, std::span<const T>{w}, std::span<const T>{b}, size, y);
    auto xd = r.up(x, type, {n, in}), wd = r.up(w, type, {in, out}), bd = r.up(b, type, {out});
    auto yd = r.empty(type, {n, out});
    done(r.ops.dense_forward(xd, wd, bd, yd));
    const double scale = 10.0 * std::sqrt(static_cast<double>(size.inputs));
    CHECK(off(r.down<T>(yd), y, close, close * scale) == "");
    const auto dy = numbers<T>(y.size(), 4, false);
    kernels::dense_backward<T>(x, std::span<const T>{w}, dy, size, dw, db, dx);
    auto dyd = r.up(dy, type, {n, out});
    auto dwd = r.empty(type, {in, out}), dbd = r.empty(type, {out}), dxd = r.empty(type, {n, in});
    done(r.ops.dense_backward(xd, wd, dyd, dwd, dbd, dxd));
    CHECK(off(r.down<T>(dwd), dw, close, close * scale) == "");
    TROUPE_SAME(r.down<T>(dbd), db);
    CHECK(off(r.down<T>(dxd), dx, close, close * scale) == "");
    auto added = y;
    kernels::add_bias<T>(b, added);
    auto base = r.up(y, type, {n, out});
    done(r.ops.add_bias(bd, base));
    TROUPE_SAME(r.down<T>(base), added);
  }
}

template <class T, class Label>
void check_softmax(rig& r) {
  const double close = std::is_same_v<T, float> ? 2e-6 : 1e-14;
  for (std::size_t batch : {0, 1, 7, 64, 1000})
    for (std::size_t classes : {1, 2, 10, 31, 33, 100}) {
      CAPTURE(batch);
      CAPTURE(classes);
      auto x = numbers<T>(batch * classes, 9, false);
      for (auto& each : x)
        each *= T(20);
      std::vector<Label> labels(batch);
      for (std::size_t i = 0; i < batch; ++i)
        labels[i] = static_cast<Label>(i * 7 % classes);
      const shape_t shape{static_cast<std::int64_t>(batch), static_cast<std::int64_t>(classes)};
      std::vector<T> dx(x.size());
      const double loss =
        kernels::softmax_cross_entropy<T, Label>(x, labels, classes, std::span<T>{dx});
      auto logits = r.up(x, dtype_of<T>::value, shape);
      auto labels_d = r.up(labels);
      auto dlogits = r.empty(dtype_of<T>::value, shape);
      auto loss_d = r.empty(dtype::f64, {});
      done(r.ops.softmax_cross_entropy(logits, labels_d, dlogits, loss_d));
      CHECK(off(r.down<double>(loss_d), {loss}, close, close) == "");
      CHECK(off(r.down<T>(dlogits), dx, close * 10, close) == "");
      done(r.ops.softmax_cross_entropy(logits, labels_d, {}, loss_d));
      CHECK(off(r.down<double>(loss_d), {loss}, close, close) == "");
      auto correct = r.empty(dtype::i64, {});
      done(r.ops.accuracy_count(logits, labels_d, correct));
      const auto expected =
        static_cast<std::int64_t>(kernels::accuracy_count<T, Label>(x, labels, classes));
      TROUPE_SAME(r.down<std::int64_t>(correct), std::vector{expected});
      done(r.ops.softmax_cross_entropy(logits, labels_d, logits, loss_d)); // in place
      CHECK(off(r.down<T>(logits), dx, close * 10, close) == "");
    }
}

/// Equal logits and NaN: the first of the largest is the row's answer, on every device.
template <class T>
void check_accuracy_of_odd_rows(rig& r) {
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  constexpr std::size_t classes = 70;
  std::vector<T> x(4 * classes, T(1));
  x[1 * classes + 5] = nan; // passed over
  x[2 * classes] = nan;     // the first: nothing is larger
  x[3 * classes + 40] = x[3 * classes + 69] = T(2);
  for (std::int64_t label : {0, 5, 40, 69}) {
    const std::vector<std::int64_t> labels(4, label);
    auto correct = r.empty(dtype::i64, {});
    done(r.ops.accuracy_count(r.up(x, dtype_of<T>::value, {4, classes}), r.up(labels), correct));
    const auto expected =
      static_cast<std::int64_t>(kernels::accuracy_count<T, std::int64_t>(x, labels, classes));
    TROUPE_SAME(r.down<std::int64_t>(correct), std::vector{expected});
  }
}

template <class T>
void check_relu(rig& r) {
  for (auto n : sizes) {
    CAPTURE(n);
    const auto x = numbers<T>(n, 10), dy = numbers<T>(n, 11);
    std::vector<T> y(n), dx(n);
    kernels::relu_forward<T>(x, y);
    kernels::relu_backward<T>(y, dy, dx);
    auto xd = r.up(x), dyd = r.up_unaligned(dy);
    done(r.ops.relu_forward(xd, xd));
    TROUPE_SAME(r.down<T>(xd), y);
    done(r.ops.relu_backward(xd, dyd, dyd));
    TROUPE_SAME(r.down<T>(dyd), dx);
  }
}

// -- rows -----------------------------------------------------------------------------------------

template <class T>
void check_rows(rig& r) {
  constexpr std::size_t height = 97;
  for (std::size_t cols : {1, 3, 32, 65})
    for (auto n : few_sizes) {
      CAPTURE(cols);
      CAPTURE(n);
      const auto table = numbers<T>(height * cols, 12, false);
      const auto values = numbers<T>(n * cols, 13, false);
      std::vector<std::int64_t> rows(n); // most of them often, so that sums have an order
      for (std::size_t i = 0; i < n; ++i)
        rows[i] = static_cast<std::int64_t>((i * i * 31 + i / 3) % height);
      const auto type = dtype_of<T>::value;
      const auto width = static_cast<std::int64_t>(cols), count = static_cast<std::int64_t>(n);
      auto td = r.up(table, type, {height, width});
      auto rd = r.up(rows);
      auto bad = r.empty(dtype::i64, {});
      std::vector<T> out(n * cols);
      kernels::gather_rows<T>(table, cols, rows, out);
      auto od = r.empty(type, {count, width});
      done(r.ops.gather_rows(td, rd, od, bad));
      TROUPE_SAME(r.down<T>(od), out);
      TROUPE_SAME(r.down<std::int64_t>(bad), std::vector<std::int64_t>{0});
      auto sums = table;
      kernels::scatter_rows<T>(kernels::scatter_op::add, sums, cols, rows, values);
      done(r.ops.scatter_add_rows(td, rd, r.up(values, type, {count, width}), bad));
      TROUPE_SAME(r.down<T>(td), sums);
      TROUPE_SAME(r.down<std::int64_t>(bad), std::vector<std::int64_t>{0});
    }
}

/// Rows out of range are counted and left out, and touch nothing.
inline void check_bad_rows(rig& r) {
  const std::vector<float> table{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> rows{2, -1, 0, 3, std::numeric_limits<std::int64_t>::max()};
  auto td = r.up(table, dtype::f32, {3, 2});
  auto rd = r.up(rows);
  auto bad = r.empty(dtype::i64, {});
  auto od = r.empty(dtype::f32, {5, 2});
  done(r.ops.gather_rows(td, rd, od, bad));
  TROUPE_SAME(r.down<float>(od), (std::vector<float>{5, 6, 0, 0, 1, 2, 0, 0, 0, 0}));
  TROUPE_SAME(r.down<std::int64_t>(bad), std::vector<std::int64_t>{3});
  auto vd = r.up(std::vector<float>(10, 1.0f), dtype::f32, {5, 2});
  done(r.ops.scatter_add_rows(td, rd, vd, bad));
  TROUPE_SAME(r.down<float>(td), (std::vector<float>{2, 3, 3, 4, 6, 7}));
  TROUPE_SAME(r.down<std::int64_t>(bad), std::vector<std::int64_t>{3});
}

// -- buckets --------------------------------------------------------------------------------------

inline void check_buckets(rig& r) {
  // More parts than one launch takes, some of them empty.
  std::vector<std::vector<float>> parts;
  for (unsigned i = 0; i < 300; ++i)
    parts.push_back(numbers<float>(i % 7 == 0 ? 0 : i * i % 5003, i));
  std::vector<std::span<const float>> views(parts.begin(), parts.end());
  std::size_t all = 0;
  for (const auto& part : parts)
    all += part.size();
  std::vector<device_tensor> on_device;
  for (const auto& part : parts)
    on_device.push_back(r.up(part));
  const shape_t shape{static_cast<std::int64_t>(all)};
  std::vector<float> plain(all);
  std::vector<std::uint16_t> half(all);
  kernels::pack_bucket(views, plain);
  kernels::pack_bucket_bf16(views, half);
  auto wide = r.empty(dtype::f32, shape), narrow = r.empty(dtype::bf16, shape);
  done(r.ops.pack_bucket(on_device, wide));
  TROUPE_SAME(r.down<float>(wide), plain);
  done(r.ops.pack_bucket(on_device, narrow));
  TROUPE_SAME(r.down<std::uint16_t>(narrow), half);
  std::vector<std::span<float>> targets(parts.begin(), parts.end());
  kernels::unpack_bucket(plain, targets, 0.3f);
  done(r.ops.unpack_bucket(wide, on_device, 0.3f));
  for (std::size_t i = 0; i < parts.size(); ++i)
    TROUPE_SAME(r.down<float>(on_device[i]), parts[i]);
  kernels::unpack_bucket_bf16(half, targets, 0.5f);
  done(r.ops.unpack_bucket(narrow, on_device, 0.5f));
  for (std::size_t i = 0; i < parts.size(); ++i)
    TROUPE_SAME(r.down<float>(on_device[i]), parts[i]);
}

/// Names and checks: one function a kernel family, for runners to list.
struct family {
  const char* name;
  void (*check)(rig&);
};

inline const family families[] = {
  {"element-wise f32", check_elementwise<float>},
  {"element-wise f64", check_elementwise<double>},
  {"element-wise i32", check_elementwise<std::int32_t>},
  {"element-wise i64", check_elementwise<std::int64_t>},
  {"casts", check_casts},
  {"reductions f32", check_reductions<float>},
  {"reductions of zeros f32", check_largest_zero<float>},
  {"reductions of zeros f64", check_largest_zero<double>},
  {"reductions f64", check_reductions<double>},
  {"reductions i32", check_reductions<std::int32_t>},
  {"reductions i64", check_reductions<std::int64_t>},
  {"updates f32", check_updates<float>},
  {"updates f64", check_updates<double>},
  {"updates by kind f32", check_updates_by_kind<float>},
  {"updates by kind f64", check_updates_by_kind<double>},
  {"dense f32", check_dense<float>},
  {"dense f64", check_dense<double>},
  {"relu f32", check_relu<float>},
  {"relu f64", check_relu<double>},
  {"softmax f32, u8", check_softmax<float, std::uint8_t>},
  {"softmax f32, i64", check_softmax<float, std::int64_t>},
  {"softmax f64, i32", check_softmax<double, std::int32_t>},
  {"accuracy of odd rows", check_accuracy_of_odd_rows<float>},
  {"rows f32", check_rows<float>},
  {"rows f64", check_rows<double>},
  {"rows i64", check_rows<std::int64_t>},
  {"rows out of range", check_bad_rows},
  {"buckets", check_buckets},
};

} // namespace conformance
