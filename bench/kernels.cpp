// The CPU kernels against what the machine gives plain code: the same expression in Eigen, or a
// memcpy of as many bytes. One thread. Each kernel on arrays that stay in the second-level cache,
// and on arrays of 16 MiB. Both work on the same arrays: which pages an array got decides as much
// as the code does.
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include <Eigen/Core>

#include <troupe/kernels/bucket.hpp>
#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/gather_scatter.hpp>
#include <troupe/kernels/nn.hpp>
#include <troupe/kernels/optimizers.hpp>
#include <troupe/kernels/reduce.hpp>

#include "detail/bench.hpp"

namespace k = troupe::kernels;

namespace {

using array = Eigen::Map<Eigen::ArrayXf>;
using matrix = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

/// Memory as Eigen likes it, filled.
struct floats {
  explicit floats(std::size_t n, unsigned seed = 1) : x(static_cast<Eigen::Index>(n)) {
    std::mt19937 random{seed};
    std::uniform_real_distribution<float> draw{0.1f, 1.0f};
    for (auto& each : x)
      each = draw(random);
  }
  std::span<float> all() { return {x.data(), static_cast<std::size_t>(x.size())}; }
  array map() { return {x.data(), x.size()}; }
  Eigen::ArrayXf x;
};

/// Whether the compiler must believe that somebody reads it.
template <class T>
void used(const T& x) {
  asm volatile("" : : "g"(&x) : "memory");
}

/// Seconds a call, over enough calls that a clock can tell.
double time_of(const std::function<void()>& call, double seconds_min) {
  std::size_t calls = 1;
  for (;;) {
    const auto begin = bench::steady::now();
    for (std::size_t i = 0; i < calls; ++i)
      call();
    const double took = bench::seconds_since(begin);
    if (took >= seconds_min)
      return took / static_cast<double>(calls);
    calls = took <= 0 ? calls * 10
                      : std::max(calls + 1, static_cast<std::size_t>(1.2 * seconds_min / took
                                                                     * static_cast<double>(calls)));
  }
}

struct suite {
  bench::report& report;
  double seconds_min;

  /// `bytes`: read and written by a call.
  void row(const std::string& name, std::size_t n, double bytes, const char* peer,
           const std::function<void()>& ours, const std::function<void()>& theirs) {
    const auto full = name + (n <= 1 << 16 ? "_cache" : "_memory");
    if (!report.wants(full))
      return;
    auto samples = report.interleave({[&] { return bytes / time_of(ours, seconds_min) * 1e-9; },
                                      [&] { return bytes / time_of(theirs, seconds_min) * 1e-9; }});
    report.add({.name = full,
                .params = {{"elements", std::to_string(n)}},
                .unit = "GB/s",
                .direction = bench::better::more,
                .ours = samples[0],
                .peer = peer,
                .peers = samples[1]});
  }
};

void elementwise(suite& s, std::size_t n) {
  floats a(n, 1), b(n, 2), c(n, 3);
  auto& d = c; // the peer's
  const double f = static_cast<double>(n) * sizeof(float);
  s.row(
    "add", n, 3 * f, "eigen",
    [&] {
      k::add<float>(a.all(), b.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = a.map() + b.map();
      used(d);
    });
  s.row(
    "sub", n, 3 * f, "eigen",
    [&] {
      k::sub<float>(a.all(), b.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = a.map() - b.map();
      used(d);
    });
  s.row(
    "mul", n, 3 * f, "eigen",
    [&] {
      k::mul<float>(a.all(), b.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = a.map() * b.map();
      used(d);
    });
  s.row(
    "div", n, 3 * f, "eigen",
    [&] {
      k::div<float>(a.all(), b.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = a.map() / b.map();
      used(d);
    });
  s.row(
    "min", n, 3 * f, "eigen",
    [&] {
      k::min<float>(a.all(), b.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = a.map().min(b.map());
      used(d);
    });
  s.row(
    "max", n, 3 * f, "eigen",
    [&] {
      k::max<float>(a.all(), b.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = a.map().max(b.map());
      used(d);
    });
  s.row(
    "axpy", n, 3 * f, "eigen",
    [&] {
      k::axpy<float>(1e-9f, a.all(), c.all());
      used(c);
    },
    [&] {
      d.map() += 1e-9f * a.map();
      used(d);
    });
  s.row(
    "scale", n, 2 * f, "eigen",
    [&] {
      k::scale<float>(0.5f, a.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = 0.5f * a.map();
      used(d);
    });
  s.row(
    "fill", n, f, "eigen",
    [&] {
      k::fill<float>(0.5f, c.all());
      used(c);
    },
    [&] {
      d.map().setConstant(0.5f);
      used(d);
    });
  s.row(
    "relu_forward", n, 2 * f, "eigen",
    [&] {
      k::relu_forward<float>(a.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = a.map().max(0.0f);
      used(d);
    });
  s.row(
    "relu_backward", n, 3 * f, "eigen",
    [&] {
      k::relu_backward<float>(a.all(), b.all(), c.all());
      used(c);
    },
    [&] {
      d.map() = (a.map() > 0.0f).select(b.map(), 0.0f);
      used(d);
    });
}

/// The bias of the layer that `layers` has, on rows of n elements in all, and the search that comes
/// before an integer division.
void rows_and_zeros(suite& s, std::size_t n) {
  constexpr std::size_t width = 128;
  floats bias(width, 1), y(n, 2), z(n, 2);
  const double f = static_cast<double>(n) * sizeof(float);
  const auto rows = static_cast<Eigen::Index>(n / width), cols = Eigen::Index{width};
  matrix mz(z.x.data(), rows, cols);
  Eigen::Map<Eigen::RowVectorXf> mb(bias.x.data(), cols);
  s.row(
    "add_bias", n, 2 * f, "eigen",
    [&] {
      k::add_bias<float>(bias.all(), y.all());
      used(y);
    },
    [&] {
      mz.rowwise() += mb;
      used(z);
    });
  Eigen::ArrayXi whole = Eigen::ArrayXi::Constant(static_cast<Eigen::Index>(n), 3);
  s.row(
    "any_zero", n, f, "eigen",
    [&] {
      bool x = k::any_zero(std::span<const std::int32_t>(whole.data(), n));
      used(x);
    },
    [&] {
      bool x = (whole == 0).count() != 0;
      used(x);
    });
}

void reductions(suite& s, std::size_t n) {
  floats a(n);
  const double f = static_cast<double>(n) * sizeof(float);
  s.row(
    "sum", n, f, "eigen",
    [&] {
      auto x = k::sum<float>(a.all());
      used(x);
    },
    [&] {
      auto x = a.map().sum();
      used(x);
    });
  s.row(
    "mean", n, f, "eigen",
    [&] {
      auto x = k::mean<float>(a.all());
      used(x);
    },
    [&] {
      auto x = a.map().mean();
      used(x);
    });
  s.row(
    "max_element", n, f, "eigen",
    [&] {
      auto x = k::max_element<float>(a.all());
      used(x);
    },
    [&] {
      auto x = a.map().maxCoeff<Eigen::PropagateNaN>();
      used(x);
    });
  s.row(
    "l2_norm", n, f, "eigen",
    [&] {
      auto x = k::l2_norm<float>(a.all());
      used(x);
    },
    [&] {
      auto x = std::sqrt(a.map().cast<double>().square().sum());
      used(x);
    });
}

void updates(suite& s, std::size_t n) {
  floats p(n, 1), g(n, 2), m(n, 3), v(n, 4);
  auto &q = p, &o = m, &w = v;
  const double f = static_cast<double>(n) * sizeof(float);
  s.row(
    "sgd_update", n, 3 * f, "eigen",
    [&] {
      k::sgd_update<float>(p.all(), p.all(), g.all(), {.learning_rate = 1e-9});
      used(p);
    },
    [&] {
      q.map() -= 1e-9f * g.map();
      used(q);
    });
  s.row(
    "momentum_update", n, 5 * f, "eigen",
    [&] {
      k::momentum_update<float>(p.all(), p.all(), m.all(), m.all(), g.all(),
                                {.learning_rate = 1e-9});
      used(p);
    },
    [&] {
      o.map() = 0.9f * o.map() - 1e-9f * g.map();
      q.map() += o.map();
      used(q);
    });
  s.row(
    "adagrad_update", n, 5 * f, "eigen",
    [&] {
      k::adagrad_update<float>(p.all(), p.all(), v.all(), v.all(), g.all(),
                               {.learning_rate = 1e-9});
      used(p);
    },
    [&] {
      w.map() += g.map().square();
      q.map() -= 1e-9f * g.map() / (w.map().sqrt() + 1e-7f);
      used(q);
    });
  s.row(
    "adam_update", n, 7 * f, "eigen",
    [&] {
      k::adam_update<float>(p.all(), p.all(), m.all(), m.all(), v.all(), v.all(), g.all(), 10,
                            {.learning_rate = 1e-9});
      used(p);
    },
    [&] {
      o.map() = 0.9f * o.map() + 0.1f * g.map();
      w.map() = 0.999f * w.map() + 0.001f * g.map().square();
      q.map() -= 1e-9f * o.map() / (w.map().sqrt() + 1e-7f);
      used(q);
    });
}

/// Halves of n floats, at the begin of a block as large as a memcpy needs that moves as many bytes
/// as a conversion reads and writes: so it works on the same pages.
struct halves {
  explicit halves(std::size_t n) : block(n + n / 2), count{n} {}
  std::span<std::uint16_t> all() { return std::span{block}.first(count); }
  void copy_from(const floats& x) { std::memcpy(block.data(), x.x.data(), block.size() * 2); }
  void copy_to(floats& x) const { std::memcpy(x.x.data(), block.data(), block.size() * 2); }
  std::vector<std::uint16_t> block;
  std::size_t count;
};

void moves(suite& s, std::size_t n) {
  floats a(n), c(n);
  halves half(n), other(n);
  const double f = static_cast<double>(n) * sizeof(float);
  // In the cache a copy does no work to compare with: there the peer is Eigen's own conversion.
  using bf16_array = Eigen::Map<Eigen::Array<Eigen::bfloat16, Eigen::Dynamic, 1>>;
  using f16_array = Eigen::Map<Eigen::Array<Eigen::half, Eigen::Dynamic, 1>>;
  bf16_array eigen_bf16(reinterpret_cast<Eigen::bfloat16*>(half.block.data()), a.x.size());
  f16_array eigen_f16(reinterpret_cast<Eigen::half*>(other.block.data()), a.x.size());
  const bool cached = n <= 1 << 16;
  const char* peer = cached ? "eigen" : "memcpy";
  auto against = [&](std::function<void()> eigen, std::function<void()> copy) {
    return cached ? eigen : copy;
  };
  const auto copy_out = [&] {
    half.copy_from(a);
    used(half);
  };
  s.row(
    "cast_f32_to_bf16", n, 1.5 * f, peer,
    [&] {
      k::cast_f32_to_bf16(a.all(), half.all());
      used(half);
    },
    against(
      [&] {
        eigen_bf16 = a.map().cast<Eigen::bfloat16>();
        used(half);
      },
      copy_out));
  k::cast_f32_to_bf16(a.all(), half.all()); // after the copies
  s.row(
    "cast_bf16_to_f32", n, 1.5 * f, peer,
    [&] {
      k::cast_bf16_to_f32(half.all(), c.all());
      used(c);
    },
    against(
      [&] {
        c.map() = eigen_bf16.cast<float>();
        used(c);
      },
      [&] {
        half.copy_to(c);
        used(c);
      }));
  s.row(
    "cast_f32_to_f16", n, 1.5 * f, peer,
    [&] {
      k::cast_f32_to_f16(a.all(), other.all());
      used(other);
    },
    against(
      [&] {
        eigen_f16 = a.map().cast<Eigen::half>();
        used(other);
      },
      [&] {
        other.copy_from(a);
        used(other);
      }));
  k::cast_f32_to_f16(a.all(), other.all());
  s.row(
    "cast_f16_to_f32", n, 1.5 * f, peer,
    [&] {
      k::cast_f16_to_f32(other.all(), c.all());
      used(c);
    },
    against(
      [&] {
        c.map() = eigen_f16.cast<float>();
        used(c);
      },
      [&] {
        other.copy_to(c);
        used(c);
      }));

  std::vector<std::span<const float>> parts;
  std::vector<std::span<float>> targets;
  for (std::size_t at = 0; at < n;) { // layers and their biases
    for (std::size_t len :
         {std::min<std::size_t>(4096, n - at), std::min<std::size_t>(64, n - at)}) {
      len = std::min(len, n - at);
      parts.push_back(a.all().subspan(at, len));
      targets.push_back(a.all().subspan(at, len));
      at += len;
    }
  }
  s.row(
    "pack_bucket", n, 2 * f, "memcpy",
    [&] {
      k::pack_bucket(parts, c.all());
      used(c);
    },
    [&] {
      std::memcpy(c.x.data(), a.x.data(), n * sizeof(float));
      used(c);
    });
  s.row(
    "pack_bucket_bf16", n, 1.5 * f, peer,
    [&] {
      k::pack_bucket_bf16(parts, half.all());
      used(half);
    },
    against(
      [&] {
        eigen_bf16 = a.map().cast<Eigen::bfloat16>();
        used(half);
      },
      copy_out));
  k::cast_f32_to_bf16(a.all(), half.all());
  s.row(
    "unpack_bucket", n, 2 * f, "eigen",
    [&] {
      k::unpack_bucket(c.all(), targets, 0.5f);
      used(a);
    },
    [&] {
      a.map() = 0.5f * c.map();
      used(a);
    });
  s.row(
    "unpack_bucket_bf16", n, 1.5 * f, peer,
    [&] {
      k::unpack_bucket_bf16(half.all(), targets, 0.5f);
      used(a);
    },
    against(
      [&] {
        a.map() = 0.5f * eigen_bf16.cast<float>();
        used(a);
      },
      [&] {
        half.copy_to(a);
        used(a);
      }));

  constexpr std::size_t cols = 64;
  const std::size_t height = n / cols, count = height / 2;
  std::vector<std::int64_t> rows(count);
  std::mt19937_64 random{7};
  for (auto& row : rows)
    row = static_cast<std::int64_t>(random() % height);
  floats values(count * cols, 5);
  const double moved = static_cast<double>(count * cols) * sizeof(float);
  s.row(
    "gather_rows", n, 2 * moved, "row memcpy",
    [&] {
      k::gather_rows<float>(a.all(), cols, rows, values.all());
      used(values);
    },
    [&] {
      for (std::size_t i = 0; i < count; ++i)
        std::memcpy(values.x.data() + i * cols,
                    a.x.data() + static_cast<std::size_t>(rows[i]) * cols, cols * sizeof(float));
      used(values);
    });
  s.row(
    "scatter_add_rows", n, 3 * moved, "eigen",
    [&] {
      k::scatter_rows<float>(k::scatter_op::add, c.all(), cols, rows, values.all());
      used(c);
    },
    [&] {
      for (std::size_t i = 0; i < count; ++i)
        array(c.x.data() + static_cast<std::size_t>(rows[i]) * cols, cols) +=
          array(values.x.data() + i * cols, cols);
      used(c);
    });
}

/// One layer of the perceptron that Fashion-MNIST trains.
void layers(suite& s) {
  const k::dense_size size{64, 784, 128};
  floats x(size.batch * size.inputs, 1), w(size.inputs * size.outputs, 2), b(size.outputs, 3),
    y(size.batch * size.outputs, 4), dw(size.inputs * size.outputs), db(size.outputs),
    dx(size.batch * size.inputs);
  const auto rows = static_cast<Eigen::Index>(size.batch),
             in = static_cast<Eigen::Index>(size.inputs),
             out = static_cast<Eigen::Index>(size.outputs);
  matrix mx(x.x.data(), rows, in), mw(w.x.data(), in, out), my(y.x.data(), rows, out),
    mdw(dw.x.data(), in, out), mdx(dx.x.data(), rows, in);
  Eigen::Map<Eigen::RowVectorXf> mb(b.x.data(), out), mdb(db.x.data(), out);
  const double bytes = static_cast<double>(x.x.size() + w.x.size() + y.x.size()) * sizeof(float);
  const std::size_t n = 1 << 16;
  s.row(
    "dense_forward", n, bytes, "eigen",
    [&] {
      k::dense_forward<float>(x.all(), std::span<const float>{w.all()},
                              std::span<const float>{b.all()}, size, y.all());
      used(y);
    },
    [&] {
      my.noalias() = mx * mw;
      my.rowwise() += mb;
      used(y);
    });
  s.row(
    "dense_backward", n, 2 * bytes, "eigen",
    [&] {
      k::dense_backward<float>(x.all(), std::span<const float>{w.all()}, y.all(), size, dw.all(),
                               db.all(), dx.all());
      used(dw);
    },
    [&] {
      mdw.noalias() = mx.transpose() * my;
      mdb = my.colwise().sum();
      mdx.noalias() = my * mw.transpose();
      used(dw);
    });
}

/// Softmax cross-entropy and accuracy of a batch; rows of ten classes, and of a thousand.
void losses(suite& s, std::size_t batch, std::size_t classes) {
  const std::string wide = classes > 100 ? "_wide" : "";
  floats logits(batch * classes, 6), grad(batch * classes);
  std::vector<std::int64_t> labels(batch, 3);
  const std::size_t n = batch * classes;
  const double bytes = static_cast<double>(n) * sizeof(float);
  const auto row_of = [classes](floats& x, std::size_t i) {
    return Eigen::Map<Eigen::Array<float, 1, Eigen::Dynamic>>(x.x.data() + i * classes,
                                                              static_cast<Eigen::Index>(classes));
  };
  s.row(
    "softmax_cross_entropy" + wide, n, 2 * bytes, "eigen",
    [&] {
      auto loss =
        k::softmax_cross_entropy<float, std::int64_t>(logits.all(), labels, classes, grad.all());
      used(loss);
    },
    [&] {
      float loss = 0;
      for (std::size_t i = 0; i < batch; ++i) {
        auto row = row_of(logits, i), to = row_of(grad, i);
        const float top = row.maxCoeff();
        to = (row - top).exp();
        const float total = to.sum();
        to /= total * static_cast<float>(batch);
        to[labels[i]] -= 1.0f / static_cast<float>(batch);
        loss += std::log(total) - (row[labels[i]] - top);
      }
      used(loss);
    });
  s.row(
    "accuracy_count" + wide, n, bytes, "eigen",
    [&] {
      auto correct = k::accuracy_count<float, std::int64_t>(logits.all(), labels, classes);
      used(correct);
    },
    [&] {
      std::size_t correct = 0;
      for (std::size_t i = 0; i < batch; ++i) {
        Eigen::Index best = 0;
        row_of(logits, i).maxCoeff(&best);
        correct += best == labels[i] ? 1 : 0;
      }
      used(correct);
    });
}

} // namespace

int main(int argc, char** argv) {
  bench::report report{"kernels", argc, argv};
  suite s{report, report.quick() ? 0.002 : 0.02};
  for (std::size_t n : {std::size_t{1} << 14, std::size_t{1} << 22}) {
    elementwise(s, n);
    rows_and_zeros(s, n);
    reductions(s, n);
    updates(s, n);
    moves(s, n);
  }
  layers(s);
  losses(s, 1024, 10);
  losses(s, 64, 1000);
  return report.finish();
}
