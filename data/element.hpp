#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/tensor.hpp>

/// Elements of datasets, and their descriptions.
namespace troupe {

/// An element of a dataset: a few tensors, e.g. {images, labels}. A handle: copies share the
/// tensors' elements. A temporary element gives its parts by value.
class element {
public:
  element() = default;
  element(tensor only) : parts_{std::move(only)} {}
  element(std::initializer_list<tensor> parts) : parts_{parts} {}
  explicit element(std::vector<tensor> parts) : parts_{std::move(parts)} {}

  std::size_t size() const noexcept { return parts_.size(); }
  bool empty() const noexcept { return parts_.empty(); }
  /// Part `index`. Throws `out_of_range` naming the index and the size.
  const tensor& operator[](std::size_t index) const&;
  tensor operator[](std::size_t index) && { return std::as_const(*this)[index]; }
  const std::vector<tensor>& parts() const& noexcept { return parts_; }
  std::vector<tensor> parts() && { return std::move(parts_); }
  auto begin() const noexcept { return parts_.begin(); }
  auto end() const noexcept { return parts_.end(); }

  /// Part 0 and part 1 of an {images, labels} element.
  const tensor& images() const& { return (*this)[0]; }
  tensor images() && { return std::as_const(*this)[0]; }
  const tensor& labels() const& { return (*this)[1]; }
  tensor labels() && { return std::as_const(*this)[1]; }
  /// The only tensor; throws `shape_mismatch` when there are more or none.
  const tensor& only() const&;
  tensor only() && { return std::as_const(*this).only(); }
  /// The only value of the only tensor; throws `shape_mismatch` or `dtype_mismatch`.
  template <class T>
  T item() const {
    return only().item<T>();
  }

  /// True when every tensor agrees in type, shape and bytes.
  friend bool operator==(const element& a, const element& b) { return a.parts_ == b.parts_; }

private:
  std::vector<tensor> parts_{};
};

/// "{f32[2]{1, 2}, i64[]{3}}".
std::string to_string(const element& x);

/// Type and shape of one part of an element; the extent -1 stands for one that may vary.
struct tensor_spec {
  dtype type = dtype::f32;
  shape_t shape{};
  friend bool operator==(const tensor_spec&, const tensor_spec&) = default;
};

/// "f32[-1, 784]".
std::string to_string(const tensor_spec& x);

} // namespace troupe
