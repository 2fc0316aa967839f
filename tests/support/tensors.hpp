#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include <troupe/core/tensor.hpp>

/// Tensors of a test in few words, and their values.
namespace troupe::testing {

/// Floats of this shape, row by row.
inline tensor floats(shape_t shape, const std::vector<float>& values) {
  return tensor::of<float>(std::move(shape), values);
}

/// A vector of floats.
inline tensor floats(std::initializer_list<float> values) { return tensor::vector<float>(values); }

/// A vector of row numbers.
inline tensor ids_of(const std::vector<std::int64_t>& ids) {
  return tensor::of<std::int64_t>({static_cast<std::int64_t>(ids.size())}, ids);
}

/// `value` in every element.
inline tensor filled(shape_t shape, float value) {
  tensor out{dtype::f32, std::move(shape)};
  std::ranges::fill(out.mutable_as<float>(), value);
  return out;
}

/// `first`, `first` + 1, ... in row-major order.
template <class T>
tensor counting(shape_t shape, T first = 0) {
  tensor out{dtype_of<T>::value, std::move(shape)};
  auto values = out.template mutable_as<T>();
  std::iota(values.begin(), values.end(), first);
  return out;
}

/// The elements, row by row.
template <class T = float>
std::vector<T> values_of(const tensor& x) {
  const auto all = x.as<T>();
  return {all.begin(), all.end()};
}

} // namespace troupe::testing
