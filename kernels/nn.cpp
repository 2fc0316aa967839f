#include <troupe/kernels/nn.hpp>

#include <troupe/kernels/detail/check.hpp>

// g++ 12 takes the "undefined" operands of its own AVX-512 intrinsics for uninitialised reads once
// they are inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::kernels {

namespace {

template <class T>
using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
Eigen::Map<const matrix<T>> view(std::span<const T> x, std::size_t rows, std::size_t cols) {
  return {x.data(), static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(cols)};
}

template <class T>
Eigen::Map<matrix<T>> view(std::span<T> x, std::size_t rows, std::size_t cols) {
  return {x.data(), static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(cols)};
}

// Products go in slices of this many inputs: the operands that Eigen packs then stay in the
// second-level cache and, for layers of the usual sizes, on its stack allowance, so that no product
// maps and unmaps fresh pages.
constexpr Eigen::Index slice_len = 128;

template <class T>
std::size_t rows_of(std::span<const T> block, std::size_t width) {
  return width == 0 ? 0 : block.size() / width;
}

template <class T>
std::size_t size_of(row_blocks<T> blocks) {
  std::size_t out = 0;
  for (const auto block : blocks)
    out += block.size();
  return out;
}

template <class T>
void expect_rows(const char* function, const char* what, row_blocks<T> blocks, std::size_t width) {
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (width == 0 ? !blocks[i].empty() : blocks[i].size() % width != 0)
      throw std::invalid_argument("kernels::" + std::string(function) + ": " + what + " block "
                                  + std::to_string(i) + " has " + std::to_string(blocks[i].size())
                                  + " elements, expected whole rows of " + std::to_string(width));
}

} // namespace

template <class T>
void dense_forward(std::span<const std::type_identity_t<T>> x,
                   row_blocks<std::type_identity_t<T>> w, row_blocks<std::type_identity_t<T>> bias,
                   const dense_size& size, std::span<T> y) {
  detail::expect_size("dense_forward", "x.size()", x.size(), size.batch * size.inputs);
  detail::expect_size("dense_forward", "w.size()", size_of(w), size.inputs * size.outputs);
  expect_rows("dense_forward", "w", w, size.outputs);
  detail::expect_size("dense_forward", "bias.size()", size_of(bias), size.outputs);
  detail::expect_size("dense_forward", "y.size()", y.size(), size.batch * size.outputs);
  const auto in = view(x, size.batch, size.inputs);
  auto out = view(y, size.batch, size.outputs);
  Eigen::Index column = 0;
  for (const auto part : bias) {
    const auto width = static_cast<Eigen::Index>(part.size());
    out.middleCols(column, width).rowwise() = view(part, 1, part.size()).row(0);
    column += width;
  }
  Eigen::Index row = 0;
  for (const auto block : w) {
    const auto weights = view(block, rows_of(block, size.outputs), size.outputs);
    for (Eigen::Index at = 0; at < weights.rows(); at += slice_len) {
      const Eigen::Index n = std::min(slice_len, weights.rows() - at);
      out.noalias() += in.middleCols(row + at, n) * weights.middleRows(at, n);
    }
    row += weights.rows();
  }
}

template <class T>
void dense_forward(std::span<const std::type_identity_t<T>> x,
                   std::span<const std::type_identity_t<T>> w,
                   std::span<const std::type_identity_t<T>> bias, const dense_size& size,
                   std::span<T> y) {
  dense_forward<T>(x, row_blocks<T>(&w, 1), row_blocks<T>(&bias, 1), size, y);
}

template <class T>
void dense_backward(std::span<const std::type_identity_t<T>> x,
                    row_blocks<std::type_identity_t<T>> w,
                    std::span<const std::type_identity_t<T>> dy, const dense_size& size,
                    std::span<T> dw, std::span<std::type_identity_t<T>> db,
                    std::span<std::type_identity_t<T>> dx) {
  detail::expect_size("dense_backward", "x.size()", x.size(), size.batch * size.inputs);
  detail::expect_size("dense_backward", "w.size()", size_of(w), size.inputs * size.outputs);
  expect_rows("dense_backward", "w", w, size.outputs);
  detail::expect_size("dense_backward", "dy.size()", dy.size(), size.batch * size.outputs);
  detail::expect_size("dense_backward", "dw.size()", dw.size(), size.inputs * size.outputs);
  detail::expect_size("dense_backward", "db.size()", db.size(), size.outputs);
  if (!dx.empty())
    detail::expect_size("dense_backward", "dx.size()", dx.size(), x.size());
  const auto change = view(dy, size.batch, size.outputs);
  const auto in = view(x, size.batch, size.inputs);
  auto weight_change = view(dw, size.inputs, size.outputs);
  for (Eigen::Index at = 0; at < in.cols(); at += slice_len) {
    const Eigen::Index n = std::min(slice_len, in.cols() - at);
    weight_change.middleRows(at, n).noalias() = in.middleCols(at, n).transpose() * change;
  }
  auto bias_change = view(db, 1, size.outputs);
  bias_change.setZero();
  for (Eigen::Index row = 0; row < change.rows(); ++row)
    bias_change.row(0) += change.row(row);
  if (dx.empty())
    return;
  auto in_change = view(dx, size.batch, size.inputs);
  Eigen::Index row = 0;
  for (const auto block : w) {
    const auto weights = view(block, rows_of(block, size.outputs), size.outputs);
    for (Eigen::Index at = 0; at < weights.rows(); at += slice_len) {
      const Eigen::Index n = std::min(slice_len, weights.rows() - at);
      in_change.middleCols(row + at, n).noalias() = change * weights.middleRows(at, n).transpose();
    }
    row += weights.rows();
  }
}

template <class T>
void dense_backward(std::span<const std::type_identity_t<T>> x,
                    std::span<const std::type_identity_t<T>> w,
                    std::span<const std::type_identity_t<T>> dy, const dense_size& size,
                    std::span<T> dw, std::span<std::type_identity_t<T>> db,
                    std::span<std::type_identity_t<T>> dx) {
  dense_backward<T>(x, row_blocks<T>(&w, 1), dy, size, dw, db, dx);
}

template <class T>
void add_bias(std::span<const std::type_identity_t<T>> bias, std::span<T> y) {
  const std::size_t width = bias.size();
  const std::size_t rows = width == 0 ? 0 : y.size() / width;
  detail::expect_size("add_bias", "y.size()", y.size(), rows * width);
  const T* add = bias.data();
  for (std::size_t r = 0; r < rows; ++r) {
    T* row = y.data() + r * width;
    for (std::size_t c = 0; c < width; ++c)
      row[c] += add[c];
  }
}

template <class T>
void relu_forward(std::span<const std::type_identity_t<T>> x, std::span<T> y) {
  detail::expect_size("relu_forward", "x.size()", x.size(), y.size());
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = x[i] < T(0) ? T(0) : x[i];
}

template <class T>
void relu_backward(std::span<const std::type_identity_t<T>> y,
                   std::span<const std::type_identity_t<T>> dy, std::span<T> dx) {
  detail::expect_size("relu_backward", "y.size()", y.size(), dx.size());
  detail::expect_size("relu_backward", "dy.size()", dy.size(), dx.size());
  for (std::size_t i = 0; i < dx.size(); ++i)
    dx[i] = y[i] > T(0) ? dy[i] : T(0);
}

#define TROUPE_INSTANTIATE(T)                                                                   \
  template void dense_forward<T>(std::span<const T>, row_blocks<T>, row_blocks<T>,              \
                                 const dense_size&, std::span<T>);                              \
  template void dense_backward<T>(std::span<const T>, row_blocks<T>, std::span<const T>,        \
                                  const dense_size&, std::span<T>, std::span<T>, std::span<T>); \
  template void dense_forward<T>(std::span<const T>, std::span<const T>, std::span<const T>,    \
                                 const dense_size&, std::span<T>);                              \
  template void dense_backward<T>(std::span<const T>, std::span<const T>, std::span<const T>,   \
                                  const dense_size&, std::span<T>, std::span<T>, std::span<T>); \
  template void add_bias<T>(std::span<const T>, std::span<T>);                                  \
  template void relu_forward<T>(std::span<const T>, std::span<T>);                              \
  template void relu_backward<T>(std::span<const T>, std::span<const T>, std::span<T>);

TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)

#undef TROUPE_INSTANTIATE

} // namespace troupe::kernels
