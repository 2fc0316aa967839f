#pragma once

#include <array>

#include <troupe/kernels/gather_scatter.hpp>
#include <troupe/kernels/nn.hpp>
#include <troupe/kernels/optimizers.hpp>

#include "detail/kernel_cases.hpp"

namespace bench {

namespace k = troupe::kernels;

/// A parameter, its slots and a gradient, twice: for us and for Eigen.
struct update_buffers {
  explicit update_buffers(std::size_t n)
    : p{some_floats(n, 5), some_floats(n, 5)},
      m{std::vector<float>(n), std::vector<float>(n)},
      v{std::vector<float>(n, 0.1f), std::vector<float>(n, 0.1f)},
      g{some_floats(n, 6)} {}
  std::array<std::vector<float>, 2> p;
  std::array<std::vector<float>, 2> m;
  std::array<std::vector<float>, 2> v;
  std::vector<float> g;
};

template <class Ours, class Bound>
kernel_case on_update(std::string name, std::size_t n, std::size_t arrays, Ours ours, Bound bound) {
  auto of = std::make_shared<update_buffers>(n);
  return {.name = std::move(name),
          .elements = n,
          .bytes = arrays * n * sizeof(float),
          .ours = [of, ours] { ours(*of); },
          .peer = "eigen",
          .bound = [of, bound] { bound(*of); },
          .apart = [of] { return far_apart(of->p[0], of->p[1]); }};
}

/// In place, as servers do when nobody reads. Rates are small, so that values stay where they are
/// however often it runs.
inline void add_updates(std::vector<kernel_case>& to, std::size_t n, const std::string& at) {
  using ub = update_buffers;
  static constexpr float rate = 1e-9f;
  to.push_back(on_update(
    "sgd" + at, n, 3,
    [](ub& x) { k::sgd_update<float>(x.p[0], x.p[0], x.g, {.learning_rate = rate}); },
    [](ub& x) { as_eigen(x.p[1]) -= rate * as_eigen(x.g); }));
  to.push_back(on_update(
    "momentum" + at, n, 5,
    [](ub& x) {
      k::momentum_update<float>(x.p[0], x.p[0], x.m[0], x.m[0], x.g,
                                {.learning_rate = rate, .momentum = 0.5});
    },
    [](ub& x) {
      as_eigen(x.m[1]) = 0.5f * as_eigen(x.m[1]) - rate * as_eigen(x.g);
      as_eigen(x.p[1]) += as_eigen(x.m[1]);
    }));
  to.push_back(on_update(
    "adagrad" + at, n, 5,
    [](ub& x) {
      k::adagrad_update<float>(x.p[0], x.p[0], x.v[0], x.v[0], x.g, {.learning_rate = rate});
    },
    [](ub& x) {
      as_eigen(x.v[1]) += as_eigen(x.g).square();
      as_eigen(x.p[1]) -= rate * as_eigen(x.g) / (as_eigen(x.v[1]).sqrt() + 1e-7f);
    }));
  to.push_back(on_update(
    "adam" + at, n, 7,
    [](ub& x) {
      k::adam_update<float>(x.p[0], x.p[0], x.m[0], x.m[0], x.v[0], x.v[0], x.g, 10,
                            {.learning_rate = rate});
    },
    [](ub& x) {
      const auto rate_t = static_cast<float>(k::adam_corrected_rate({.learning_rate = rate}, 10));
      as_eigen(x.m[1]) = 0.9f * as_eigen(x.m[1]) + 0.1f * as_eigen(x.g);
      as_eigen(x.v[1]) = 0.999f * as_eigen(x.v[1]) + 0.001f * as_eigen(x.g).square();
      as_eigen(x.p[1]) -= rate_t * as_eigen(x.m[1]) / (as_eigen(x.v[1]).sqrt() + 1e-7f);
    }));
}

/// 10,000 rows of 64 floats, in any order, of a table of 256 MiB.
inline void add_rows(std::vector<kernel_case>& to) {
  static constexpr std::size_t cols = 64;
  static constexpr std::size_t row_count = std::size_t{1} << 20;
  static constexpr std::size_t picked = 10'000;
  struct buffers {
    std::vector<float> table = some_floats(row_count * cols, 7);
    std::vector<std::int64_t> rows = some_rows(picked, row_count, 8);
    std::vector<float> ours = std::vector<float>(picked * cols);
    std::vector<float> theirs = std::vector<float>(picked * cols);
  };
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  auto of = std::make_shared<buffers>();
  const auto apart = [of] { return far_apart(of->ours, of->theirs); };
  to.push_back({.name = "gather_rows",
                .elements = picked * cols,
                .bytes = 2 * picked * cols * sizeof(float),
                .ours = [of] { k::gather_rows<float>(of->table, cols, of->rows, of->ours); },
                .peer = "eigen",
                .bound =
                  [of] {
                    const Eigen::Map<const matrix> table{of->table.data(), row_count, cols};
                    Eigen::Map<matrix> out{of->theirs.data(), picked, cols};
                    for (std::size_t i = 0; i < picked; ++i)
                      out.row(static_cast<Eigen::Index>(i)) = table.row(of->rows[i]);
                  },
                .apart = apart});
  auto values = std::make_shared<std::vector<float>>(picked * cols, 1e-9f);
  to.push_back({.name = "scatter_add_rows",
                .elements = picked * cols,
                .bytes = 3 * picked * cols * sizeof(float),
                .ours =
                  [of, values] {
                    k::scatter_rows<float>(k::scatter_op::add, of->table, cols, of->rows, *values);
                  },
                .peer = "eigen",
                .bound =
                  [of, values] {
                    Eigen::Map<matrix> table{of->table.data(), row_count, cols};
                    const Eigen::Map<const matrix> add{values->data(), picked, cols};
                    for (std::size_t i = 0; i < picked; ++i)
                      table.row(of->rows[i]) += add.row(static_cast<Eigen::Index>(i));
                  },
                .apart = [] { return 0.0; }});
}

inline std::span<const float> span_of(const auto& m) {
  return {m.data(), static_cast<std::size_t>(m.size())};
}
inline std::span<float> span_into(auto& m) {
  return {m.data(), static_cast<std::size_t>(m.size())};
}

/// The layers of the Fashion-MNIST model, and the losses of ten and a thousand classes.
inline void add_layers(std::vector<kernel_case>& to) {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using row = Eigen::RowVectorXf;
  struct layer {
    k::dense_size size{.batch = 64, .inputs = 784, .outputs = 128};
    matrix x = matrix::Random(64, 784);
    matrix w = matrix::Random(784, 128) * 0.05f;
    matrix dy = matrix::Random(64, 128);
    row bias = row::Random(128);
    std::array<matrix, 2> y = {matrix(64, 128), matrix(64, 128)};
    std::array<matrix, 2> dw = {matrix(784, 128), matrix(784, 128)};
    std::array<matrix, 2> dx = {matrix(64, 784), matrix(64, 784)};
    std::array<row, 2> db = {row(128), row(128)};
  };
  auto l = std::make_shared<layer>();
  to.push_back({.name = "dense_forward",
                .elements = std::size_t{64} * 784 * 128,
                .ours =
                  [l] {
                    k::dense_forward<float>(span_of(l->x), span_of(l->w), span_of(l->bias), l->size,
                                            span_into(l->y[0]));
                  },
                .peer = "eigen",
                .bound =
                  [l] {
                    l->y[1].noalias() = l->x * l->w;
                    l->y[1].rowwise() += l->bias;
                  },
                .apart = [l] { return far_apart(span_of(l->y[0]), span_of(l->y[1])); }});
  to.push_back({.name = "dense_backward",
                .elements = std::size_t{64} * 784 * 128 * 2,
                .ours =
                  [l] {
                    k::dense_backward<float>(span_of(l->x), span_of(l->w), span_of(l->dy), l->size,
                                             span_into(l->dw[0]), span_into(l->db[0]),
                                             span_into(l->dx[0]));
                  },
                .peer = "eigen",
                .bound =
                  [l] {
                    l->dw[1].noalias() = l->x.transpose() * l->dy;
                    l->db[1] = l->dy.colwise().sum();
                    l->dx[1].noalias() = l->dy * l->w.transpose();
                  },
                .apart =
                  [l] {
                    return std::max(far_apart(span_of(l->dw[0]), span_of(l->dw[1])),
                                    far_apart(span_of(l->dx[0]), span_of(l->dx[1])));
                  }});
  for (const std::size_t classes : {std::size_t{10}, std::size_t{1000}}) {
    const std::size_t batch = 64;
    struct loss {
      std::vector<float> logits;
      std::vector<std::int64_t> labels;
      std::vector<float> ours;
      matrix theirs;
      double value[2] = {0, 0};
    };
    auto x = std::make_shared<loss>();
    x->logits = some_floats(batch * classes, 9);
    x->labels = some_rows(batch, classes, 10);
    x->ours.resize(batch * classes);
    to.push_back(
      {.name = "softmax_cross_entropy_" + std::to_string(classes),
       .elements = batch * classes,
       .ours =
         [x, classes] {
           x->value[0] =
             k::softmax_cross_entropy<float, std::int64_t>(x->logits, x->labels, classes, x->ours);
         },
       .peer = "eigen",
       .bound =
         [x, classes] {
           const auto rows = static_cast<Eigen::Index>(batch);
           const Eigen::Map<const matrix> in{x->logits.data(), rows,
                                             static_cast<Eigen::Index>(classes)};
           const Eigen::VectorXf top = in.rowwise().maxCoeff();
           x->theirs = (in.colwise() - top).array().exp().matrix();
           const Eigen::VectorXf total = x->theirs.rowwise().sum();
           x->theirs.array().colwise() /= total.array() * static_cast<float>(batch);
           double sum = 0;
           for (Eigen::Index i = 0; i < rows; ++i) {
             const auto label = x->labels[static_cast<std::size_t>(i)];
             sum +=
               std::log(static_cast<double>(total[i])) - static_cast<double>(in(i, label) - top[i]);
             x->theirs(i, label) -= 1.0f / static_cast<float>(batch);
           }
           x->value[1] = sum / static_cast<double>(batch);
         },
       .apart =
         [x] {
           const std::span<const float> theirs{x->theirs.data(),
                                               static_cast<std::size_t>(x->theirs.size())};
           return std::max(far_apart(x->ours, theirs), std::abs(x->value[0] - x->value[1]));
         }});
  }
}

} // namespace bench
