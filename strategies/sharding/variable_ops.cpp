#include <troupe/strategies/sharding/variable_ops.hpp>

#include <troupe/kernels/elementwise.hpp>

#include <algorithm>
#include <iterator>
#include <string>

namespace troupe {

namespace {

std::string part_text(std::size_t i) { return "part " + std::to_string(i); }

bool same_beyond_axis_0(const shape_t& a, const shape_t& b) {
  return a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

shard_form form_of(const tensor& x) { return {x.type(), x.shape()}; }

// --- arithmetic -------------------------------------------------------------------------------

template <class F>
tensor with_number(dtype type, F f) {
  switch (type) {
    case dtype::f32: return f(float{});
    case dtype::f64: return f(double{});
    case dtype::i32: return f(std::int32_t{});
    case dtype::i64: return f(std::int64_t{});
    default:
      throw_failure(errc::dtype_mismatch,
                    "operands are " + to_string(type) + ", must be f32, f64, i32 or i64");
  }
}

// `x`, or its only element as often as `shape` needs it.
template <class T>
tensor spread(const tensor& x, const shape_t& shape) {
  if (x.shape() == shape)
    return x;
  tensor out{x.type(), shape};
  kernels::fill<T>(x.item<T>(), out.mutable_as<T>());
  return out;
}

template <class T, class Holds>
tensor compare(std::span<const T> a, std::span<const T> b, const shape_t& shape, Holds holds) {
  tensor out{dtype::u8, shape};
  auto to = out.mutable_as<std::uint8_t>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = holds(a[i], b[i]) ? 1 : 0;
  return out;
}

template <class T>
tensor calculate(binary_op op, std::span<const T> a, std::span<const T> b, const shape_t& shape) {
  tensor out{dtype_of<T>::value, shape};
  auto to = out.mutable_as<T>();
  switch (op) {
    case binary_op::add: kernels::add<T>(a, b, to); break;
    case binary_op::sub: kernels::sub<T>(a, b, to); break;
    case binary_op::mul: kernels::mul<T>(a, b, to); break;
    default:
      if (std::is_integral_v<T> && std::find(b.begin(), b.end(), T{0}) != b.end())
        throw_failure(errc::invalid_argument, "div: integer division by 0");
      kernels::div<T>(a, b, to);
  }
  return out;
}

template <class T>
tensor apply_typed(binary_op op, const tensor& x, const tensor& y, const shape_t& shape) {
  auto a_whole = spread<T>(x, shape);
  auto b_whole = spread<T>(y, shape);
  auto a = a_whole.template as<T>();
  auto b = b_whole.template as<T>();
  switch (op) {
    case binary_op::equal: return compare(a, b, shape, [](T p, T q) { return p == q; });
    case binary_op::not_equal: return compare(a, b, shape, [](T p, T q) { return p != q; });
    case binary_op::less: return compare(a, b, shape, [](T p, T q) { return p < q; });
    case binary_op::less_equal: return compare(a, b, shape, [](T p, T q) { return p <= q; });
    case binary_op::greater: return compare(a, b, shape, [](T p, T q) { return p > q; });
    case binary_op::greater_equal: return compare(a, b, shape, [](T p, T q) { return p >= q; });
    default: return calculate(op, a, b, shape);
  }
}

} // namespace

// --- parts ------------------------------------------------------------------------------------

result<container_form> container_of(std::span<const shard_form> parts) {
  if (parts.empty())
    return make_failure(errc::invalid_argument, "sharded variable: no parts");
  container_form out{parts[0].type, parts[0].shape};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [type, shape] = parts[i];
    if (type != out.type)
      return make_failure(errc::dtype_mismatch, "sharded variable: " + part_text(i) + " is "
                                                  + to_string(type) + ", part 0 "
                                                  + to_string(out.type));
    if (shape.empty() || !is_sane(shape, type))
      return make_failure(errc::shape_mismatch, "sharded variable: " + part_text(i) + " has shape "
                                                  + to_string(shape)
                                                  + ", must have rows and extents in range");
    if (!same_beyond_axis_0(shape, parts[0].shape))
      return make_failure(errc::shape_mismatch, "sharded variable: " + part_text(i) + " has shape "
                                                  + to_string(shape)
                                                  + ", which differs from part 0's "
                                                  + to_string(parts[0].shape) + " beyond axis 0");
    const auto begin = out.rows.empty() ? 0 : out.rows.back().end;
    out.rows.push_back({begin, begin + shape[0]});
  }
  out.shape[0] = out.rows.back().end;
  return out;
}

result<tensor> concatenate_shards(std::span<const tensor> parts, std::optional<dtype> asked) {
  if (!parts.empty() && asked && *asked != parts[0].type())
    return make_failure(errc::dtype_mismatch, "variable: elements are " + to_string(parts[0].type())
                                                + ", requested as " + to_string(*asked));
  if (parts.size() == 1)
    return parts[0];
  std::vector<shard_form> forms;
  std::transform(parts.begin(), parts.end(), std::back_inserter(forms), form_of);
  if (auto form = container_of(forms); !form)
    return form.error();
  return concatenate(parts);
}

result<void> check_value(const tensor& value, const variable_spec& variable) {
  const auto what = "variable \"" + variable.name + "\": the value ";
  if (!value.defined())
    return make_failure(
      errc::invalid_argument,
      what + "is missing, expected " + to_string(variable.type) + to_string(variable.shape));
  if (value.type() != variable.type)
    return make_failure(errc::dtype_mismatch, what + "is " + to_string(value.type())
                                                + ", the variable " + to_string(variable.type));
  if (value.shape() == variable.shape)
    return {};
  auto text =
    what + "has shape " + to_string(value.shape()) + ", the variable " + to_string(variable.shape);
  if (!value.shape().empty() && same_beyond_axis_0(value.shape(), variable.shape))
    text += ": too " + std::string{value.rows() > variable.rows() ? "many" : "few"} + " rows, "
            + std::to_string(value.rows()) + " for " + std::to_string(variable.rows());
  return make_failure(errc::shape_mismatch, std::move(text));
}

result<std::vector<tensor>> split_by_shards(const tensor& value, const variable_spec& variable) {
  if (auto fits = check_value(value, variable); !fits)
    return fits.error();
  std::vector<tensor> out;
  for (const auto& shard : variable.shards)
    out.push_back(value.rows(shard.row_begin, shard.row_end));
  return out;
}

// --- operators --------------------------------------------------------------------------------

std::string to_string(binary_op op) {
  static constexpr const char* names[] = {"add",     "sub",          "mul",  "div",
                                          "equal",   "not_equal",    "less", "less_equal",
                                          "greater", "greater_equal"};
  auto at = static_cast<std::size_t>(op);
  return at < std::size(names) ? names[at] : "binary_op(" + std::to_string(at) + ")";
}

tensor apply_binary(binary_op op, const tensor& a, const tensor& b) {
  if (op > binary_op::greater_equal)
    throw_failure(errc::invalid_argument, to_string(op) + " is not an operator");
  if (!a.defined() || !b.defined())
    throw_failure(errc::invalid_argument, to_string(op) + ": left is " + type_and_shape(a)
                                            + ", right " + type_and_shape(b));
  if (a.type() != b.type())
    throw_failure(errc::dtype_mismatch, to_string(op) + ": left is " + to_string(a.type())
                                          + ", right " + to_string(b.type()));
  if (a.shape() != b.shape() && a.rank() > 0 && b.rank() > 0)
    throw_failure(errc::shape_mismatch, to_string(op) + ": left has shape " + to_string(a.shape())
                                          + ", right " + to_string(b.shape()));
  const auto& shape = a.rank() > 0 ? a.shape() : b.shape();
  return with_number(a.type(),
                     [&](auto zero) { return apply_typed<decltype(zero)>(op, a, b, shape); });
}

} // namespace troupe
