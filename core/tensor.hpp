#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Element types. The numbers are on disk and on the wire.
enum class dtype : std::uint8_t {
  u8 = 0,
  i8 = 1,
  i32 = 2,
  i64 = 3,
  f16 = 4,
  bf16 = 5,
  f32 = 6,
  f64 = 7
};

/// "f32"; "dtype(9)" for a value outside the enum.
std::string to_string(dtype type);
/// Bytes of an element; 0 for a value outside the enum.
std::size_t size_of(dtype type);

template <class T>
struct dtype_of;
template <>
struct dtype_of<std::uint8_t> {
  static constexpr dtype value = dtype::u8;
};
template <>
struct dtype_of<std::int8_t> {
  static constexpr dtype value = dtype::i8;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr dtype value = dtype::i32;
};
template <>
struct dtype_of<std::int64_t> {
  static constexpr dtype value = dtype::i64;
};
template <>
struct dtype_of<float> {
  static constexpr dtype value = dtype::f32;
};
template <>
struct dtype_of<double> {
  static constexpr dtype value = dtype::f64;
};

/// Extents, slowest axis first. Empty: a scalar.
using shape_t = std::vector<std::int64_t>;

/// Product of the extents; 1 for a scalar. @pre none is negative and the product fits.
std::int64_t count_of(const shape_t& shape);
/// "[3, 4]".
std::string to_string(const shape_t& shape);
/// False when an extent is negative or the byte count overflows 2^47: the check for shapes that
/// came from outside.
bool is_sane(const shape_t& shape, dtype type);

/// A dense row-major array in host memory. A handle: copies share the elements, as do views
/// (`rows`, `reshaped`). A tensor is filled before it is handed on; after that it is read only. Any
/// thread may read.
class tensor {
public:
  /// No value: rank 0, no elements, `defined()` is false.
  tensor() = default;
  /// A tensor whose elements are not initialised, aligned to 64 bytes. Throws `invalid_argument`
  /// for a shape that is negative or too large, `out_of_memory`.
  tensor(dtype type, shape_t shape);
  /// A tensor in memory that `owner` keeps alive. @pre `data` holds all elements.
  tensor(dtype type, shape_t shape, std::shared_ptr<void> owner, std::byte* data);

  /// A tensor of zeros.
  static tensor zeros(dtype type, shape_t shape);
  template <class T>
  /// A tensor of `shape` with a copy of `values`, in row-major order. Throws `shape_mismatch` when
  /// their number is another.
  static tensor of(shape_t shape, std::span<const T> values);
  template <class T>
  static tensor of(shape_t shape, std::initializer_list<T> values) {
    return of<T>(std::move(shape), std::span<const T>{values.begin(), values.size()});
  }
  template <class T>
  /// A tensor of shape [n].
  static tensor vector(std::initializer_list<T> values) {
    return of<T>({static_cast<std::int64_t>(values.size())}, values);
  }
  template <class T>
  /// A tensor of shape [].
  static tensor scalar(T value) {
    return of<T>({}, std::span<const T>{&value, 1});
  }

  /// Whether the tensor has a value.
  bool defined() const noexcept { return data_ != nullptr; }
  troupe::dtype type() const noexcept { return type_; }
  const shape_t& shape() const& noexcept { return shape_; }
  shape_t shape() && { return std::move(shape_); }
  /// Number of axes.
  std::size_t rank() const noexcept { return shape_.size(); }
  /// Number of elements.
  std::int64_t size() const noexcept { return size_; }
  std::size_t size_bytes() const noexcept {
    return static_cast<std::size_t>(size_) * size_of(type_);
  }
  /// Extent of axis 0; 1 for a scalar.
  std::int64_t rows() const noexcept { return shape_.empty() ? 1 : shape_[0]; }
  /// Elements per row; 0 when there are no rows.
  std::int64_t row_size() const noexcept { return rows() == 0 ? 0 : size_ / rows(); }

  // A span is of a tensor that stays: of a temporary, which takes the elements along, there is
  // none. `for (float x : v.read().as<float>())` would read memory that is gone: name the tensor
  // first, or take one element with `at`.

  /// All bytes, row-major. `mutable_bytes` is for whoever fills the tensor.
  std::span<const std::byte> bytes() const& noexcept { return {data_, size_bytes()}; }
  void bytes() const&& = delete;
  std::span<std::byte> mutable_bytes() & noexcept { return {data_, size_bytes()}; }
  void mutable_bytes() && = delete;

  /// The elements as T, in row-major order; throws `dtype_mismatch` when T is another type.
  template <class T>
  std::span<const T> as() const& {
    require(dtype_of<T>::value);
    return {reinterpret_cast<const T*>(data_), static_cast<std::size_t>(size_)};
  }
  template <class T>
  void as() const&& = delete;
  template <class T>
  std::span<T> mutable_as() & {
    require(dtype_of<T>::value);
    return {reinterpret_cast<T*>(data_), static_cast<std::size_t>(size_)};
  }
  template <class T>
  void mutable_as() && = delete;
  /// Element `index` of the row-major order; throws `out_of_range` or `dtype_mismatch`.
  template <class T>
  T at(std::int64_t index) const {
    require_index(index);
    return as<T>()[static_cast<std::size_t>(index)];
  }
  /// The only element; throws `shape_mismatch` when there are more or none, `dtype_mismatch` when T
  /// is another type.
  template <class T>
  T item() const {
    require_one();
    return as<T>()[0];
  }

  /// A view of rows [begin, end) along axis 0; throws `out_of_range`.
  tensor rows(std::int64_t begin, std::int64_t end) const;
  /// A view with another shape of as many elements; throws `shape_mismatch`.
  tensor reshaped(shape_t shape) const;
  /// A copy of the elements.
  tensor clone() const;

  /// True when type, shape and every byte agree.
  friend bool operator==(const tensor& a, const tensor& b);

private:
  void require(dtype type) const;
  void require_one() const;
  void require_index(std::int64_t index) const;
  troupe::dtype type_ = dtype::f32;
  shape_t shape_{};
  std::int64_t size_ = 0;
  std::shared_ptr<void> owner_{};
  std::byte* data_ = nullptr;
};

/// Concatenates `parts` along axis 0. Throws `shape_mismatch` for scalars and other extents,
/// `dtype_mismatch`, `invalid_argument` for no parts.
tensor concatenate(std::span<const tensor> parts);

/// "f32[2, 3]", and "no tensor" for one without a value: what an error says that it got, or
/// expected.
std::string type_and_shape(const tensor& x);

/// "f32[2, 3]{1, 2, 3, 4, 5, 6}", at most 16 elements.
std::string to_string(const tensor& x);

} // namespace troupe
