#include <troupe/strategies/replicas/detail/gather_parts.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

/// The parts of a gather: what members tell each other of theirs, before the elements travel.
namespace troupe::detail {

namespace {

// type, rank, extents: a tensor has 16 axes at most (`is_sane`).
constexpr std::size_t extents_at = 2;
constexpr std::size_t told_len = extents_at + 16;

tensor told_of(const tensor& x) {
  auto out = tensor::zeros(dtype::i64, {static_cast<std::int64_t>(told_len)});
  auto cells = out.mutable_as<std::int64_t>();
  cells[0] = static_cast<std::int64_t>(x.type());
  cells[1] = static_cast<std::int64_t>(x.rank());
  std::ranges::copy(x.shape(), cells.begin() + extents_at);
  return out;
}

using cells_t = std::span<const std::int64_t>;

/// Nothing when member `i`, who told `its`, and the first, who told `first`, go together.
std::optional<failure> differs(cells_t first, cells_t its, std::size_t i, std::size_t axis,
                               bool any_extent) {
  const auto who = "all_gather: component " + std::to_string(i);
  if (its[0] != first[0])
    return make_failure(errc::dtype_mismatch, who + " is " + to_string(static_cast<dtype>(its[0]))
                                                + ", component 0 is "
                                                + to_string(static_cast<dtype>(first[0])));
  if (its[1] != first[1])
    return make_failure(errc::shape_mismatch, who + " has rank " + std::to_string(its[1])
                                                + ", component 0 " + std::to_string(first[1]));
  for (std::size_t d = 0; extents_at + d < told_len; ++d)
    if (its[extents_at + d] != first[extents_at + d] && (d != axis || !any_extent))
      return make_failure(errc::shape_mismatch,
                          "all_gather: dimension " + std::to_string(d) + " of component "
                            + std::to_string(i) + " is " + std::to_string(its[extents_at + d])
                            + ", of component 0 " + std::to_string(first[extents_at + d]));
  return std::nullopt;
}

} // namespace

result<void> gather_parts(collective_group& group, const tensor& x, std::size_t axis,
                          bool any_extent, const collective_options& with,
                          std::vector<tensor>& parts) {
  const auto own = told_of(x);
  tensor told{dtype::i64, {group.size(), static_cast<std::int64_t>(told_len)}};
  if (auto done = group.all_gather(own, told, {}, with); !done)
    return done;
  const auto of = [&](std::size_t i) {
    return told.as<std::int64_t>().subspan(i * told_len, told_len);
  };
  for (std::size_t i = 1; i < group.size(); ++i)
    if (auto why = differs(of(0), of(i), i, axis, any_extent)) {
      (void)group.barrier(with); // all know by then: one who leaves ends the others' calls
      return std::move(*why);
    }
  std::vector<std::size_t> counts;
  std::int64_t all = 0;
  auto shape = x.shape();
  for (std::size_t i = 0; i < group.size(); ++i) {
    shape[axis] = of(i)[extents_at + axis];
    if (!is_sane(shape, x.type())
        || !is_sane({all + count_of(shape)}, x.type())) // as told by others
      return make_failure(
        errc::bad_frame,
        "all_gather: a replica announced " + std::to_string(shape[axis]) + " rows along the axis");
    counts.push_back(static_cast<std::size_t>(count_of(shape)));
    all += count_of(shape);
  }
  tensor whole{x.type(), {all}};
  if (auto got = group.all_gather(x, whole, counts, with); !got)
    return got;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    shape[axis] = of(i)[extents_at + axis];
    const auto n = static_cast<std::int64_t>(counts[i]);
    parts.push_back(whole.rows(begin, begin + n).reshaped(shape));
    begin += n;
  }
  return {};
}

} // namespace troupe::detail
