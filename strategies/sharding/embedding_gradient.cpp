#include <troupe/strategies/sharding/embedding.hpp>

#include <troupe/kernels/elementwise.hpp>
#include <troupe/strategies/sharding/detail/embedding_bags.hpp>

#include <algorithm>
#include <string>

namespace troupe {

namespace {

using namespace detail;

// Sums `factor(i) * source row(i)` by id.
template <class T, class SourceRow, class Factor>
sparse_gradient summed(const id_list& ids, const shape_t& row_shape, SourceRow source_row,
                       Factor factor) {
  auto unique = unique_of(ids);
  const auto cols = static_cast<std::size_t>(count_of(row_shape));
  const auto n = static_cast<std::int64_t>(unique.ids.size());
  sparse_gradient out;
  out.indices = tensor::of<std::int64_t>({n}, unique.ids);
  out.values = tensor::zeros(dtype_of<T>::value, joined({n}, row_shape));
  auto to = out.values.mutable_as<T>();
  for (std::size_t i = 0; i < ids.size(); ++i)
    kernels::axpy<T>(static_cast<T>(factor(i)), source_row(i),
                     to.subspan(static_cast<std::size_t>(unique.slots[i]) * cols, cols));
  return out;
}

// The axes of `upstream` after `head`, which it must begin with.
shape_t row_shape_after(const shape_t& head, const tensor& upstream) {
  const auto& shape = upstream.shape();
  if (shape.size() < head.size() || !std::equal(head.begin(), head.end(), shape.begin()))
    throw_failure(errc::shape_mismatch, "embedding gradient: upstream has shape " + to_string(shape)
                                          + ", must begin with " + to_string(head));
  return {shape.begin() + static_cast<std::ptrdiff_t>(head.size()), shape.end()};
}

} // namespace

sparse_gradient embedding_lookup_gradient(const tensor& ids, const tensor& upstream) {
  auto row_shape = row_shape_after(ids.shape(), upstream);
  const auto cols = static_cast<std::size_t>(count_of(row_shape));
  return with_float("upstream gradient", upstream.type(), [&](auto zero) {
    using T = decltype(zero);
    auto row = [&](std::size_t i) { return upstream.as<T>().subspan(i * cols, cols); };
    return summed<T>(ids_of(ids), row_shape, row, [](std::size_t) { return 1.0; });
  });
}

sparse_gradient embedding_lookup_sparse_gradient(const sparse_ids& ids, const tensor& weights,
                                                 const tensor& upstream, combiner how) {
  auto entries = entries_of(ids, weights);
  auto row_shape = row_shape_after(entries.bag_shape, upstream);
  const auto cols = static_cast<std::size_t>(count_of(row_shape));
  const auto divisors = divisors_of(entries, how);
  auto factor = [&](std::size_t i) {
    const auto divisor = divisors[static_cast<std::size_t>(entries.bag[i])];
    return divisor == 0 ? 0.0 : entries.weights[i] / divisor;
  };
  return with_float("upstream gradient", upstream.type(), [&](auto zero) {
    using T = decltype(zero);
    auto row = [&](std::size_t i) {
      return upstream.as<T>().subspan(static_cast<std::size_t>(entries.bag[i]) * cols, cols);
    };
    return summed<T>(entries.ids, row_shape, row, factor);
  });
}

} // namespace troupe
