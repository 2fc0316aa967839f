#include <troupe/core/tensor.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <sstream>

#include <sys/mman.h>

#include <troupe/core/error.hpp>

namespace troupe {

namespace {

constexpr std::size_t alignment_bytes = 64;
constexpr std::int64_t sane_bytes_max = std::int64_t{1} << 47;

// Large tables are read at random places, and a look-up of a page costs as much as the row.
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr std::size_t huge_pages_from_bytes = 2 * huge_page_bytes;

std::shared_ptr<void> allocate_huge(std::size_t size_bytes) {
  constexpr std::align_val_t alignment{huge_page_bytes};
  auto rounded = (size_bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  void* at = ::operator new(rounded, alignment);
  ::madvise(at, rounded, MADV_HUGEPAGE); // a system without them goes on with small ones
  return {at, [](void* p) { ::operator delete(p, alignment); }};
}

std::shared_ptr<void> allocate(std::size_t size_bytes) {
  if (size_bytes >= huge_pages_from_bytes)
    return allocate_huge(size_bytes);
  auto rounded = (size_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  void* at =
    ::operator new (rounded == 0 ? alignment_bytes : rounded, std::align_val_t{alignment_bytes});
  return {at, [](void* p) { ::operator delete (p, std::align_val_t{alignment_bytes}); }};
}

template <class T>
void print_elements(std::ostream& out, std::span<const T> xs) {
  for (std::size_t i = 0; i < xs.size() && i < 16; ++i)
    out << (i ? ", " : "") << +xs[i];
  if (xs.size() > 16)
    out << ", ...";
}

} // namespace

std::string to_string(dtype type) {
  static constexpr const char* names[] = {"u8", "i8", "i32", "i64", "f16", "bf16", "f32", "f64"};
  auto at = static_cast<std::size_t>(type);
  return at < std::size(names) ? names[at] : "dtype(" + std::to_string(at) + ")";
}

std::size_t size_of(dtype type) {
  static constexpr std::size_t sizes[] = {1, 1, 4, 8, 2, 2, 4, 8};
  auto at = static_cast<std::size_t>(type);
  return at < std::size(sizes) ? sizes[at] : 0;
}

std::int64_t count_of(const shape_t& shape) {
  std::int64_t n = 1;
  for (auto extent : shape)
    n *= extent;
  return n;
}

std::string to_string(const shape_t& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

bool is_sane(const shape_t& shape, dtype type) {
  auto width = static_cast<std::int64_t>(size_of(type));
  if (width == 0 || shape.size() > 16)
    return false;
  std::int64_t left = sane_bytes_max / width;
  bool empty = false;
  for (auto extent : shape) {
    if (extent < 0)
      return false;
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (extent > left)
      return false;
    left /= extent;
  }
  (void)empty;
  return true;
}

tensor::tensor(troupe::dtype type, shape_t shape) : type_{type}, shape_{std::move(shape)} {
  if (!is_sane(shape_, type_))
    throw_failure(errc::invalid_argument, "tensor: shape " + to_string(shape_) + " of "
                                            + to_string(type_) + " is negative or too large");
  size_ = count_of(shape_);
  owner_ = allocate(size_bytes());
  data_ = static_cast<std::byte*>(owner_.get());
}

tensor::tensor(troupe::dtype type, shape_t shape, std::shared_ptr<void> owner, std::byte* data)
  : type_{type},
    shape_{std::move(shape)},
    size_{count_of(shape_)},
    owner_{std::move(owner)},
    data_{data} {}

tensor tensor::zeros(troupe::dtype type, shape_t shape) {
  tensor out{type, std::move(shape)};
  std::memset(out.data_, 0, out.size_bytes());
  return out;
}

template <class T>
tensor tensor::of(shape_t shape, std::span<const T> values) {
  tensor out{dtype_of<T>::value, std::move(shape)};
  if (values.size() != static_cast<std::size_t>(out.size()))
    throw_failure(errc::shape_mismatch, "tensor: " + std::to_string(values.size())
                                          + " values for shape " + to_string(out.shape()));
  if (!values.empty())
    std::memcpy(out.data_, values.data(), values.size_bytes());
  return out;
}

template tensor tensor::of<std::uint8_t>(shape_t, std::span<const std::uint8_t>);
template tensor tensor::of<std::int8_t>(shape_t, std::span<const std::int8_t>);
template tensor tensor::of<std::int32_t>(shape_t, std::span<const std::int32_t>);
template tensor tensor::of<std::int64_t>(shape_t, std::span<const std::int64_t>);
template tensor tensor::of<float>(shape_t, std::span<const float>);
template tensor tensor::of<double>(shape_t, std::span<const double>);

tensor tensor::rows(std::int64_t begin, std::int64_t end) const {
  if (shape_.empty() && begin == 0 && end == 1)
    return *this;
  if (shape_.empty() || begin < 0 || end < begin || end > shape_[0])
    throw_failure(errc::out_of_range, "tensor: rows [" + std::to_string(begin) + ", "
                                        + std::to_string(end) + ") of shape " + to_string(shape_));
  tensor out = *this;
  out.shape_[0] = end - begin;
  out.size_ = count_of(out.shape_);
  out.data_ += static_cast<std::size_t>(begin * row_size()) * size_of(type_);
  return out;
}

tensor tensor::reshaped(shape_t shape) const {
  if (!is_sane(shape, type_) || count_of(shape) != size_)
    throw_failure(errc::shape_mismatch,
                  "tensor: shape " + to_string(shape_) + " as " + to_string(shape));
  tensor out = *this;
  out.shape_ = std::move(shape);
  return out;
}

tensor tensor::clone() const {
  if (!defined())
    return {};
  tensor out{type_, shape_};
  if (size_ > 0)
    std::memcpy(out.data_, data_, size_bytes());
  return out;
}

bool operator==(const tensor& a, const tensor& b) {
  return a.defined() == b.defined() && a.type_ == b.type_ && a.shape_ == b.shape_
         && (a.size_ == 0 || std::memcmp(a.data_, b.data_, a.size_bytes()) == 0);
}

void tensor::require(troupe::dtype type) const {
  if (type != type_)
    throw_failure(errc::dtype_mismatch,
                  "tensor: elements are " + to_string(type_) + ", requested as " + to_string(type));
}

void tensor::require_one() const {
  if (size_ != 1)
    throw_failure(errc::shape_mismatch, "tensor: item() of shape " + to_string(shape_) + " with "
                                          + std::to_string(size_) + " elements");
}

void tensor::require_index(std::int64_t index) const {
  if (index < 0 || index >= size_)
    throw_failure(errc::out_of_range, "tensor: at(" + std::to_string(index) + ") of shape "
                                        + to_string(shape_) + " with " + std::to_string(size_)
                                        + " elements");
}

tensor concatenate(std::span<const tensor> parts) {
  if (parts.empty())
    throw_failure(errc::invalid_argument, "concatenate: no parts");
  shape_t shape = parts[0].shape();
  if (shape.empty())
    throw_failure(errc::shape_mismatch, "concatenate: scalars have no axis 0");
  shape[0] = 0;
  for (const auto& part : parts) {
    auto other = part.shape();
    if (part.type() != parts[0].type())
      throw_failure(errc::dtype_mismatch, "concatenate: " + to_string(part.type()) + " after "
                                            + to_string(parts[0].type()));
    if (other.size() != shape.size()
        || !std::equal(shape.begin() + 1, shape.end(), other.begin() + 1))
      throw_failure(errc::shape_mismatch,
                    "concatenate: " + to_string(other) + " after " + to_string(parts[0].shape()));
    shape[0] += other[0];
  }
  tensor out{parts[0].type(), shape};
  auto* to = out.mutable_bytes().data();
  for (const auto& part : parts) {
    if (part.size_bytes() > 0)
      std::memcpy(to, part.bytes().data(), part.size_bytes());
    to += part.size_bytes();
  }
  return out;
}

std::string type_and_shape(const tensor& x) {
  return x.defined() ? to_string(x.type()) + to_string(x.shape()) : "no tensor";
}

std::string to_string(const tensor& x) {
  if (!x.defined())
    return "tensor{}";
  std::ostringstream out;
  out << to_string(x.type()) << to_string(x.shape()) << "{";
  switch (x.type()) {
    case dtype::u8: print_elements(out, x.as<std::uint8_t>()); break;
    case dtype::i8: print_elements(out, x.as<std::int8_t>()); break;
    case dtype::i32: print_elements(out, x.as<std::int32_t>()); break;
    case dtype::i64: print_elements(out, x.as<std::int64_t>()); break;
    case dtype::f32: print_elements(out, x.as<float>()); break;
    case dtype::f64: print_elements(out, x.as<double>()); break;
    default: out << x.size_bytes() << " bytes"; break;
  }
  out << "}";
  return out.str();
}

} // namespace troupe
