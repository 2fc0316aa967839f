#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

/// What bench/kernels measures: pairs of a kernel and the plainest way to get the same with Eigen
/// or memcpy, each on buffers of its own.
namespace bench {

/// One kernel at one size beside its bound.
struct kernel_case {
  std::string name{};
  std::size_t elements = 0;
  /// Read and written by one call; 0 where arithmetic is what it costs.
  std::size_t bytes = 0;
  std::function<void()> ours{};
  std::string peer{};
  std::function<void()> bound{};
  /// How far the two results are apart, relative to the larger; looked at after both ran once from
  /// equal inputs. NaN counts as infinitely far.
  std::function<double()> apart{};
};

/// The same values in every run, in [-1, 1).
inline std::vector<float> some_floats(std::size_t n, std::uint32_t seed) {
  std::vector<float> out(n);
  for (float& x : out) {
    seed = seed * 1'664'525u + 1'013'904'223u;
    x = static_cast<float>(seed >> 8) / 8'388'608.0f - 1.0f;
  }
  return out;
}

/// Row numbers in no order.
inline std::vector<std::int64_t> some_rows(std::size_t n, std::size_t row_count,
                                           std::uint32_t seed) {
  std::vector<std::int64_t> out(n);
  for (auto& row : out) {
    seed = seed * 1'664'525u + 1'013'904'223u;
    row = static_cast<std::int64_t>((seed >> 4) % row_count);
  }
  return out;
}

template <class A, class B>
double far_apart(const A& a, const B& b) {
  double out = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double x = static_cast<double>(a[i]);
    const double y = static_cast<double>(b[i]);
    const double off = std::abs(x - y) / std::max({std::abs(x), std::abs(y), 1.0});
    out = off >= 0 ? std::max(out, off) : std::numeric_limits<double>::infinity();
  }
  return out;
}

using eigen_floats = Eigen::Map<Eigen::ArrayXf>;
using eigen_const = Eigen::Map<const Eigen::ArrayXf>;

inline eigen_floats as_eigen(std::vector<float>& x) {
  return {x.data(), static_cast<Eigen::Index>(x.size())};
}
inline eigen_const as_eigen(const std::vector<float>& x) {
  return {x.data(), static_cast<Eigen::Index>(x.size())};
}

/// Two inputs, and an output for either side.
struct float_buffers {
  explicit float_buffers(std::size_t n)
    : a{some_floats(n, 1)}, b{some_floats(n, 2)}, ours(n), theirs(n) {}
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> ours;
  std::vector<float> theirs;
};

/// A case whose two sides write a vector of floats each. `ours` and `bound` take the buffers.
template <class Ours, class Bound>
kernel_case on_floats(std::string name, std::size_t n, std::size_t arrays, Ours ours, Bound bound) {
  auto of = std::make_shared<float_buffers>(n);
  return {.name = std::move(name),
          .elements = n,
          .bytes = arrays * n * sizeof(float),
          .ours = [of, ours] { ours(*of); },
          .peer = "eigen",
          .bound = [of, bound] { bound(*of); },
          .apart = [of] { return far_apart(of->ours, of->theirs); }};
}

} // namespace bench
