#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <utility>

#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/merge.hpp>
#include <troupe/strategies/detail/sync_state.hpp>

/// Reductions and concatenations of whole host tensors, as cross-replica calls need them.
namespace troupe::detail {

namespace {

bool is_integer(dtype type) { return type <= dtype::i64; }

kernels::merge_op merge_of(reduce_op op) {
  switch (op) {
    case reduce_op::min: return kernels::merge_op::min;
    case reduce_op::max: return kernels::merge_op::max;
    case reduce_op::prod: return kernels::merge_op::prod;
    default: return kernels::merge_op::sum;
  }
}

/// `f` with a T of the element type: 16-bit floats as uint16_t, told apart by `type`.
template <class F>
auto with_type(dtype type, F f) {
  switch (type) {
    case dtype::u8: return f(std::uint8_t{});
    case dtype::i8: return f(std::int8_t{});
    case dtype::i32: return f(std::int32_t{});
    case dtype::i64: return f(std::int64_t{});
    case dtype::f32: return f(float{});
    case dtype::f64: return f(double{});
    default: break;
  }
  throw_failure(errc::dtype_mismatch,
                "reduce: elements of type " + to_string(type) + " must be widened first");
}

tensor widened(const tensor& x) {
  if (x.type() != dtype::f16 && x.type() != dtype::bf16)
    return x;
  tensor out{dtype::f32, x.shape()};
  const std::span<const std::uint16_t> in{reinterpret_cast<const std::uint16_t*>(x.bytes().data()),
                                          static_cast<std::size_t>(x.size())};
  if (x.type() == dtype::f16)
    kernels::cast_f16_to_f32(in, out.mutable_as<float>());
  else
    kernels::cast_bf16_to_f32(in, out.mutable_as<float>());
  return out;
}

tensor narrowed(const tensor& x, dtype type) {
  if (type != dtype::f16 && type != dtype::bf16)
    return x;
  tensor out{type, x.shape()};
  const std::span<std::uint16_t> to{reinterpret_cast<std::uint16_t*>(out.mutable_bytes().data()),
                                    static_cast<std::size_t>(x.size())};
  if (type == dtype::f16)
    kernels::cast_f32_to_f16(x.as<float>(), to);
  else
    kernels::cast_f32_to_bf16(x.as<float>(), to);
  return out;
}

template <class T>
T fold(reduce_op op, T a, T b) {
  switch (op) {
    case reduce_op::min: return b < a || b != b ? b : a;
    case reduce_op::max: return a < b || b != b ? b : a;
    case reduce_op::prod:
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      else
        return a * b;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) // wraps
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a)
                          + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

/// Extents of a tensor around a set of axes, as loops want them.
struct walk {
  walk(const shape_t& shape, const std::vector<bool>& reduced) {
    std::int64_t step = 1;
    strides.resize(shape.size());
    for (std::size_t i = shape.size(); i-- > 0;) {
      strides[i] = reduced[i] ? 0 : step;
      step *= reduced[i] ? 1 : shape[i];
    }
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (!reduced[i])
        kept.push_back(shape[i]);
      else
        elements *= shape[i];
  }
  shape_t kept{};
  std::int64_t elements = 1;
  std::vector<std::int64_t> strides{}; ///< in the result, 0 along what is reduced
};

template <class T>
void reduce_into(reduce_op op, const tensor& x, const walk& how, tensor& out) {
  auto from = x.as<T>();
  auto to = out.mutable_as<T>();
  std::vector<bool> seen(to.size(), false);
  std::vector<std::int64_t> at(x.rank(), 0);
  std::int64_t place = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto p = static_cast<std::size_t>(place);
    to[p] = seen[p] ? fold(op, to[p], from[i]) : from[i];
    seen[p] = true;
    for (std::size_t d = x.rank(); d-- > 0;) {
      place += how.strides[d];
      if (++at[d] < x.shape()[d])
        break;
      place -= how.strides[d] * at[d];
      at[d] = 0;
    }
  }
}

} // namespace

namespace {

/// x / 0 as numbers of that type say: 0 / 0 is none.
template <class T>
void divide_by_nothing(std::span<T> xs) {
  using limits = std::numeric_limits<T>;
  for (auto& x : xs)
    x = x == 0 || x != x ? limits::quiet_NaN() : x < 0 ? -limits::infinity() : limits::infinity();
}

} // namespace

tensor as_i64(const tensor& x) {
  tensor out{dtype::i64, x.shape()};
  auto to = out.mutable_as<std::int64_t>();
  with_type(x.type(), [&](auto zero) {
    const auto from = x.as<decltype(zero)>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<std::int64_t>(from[i]);
  });
  return out;
}

tensor divide(const tensor& x, std::int64_t by) {
  if (is_integer(x.type())) {
    tensor out{dtype::f64, x.shape()};
    auto to = out.mutable_as<double>();
    with_type(x.type(), [&](auto zero) {
      using T = decltype(zero);
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = static_cast<double>(x.as<T>()[i]) / static_cast<double>(by);
    });
    return out;
  }
  tensor out{x.type(), x.shape()};
  const kernels::merge_source source{.data = x.bytes().data()};
  std::byte* to = out.mutable_bytes().data();
  if (by != 0) {
    kernels::merge({.type = x.type(), .divide_by = by}, {&source, 1}, {&to, 1},
                   static_cast<std::size_t>(x.size()));
    return out;
  }
  auto wide = widened(x).clone();
  if (wide.type() == dtype::f64)
    divide_by_nothing(wide.mutable_as<double>());
  else
    divide_by_nothing(wide.mutable_as<float>());
  return narrowed(wide, x.type());
}

tensor reduce_tensors(const char* what, const reduction& op, std::span<const tensor> parts) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].type() != parts[0].type())
      throw_failure(errc::dtype_mismatch, std::string{what} + ": component " + std::to_string(i)
                                            + " is " + to_string(parts[i].type())
                                            + ", component 0 is " + to_string(parts[0].type()));
    if (parts[i].shape() != parts[0].shape())
      throw_failure(errc::shape_mismatch, std::string{what} + ": component " + std::to_string(i)
                                            + " has shape " + to_string(parts[i].shape())
                                            + ", component 0 " + to_string(parts[0].shape()));
  }
  const auto type = parts[0].type();
  const auto count = static_cast<std::size_t>(parts[0].size());
  const bool mean = op.op == reduce_op::mean;
  const auto n = static_cast<std::int64_t>(parts.size());
  if (op.op == reduce_op::user) {
    auto out = parts[0].clone();
    for (std::size_t i = 1; i < parts.size(); ++i)
      op.user.merge(out.mutable_bytes().data(), parts[i].bytes().data(), count);
    return out;
  }
  if (mean && is_integer(type) && type != dtype::i64) { // the sum may not fit the elements' type
    std::vector<tensor> wide;
    for (const auto& each : parts)
      wide.push_back(as_i64(each));
    return reduce_tensors(what, op, wide);
  }
  tensor out{type, parts[0].shape()};
  std::vector<kernels::merge_source> sources;
  for (const auto& each : parts)
    sources.push_back({.data = each.bytes().data()});
  std::byte* to = out.mutable_bytes().data();
  const bool ints = mean && is_integer(type);
  kernels::merge({.op = merge_of(op.op), .type = type, .divide_by = mean && !ints ? n : 1}, sources,
                 {&to, 1}, count);
  return ints ? divide(out, n) : out;
}

tensor reduce_axes(const char* what, const reduction& op, const tensor& x,
                   std::vector<std::int64_t> axes, std::int64_t& elements) {
  const auto rank = static_cast<std::int64_t>(x.rank());
  std::vector<bool> reduced(x.rank(), false);
  for (auto axis : axes) {
    if (axis < -rank || axis >= rank)
      throw_failure(errc::out_of_range, std::string{what} + ": axis is " + std::to_string(axis)
                                          + ", the value has " + std::to_string(rank)
                                          + " dimensions");
    reduced[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  if (op.op == reduce_op::user)
    throw_failure(errc::invalid_argument, std::string{what} + ": a user's reduction takes no axis");
  const bool wide = op.op == reduce_op::mean && is_integer(x.type());
  const auto from = wide ? as_i64(x) : widened(x);
  const walk how{x.shape(), reduced};
  auto out = tensor::zeros(from.type(), how.kept);
  with_type(from.type(), [&](auto zero) { reduce_into<decltype(zero)>(op.op, from, how, out); });
  elements = how.elements;
  return wide ? out : narrowed(out, x.type());
}

tensor concatenate_along(const char* what, std::span<const tensor> parts, std::int64_t axis) {
  const auto& first = parts[0];
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& x = parts[i];
    if (x.rank() == 0)
      throw_failure(errc::invalid_argument, std::string{what} + ": component " + std::to_string(i)
                                              + " is a scalar; add a dimension first");
    if (x.rank() != first.rank())
      throw_failure(errc::shape_mismatch, std::string{what} + ": component " + std::to_string(i)
                                            + " has rank " + std::to_string(x.rank())
                                            + ", component 0 " + std::to_string(first.rank()));
    if (x.type() != first.type())
      throw_failure(errc::dtype_mismatch, std::string{what} + ": component " + std::to_string(i)
                                            + " is " + to_string(x.type()) + ", component 0 is "
                                            + to_string(first.type()));
  }
  if (axis < 0 || axis >= static_cast<std::int64_t>(first.rank()))
    throw_failure(errc::out_of_range, std::string{what} + ": axis is " + std::to_string(axis)
                                        + ", expected 0 to " + std::to_string(first.rank() - 1));
  const auto along = static_cast<std::size_t>(axis);
  auto shape = first.shape();
  shape[along] = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (d != along && parts[i].shape()[d] != first.shape()[d])
        throw_failure(errc::shape_mismatch,
                      std::string{what} + ": dimension " + std::to_string(d) + " of component "
                        + std::to_string(i) + " is " + std::to_string(parts[i].shape()[d])
                        + ", of component 0 " + std::to_string(first.shape()[d]));
    shape[along] += parts[i].shape()[along];
  }
  tensor out{first.type(), shape};
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < shape.size(); ++d)
    (d < along ? outer : inner) *= d == along ? 1 : shape[d];
  const auto element = size_of(first.type());
  auto* to = out.mutable_bytes().data();
  for (std::int64_t o = 0; o < outer; ++o)
    for (const auto& x : parts) {
      const auto bytes = static_cast<std::size_t>(x.shape()[along] * inner) * element;
      if (bytes != 0)
        std::memcpy(to, x.bytes().data() + static_cast<std::size_t>(o) * bytes, bytes);
      to += bytes;
    }
  return out;
}

tensor widened_for_mean(const tensor& x) {
  return x.type() == dtype::i64 || !is_integer(x.type()) ? x.clone() : as_i64(x);
}

} // namespace troupe::detail
