#include <troupe/strategies/replicas/detail/tensor_reduce.hpp>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <utility>

#include <troupe/core/error.hpp>
#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/merge.hpp>

namespace troupe::detail {

namespace {

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
  throw_failure(errc::dtype_mismatch, "reduce: elements of type " + to_string(type)
                                        + " must be converted to a wider type first");
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
  walk(shape_t of, const std::vector<bool>& reduced) : shape{std::move(of)} {
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
  /// f(element, its place in the result) for each element, in their order.
  template <class F>
  void each(F f) const {
    const auto n = static_cast<std::size_t>(count_of(shape));
    std::vector<std::int64_t> at(shape.size(), 0);
    std::int64_t place = 0;
    for (std::size_t i = 0; i < n; ++i) {
      f(i, static_cast<std::size_t>(place));
      for (std::size_t d = shape.size(); d-- > 0;) {
        place += strides[d];
        if (++at[d] < shape[d])
          break;
        place -= strides[d] * at[d];
        at[d] = 0;
      }
    }
  }

  shape_t shape;
  shape_t kept{};
  std::int64_t elements = 1;
  std::vector<std::int64_t> strides{}; ///< in the result, 0 along what is reduced
};

template <class T>
void reduce_into(reduce_op op, const tensor& x, const walk& how, tensor& out) {
  auto from = x.as<T>();
  auto to = out.mutable_as<T>();
  std::vector<bool> seen(to.size(), false);
  how.each([&](std::size_t i, std::size_t p) {
    to[p] = seen[p] ? fold(op, to[p], from[i]) : from[i];
    seen[p] = true;
  });
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

template <class T>
void fill_neutral(tensor& x, reduce_op op) {
  using limits = std::numeric_limits<T>;
  T value{};
  if (op == reduce_op::prod)
    value = T{1};
  else if (op == reduce_op::min)
    value = limits::has_infinity ? limits::infinity() : limits::max();
  else if (op == reduce_op::max)
    value = limits::has_infinity ? -limits::infinity() : limits::lowest();
  for (auto& each : x.mutable_as<T>())
    each = value;
}

// --- sums of integers whose mean is wanted

__extension__ typedef __int128 wide_int; ///< holds 2^64 sums of i64

/// As two words of i64, the upper 96 bits and the lower 32, so that 2^31 of them can be added word
/// by word: upper words first, then lower ones.
tensor two_words(std::span<const wide_int> xs, shape_t shape) {
  shape.insert(shape.begin(), 2);
  tensor out{dtype::i64, std::move(shape)};
  auto to = out.mutable_as<std::int64_t>();
  for (std::size_t i = 0; i < xs.size(); ++i) {
    to[i] = static_cast<std::int64_t>(xs[i] >> 32);
    to[xs.size() + i] = static_cast<std::int64_t>(xs[i] & 0xffff'ffff);
  }
  return out;
}

wide_int of_words(std::int64_t upper, std::int64_t lower) {
  return static_cast<wide_int>(upper) * (wide_int{1} << 32) + lower;
}

std::vector<wide_int> as_wide(const tensor& x) {
  std::vector<wide_int> out;
  with_type(x.type(), [&](auto zero) {
    const auto from = x.as<decltype(zero)>();
    out.assign(from.begin(), from.end());
  });
  return out;
}

tensor quotients(std::span<const wide_int> xs, shape_t shape, std::int64_t by) {
  tensor out{dtype::f64, std::move(shape)};
  auto to = out.mutable_as<double>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<double>(xs[i]) / static_cast<double>(by);
  if (by == 0)
    divide_by_nothing(to);
  return out;
}

} // namespace

tensor neutral(dtype type, const shape_t& shape, reduce_op op) {
  auto x = tensor::zeros(type == dtype::f16 || type == dtype::bf16 ? dtype::f32 : type, shape);
  with_type(x.type(), [&](auto zero) { fill_neutral<decltype(zero)>(x, op); });
  return narrowed(x, type);
}

tensor mean_summand(const tensor& x) {
  if (is_integer(x.type()))
    return two_words(as_wide(x), x.shape());
  const auto wide = widened(x);
  if (x.type() != dtype::bf16)
    return wide;
  tensor out{dtype::f64, x.shape()}; // f32 ends where bf16 does
  std::ranges::copy(wide.as<float>(), out.mutable_as<double>().begin());
  return out;
}

shape_t shape_of_summand(const tensor& summand, dtype type) {
  auto shape = summand.shape();
  if (is_integer(type))
    shape.erase(shape.begin());
  return shape;
}

tensor mean_of(const tensor& sum, dtype type, std::int64_t by) {
  if (type == dtype::bf16) {
    const auto mean = divide(sum, by);
    tensor out{dtype::f32, sum.shape()};
    std::ranges::transform(mean.as<double>(), out.mutable_as<float>().begin(),
                           [](double each) { return static_cast<float>(each); });
    return narrowed(out, type);
  }
  if (!is_integer(type))
    return narrowed(divide(sum, by), type);
  const auto words = sum.as<std::int64_t>();
  const auto n = words.size() / 2;
  std::vector<wide_int> totals(n);
  for (std::size_t i = 0; i < n; ++i)
    totals[i] = of_words(words[i], words[n + i]);
  return quotients(totals, shape_of_summand(sum, type), by);
}

tensor divide(const tensor& x, std::int64_t by) {
  if (is_integer(x.type()))
    return quotients(as_wide(x), x.shape(), by);
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

void require_one_type(const char* what, std::span<const tensor> parts) {
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i].type() != parts[0].type())
      throw_failure(errc::dtype_mismatch, std::string{what} + ": component " + std::to_string(i)
                                            + " is " + to_string(parts[i].type())
                                            + ", component 0 is " + to_string(parts[0].type()));
}

tensor reduce_tensors(const char* what, const reduction& op, std::span<const tensor> parts) {
  require_one_type(what, parts);
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i].shape() != parts[0].shape())
      throw_failure(errc::shape_mismatch, std::string{what} + ": component " + std::to_string(i)
                                            + " has shape " + to_string(parts[i].shape())
                                            + ", component 0 " + to_string(parts[0].shape()));
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
  if (mean && is_integer(type)) {
    auto totals = as_wide(parts[0]);
    for (const auto& each : parts.subspan(1)) {
      const auto with = as_wide(each);
      for (std::size_t i = 0; i < count; ++i)
        totals[i] += with[i];
    }
    return quotients(totals, parts[0].shape(), n);
  }
  tensor out{type, parts[0].shape()};
  std::vector<kernels::merge_source> sources;
  for (const auto& each : parts)
    sources.push_back({.data = each.bytes().data()});
  std::byte* to = out.mutable_bytes().data();
  kernels::merge({.op = merge_of(op.op), .type = type, .divide_by = mean ? n : 1}, sources,
                 {&to, 1}, count);
  return out;
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
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    if (reduced[at])
      throw_failure(errc::invalid_argument, std::string{what} + ": axis " + std::to_string(at)
                                              + " is given twice, the second time as "
                                              + std::to_string(axis));
    reduced[at] = true;
  }
  if (op.op == reduce_op::user)
    throw_failure(errc::invalid_argument,
                  std::string{what} + ": a user-defined reduction does not support an axis");
  const bool mean = op.op == reduce_op::mean;
  const walk how{x.shape(), reduced};
  elements = how.elements;
  if (mean && is_integer(x.type())) {
    std::vector<wide_int> totals(static_cast<std::size_t>(count_of(how.kept)));
    const auto from = as_wide(x);
    how.each([&](std::size_t i, std::size_t place) { totals[place] += from[i]; });
    return two_words(totals, how.kept);
  }
  const auto from = mean ? mean_summand(x) : widened(x);
  auto out = neutral(from.type(), how.kept, op.op); // what is left where there is nothing
  with_type(from.type(), [&](auto zero) { reduce_into<decltype(zero)>(op.op, from, how, out); });
  return mean ? out : narrowed(out, x.type());
}

} // namespace troupe::detail
