#include <troupe/strategies/replicas/collective_gradients.hpp>

#include <cstring>
#include <numeric>
#include <string>

#include <troupe/transport/collective_group.hpp>

namespace troupe {

namespace {

void require_gradient(const char* what, const tensor& upstream) {
  if (upstream.type() <= dtype::i64)
    throw_failure(errc::dtype_mismatch, std::string{what} + ": upstream is "
                                          + to_string(upstream.type())
                                          + ", expected a floating-point type");
}

/// Extents of all replicas along the axis, in their order; 0 for those without data.
std::vector<std::int64_t> extents_of_all(replica_context& ctx, std::int64_t own) {
  auto mine = tensor::zeros(dtype::i64, {ctx.num_replicas_in_sync()});
  mine.mutable_as<std::int64_t>()[ctx.replica_id_in_sync_group()] = own;
  const auto all = ctx.all_reduce(reduce_op::sum, mine);
  const auto each = all.as<std::int64_t>();
  return {each.begin(), each.end()};
}

/// Elements [begin, begin + count) along `axis`.
tensor part_along(const tensor& x, std::size_t axis, std::int64_t begin, std::int64_t count) {
  if (axis == 0)
    return x.rows(begin, begin + count).clone();
  auto shape = x.shape();
  const auto whole = shape[axis];
  shape[axis] = count;
  tensor out{x.type(), shape};
  std::size_t inner = size_of(x.type());
  for (std::size_t i = axis + 1; i < shape.size(); ++i)
    inner *= static_cast<std::size_t>(shape[i]);
  const auto from_bytes = static_cast<std::size_t>(whole) * inner;
  const auto bytes = static_cast<std::size_t>(count) * inner;
  const auto skipped = static_cast<std::size_t>(begin) * inner;
  for (std::size_t at = 0; bytes != 0 && at * bytes < out.size_bytes(); ++at)
    std::memcpy(out.mutable_bytes().data() + at * bytes,
                x.bytes().data() + at * from_bytes + skipped, bytes);
  return out;
}

} // namespace

tensor all_reduce_gradient(replica_context& ctx, const reduction& op, const tensor& upstream) {
  require_gradient("all_reduce_gradient", upstream);
  if (op.op != reduce_op::sum && op.op != reduce_op::mean)
    throw_failure(
      errc::invalid_argument,
      "all_reduce_gradient: op is " + std::string{to_string(op.op)} + ", expected sum or mean");
  return ctx.all_reduce(op, upstream);
}

tensor all_gather_gradient(replica_context& ctx, const tensor& upstream, std::int64_t own_extent,
                           std::int64_t axis) {
  require_gradient("all_gather_gradient", upstream);
  const auto rank = static_cast<std::int64_t>(upstream.rank());
  if (rank == 0)
    throw_failure(errc::invalid_argument, "all_gather_gradient: upstream is a scalar");
  if (axis < 0 || axis >= rank)
    throw_failure(errc::out_of_range, "all_gather_gradient: axis is " + std::to_string(axis)
                                        + ", expected 0 to " + std::to_string(rank - 1));
  if (own_extent < 0)
    throw_failure(errc::invalid_argument,
                  "all_gather_gradient: own_extent is " + std::to_string(own_extent));
  const auto along = static_cast<std::size_t>(axis);
  const auto extents = extents_of_all(ctx, own_extent);
  const auto total = std::accumulate(extents.begin(), extents.end(), std::int64_t{0});
  if (total != upstream.shape()[along])
    throw_failure(errc::shape_mismatch, "all_gather_gradient: upstream has "
                                          + std::to_string(upstream.shape()[along]) + " along axis "
                                          + std::to_string(axis) + ", the replicas' parts "
                                          + std::to_string(total));
  const auto sum = ctx.all_reduce(reduce_op::sum, upstream);
  const auto own = extents.begin() + ctx.replica_id_in_sync_group();
  return part_along(sum, along, std::accumulate(extents.begin(), own, std::int64_t{0}), own_extent);
}

} // namespace troupe
