#include <troupe/strategies/replicas/detail/tensor_rows.hpp>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/strategies/replicas/detail/tensor_reduce.hpp>

namespace troupe::detail {

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

tensor row_of(const tensor& x) {
  auto shape = x.shape();
  shape.insert(shape.begin(), 1);
  return x.reshaped(std::move(shape));
}

tensor no_row_like(const tensor& x) {
  auto shape = x.shape();
  shape.insert(shape.begin(), 0);
  return tensor{x.type(), std::move(shape)};
}

tensor reduce_rows(const reduction& op, const tensor& rows) {
  const auto shape = shape_t(rows.shape().begin() + 1, rows.shape().end());
  std::vector<tensor> parts;
  for (std::int64_t i = 0; i < rows.rows(); ++i)
    parts.push_back(rows.rows(i, i + 1).reshaped(shape));
  if (parts.empty())
    throw_failure(errc::invalid_argument, "reduce " + op.user.name + ": no replica has a value");
  return reduce_tensors("reduce", op, parts);
}

} // namespace troupe::detail
