#include <troupe/strategies/sharding/slicing.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

namespace troupe {

namespace {

using positions = std::vector<std::int64_t>;

positions all_of(std::int64_t extent) {
  positions out(static_cast<std::size_t>(extent));
  std::iota(out.begin(), out.end(), std::int64_t{0});
  return out;
}

bool is_all_of(const positions& picks, std::int64_t extent) {
  if (static_cast<std::int64_t>(picks.size()) != extent)
    return false;
  for (std::size_t i = 0; i < picks.size(); ++i)
    if (picks[i] != static_cast<std::int64_t>(i))
      return false;
  return true;
}

failure at_item(errc code, std::size_t item, const std::string& text) {
  return make_failure(code, "index item " + std::to_string(item) + ": " + text);
}

// Axes that an index takes; the ellipsis takes what is left.
struct item_counts {
  std::size_t axes = 0;
  std::size_t ellipses = 0;
  std::size_t masks = 0;
};

item_counts count_items(std::span<const slice_item> items) {
  item_counts out;
  for (const auto& item : items) {
    const auto& value = item.value();
    out.axes += std::holds_alternative<std::int64_t>(value) || std::holds_alternative<slice>(value);
    out.ellipses += std::holds_alternative<ellipsis_t>(value);
    out.masks += std::holds_alternative<boolean_mask>(value);
  }
  return out;
}

// Walks items and axes side by side.
struct plan_builder {
  const shape_t& shape;
  slice_plan plan{};
  std::size_t axis = 0;

  void take(positions picks, bool keep) {
    if (keep)
      plan.shape.push_back(static_cast<std::int64_t>(picks.size()));
    if (axis == 0)
      plan.rows = std::move(picks);
    else
      plan.axes.push_back(std::move(picks));
    ++axis;
  }

  void take_whole(std::size_t axes) {
    for (std::size_t i = 0; i < axes; ++i)
      take(all_of(shape[axis]), true);
  }

  result<void> take_index(std::int64_t index, std::size_t item) {
    const auto extent = shape[axis];
    if (index < -extent || index >= extent)
      return at_item(errc::out_of_range, item,
                     std::to_string(index) + " is out of bounds for axis " + std::to_string(axis)
                       + " with extent " + std::to_string(extent));
    take({index < 0 ? index + extent : index}, false);
    return {};
  }

  result<void> take_item(const slice_item& from, std::size_t item, std::size_t ellipsis_axes) {
    if (const auto* index = std::get_if<std::int64_t>(&from.value()))
      return take_index(*index, item);
    if (const auto* range = std::get_if<slice>(&from.value())) {
      auto picks = slice_positions(*range, shape[axis]);
      if (!picks)
        return at_item(picks.error().code, item, picks.error().text);
      take(std::move(*picks), true);
    } else if (std::holds_alternative<ellipsis_t>(from.value())) {
      take_whole(ellipsis_axes);
    } else {
      plan.shape.push_back(1);
    }
    return {};
  }
};

result<slice_plan> plan_mask(const shape_t& shape, const tensor& mask) {
  if (mask.type() != dtype::u8 || !mask.defined())
    return make_failure(errc::dtype_mismatch,
                        "boolean mask: it is " + type_and_shape(mask) + ", must be of u8");
  const auto rank = mask.rank();
  if (rank == 0 || rank > shape.size()
      || !std::equal(mask.shape().begin(), mask.shape().end(), shape.begin()))
    return make_failure(errc::shape_mismatch, "boolean mask: shape " + to_string(mask.shape())
                                                + " is not a prefix of " + to_string(shape));
  slice_plan plan;
  const auto row_size = static_cast<std::size_t>(mask.row_size());
  const auto* from = mask.as<std::uint8_t>().data();
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    const auto* begin = from + static_cast<std::size_t>(row) * row_size;
    auto set = std::count_if(begin, begin + row_size, [](std::uint8_t x) { return x != 0; });
    if (set > 0)
      plan.rows.push_back(row);
    count += set;
  }
  plan.gathered_shape = shape;
  plan.gathered_shape[0] = static_cast<std::int64_t>(plan.rows.size());
  shape_t mask_shape = mask.shape();
  mask_shape[0] = plan.gathered_shape[0];
  plan.mask = tensor{dtype::u8, mask_shape};
  auto to = plan.mask.mutable_as<std::uint8_t>();
  for (std::size_t i = 0; i < plan.rows.size(); ++i)
    std::copy_n(from + static_cast<std::size_t>(plan.rows[i]) * row_size, row_size,
                to.begin() + static_cast<std::ptrdiff_t>(i * row_size));
  plan.shape.assign(shape.begin() + static_cast<std::ptrdiff_t>(rank), shape.end());
  plan.shape.insert(plan.shape.begin(), count);
  return plan;
}

tensor apply_mask(const slice_plan& plan, const tensor& gathered) {
  if (plan.shape[0] == plan.mask.size()) // every element, so the shapes differ only in form
    return gathered.reshaped(plan.shape);
  tensor out{gathered.type(), plan.shape};
  const auto mask = plan.mask.as<std::uint8_t>();
  const auto block = mask.empty() ? 0 : gathered.size_bytes() / mask.size();
  auto* to = out.mutable_bytes().data();
  for (std::size_t i = 0; i < mask.size() && block > 0; ++i) {
    if (mask[i] == 0)
      continue;
    std::memcpy(to, gathered.bytes().data() + i * block, block);
    to += block;
  }
  return out;
}

// Copies the picked elements axis by axis; axes from `last` on are whole and copied as one block.
struct axis_copier {
  const std::vector<positions>& axes;
  std::vector<std::size_t> stride_bytes{};
  std::size_t last = 0;
  std::size_t block_bytes = 0;
  std::byte* to = nullptr;

  void copy(const std::byte* from, std::size_t axis) {
    if (axis == last) {
      std::memcpy(to, from, block_bytes);
      to += block_bytes;
      return;
    }
    for (auto pick : axes[axis])
      copy(from + static_cast<std::size_t>(pick) * stride_bytes[axis], axis + 1);
  }
};

tensor apply_axes(const slice_plan& plan, const tensor& gathered) {
  const auto& extents = gathered.shape();
  axis_copier copier{plan.axes};
  copier.block_bytes = size_of(gathered.type());
  copier.stride_bytes.resize(plan.axes.size());
  for (auto i = plan.axes.size(); i > 0; --i) {
    auto extent = extents[i]; // axes[0] is axis 1
    copier.stride_bytes[i - 1] = copier.block_bytes;
    if (copier.last == 0 && !is_all_of(plan.axes[i - 1], extent))
      copier.last = i;
    copier.block_bytes *= static_cast<std::size_t>(extent);
  }
  if (copier.last == 0)
    return gathered.reshaped(plan.shape);
  tensor out{gathered.type(), plan.shape};
  if (out.size() == 0)
    return out;
  const auto row_bytes = copier.block_bytes;
  copier.block_bytes = copier.stride_bytes[copier.last - 1];
  copier.to = out.mutable_bytes().data();
  for (std::size_t row = 0; row < plan.rows.size(); ++row)
    copier.copy(gathered.bytes().data() + row * row_bytes, 0);
  return out;
}

} // namespace

result<std::vector<std::int64_t>> slice_positions(const slice& range, std::int64_t extent) {
  // The lowest step has no positive counterpart; one more reaches as far.
  const auto step =
    std::max(range.step.value().value_or(1), std::numeric_limits<std::int64_t>::lowest() + 1);
  if (step == 0)
    return make_failure(errc::invalid_argument, "slice step is 0");
  // Where a walk forwards or backwards can begin or end.
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? extent : extent - 1;
  auto bound = [&](const slice_bound& given, std::int64_t otherwise) {
    if (!given.value())
      return otherwise;
    auto at = *given.value();
    return std::clamp(at < 0 ? at + extent : at, low, high);
  };
  const auto start = bound(range.start, step > 0 ? low : high);
  const auto stop = bound(range.stop, step > 0 ? high : low);
  std::int64_t count = 0;
  if (step > 0 && start < stop)
    count = (stop - start - 1) / step + 1;
  else if (step < 0 && start > stop)
    count = (start - stop - 1) / -step + 1;
  positions out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    out[static_cast<std::size_t>(i)] = start + i * step;
  return out;
}

result<slice_plan> plan_slice(const shape_t& shape, std::span<const slice_item> items) {
  const auto counts = count_items(items);
  if (counts.masks > 0) {
    if (items.size() > 1)
      return make_failure(errc::invalid_argument,
                          "index: a boolean mask must be the only item, got "
                            + std::to_string(items.size()) + " items");
    return plan_mask(shape, std::get<boolean_mask>(items[0].value()).values);
  }
  if (counts.axes > shape.size())
    return make_failure(errc::invalid_argument, "index: " + std::to_string(counts.axes)
                                                  + " items for the " + std::to_string(shape.size())
                                                  + " axes of " + to_string(shape));
  if (counts.ellipses > 1)
    return make_failure(errc::invalid_argument,
                        "index: " + std::to_string(counts.ellipses) + " ellipses, at most 1");
  plan_builder build{shape};
  for (std::size_t i = 0; i < items.size(); ++i)
    if (auto done = build.take_item(items[i], i, shape.size() - counts.axes); !done)
      return done.error();
  build.take_whole(shape.size() - build.axis);
  build.plan.gathered_shape = shape;
  if (shape.empty())
    build.plan.rows = {0};
  else
    build.plan.gathered_shape[0] = static_cast<std::int64_t>(build.plan.rows.size());
  return std::move(build.plan);
}

std::vector<shard_gather> gathers_of(const slice_plan& plan, std::span<const shard_spec> shards) {
  return group_by_range(plan.rows, shards).value_or_throw();
}

tensor apply_slice(const slice_plan& plan, const tensor& gathered) {
  if (gathered.shape() != plan.gathered_shape)
    throw_failure(errc::shape_mismatch, "slice: gathered rows have shape "
                                          + to_string(gathered.shape()) + ", not "
                                          + to_string(plan.gathered_shape));
  return plan.mask.defined() ? apply_mask(plan, gathered) : apply_axes(plan, gathered);
}

tensor gather_slice(const slice_plan& plan, dtype type, std::span<const shard_spec> shards,
                    const gather_shard_rows& gather) {
  shape_t row_shape;
  if (!plan.gathered_shape.empty())
    row_shape.assign(plan.gathered_shape.begin() + 1, plan.gathered_shape.end());
  auto rows = gather_groups(gathers_of(plan, shards), type, row_shape,
                            static_cast<std::int64_t>(plan.rows.size()), gather);
  return apply_slice(plan, rows.reshaped(plan.gathered_shape));
}

tensor slice_tensor(const tensor& whole, std::span<const slice_item> items) {
  auto plan = plan_slice(whole.shape(), items).value_or_throw();
  const auto& rows = plan.rows;
  bool consecutive = true;
  for (std::size_t i = 1; i < rows.size() && consecutive; ++i)
    consecutive = rows[i] == rows[i - 1] + 1;
  if (whole.rank() == 0)
    return apply_slice(plan, whole);
  if (consecutive) {
    auto begin = rows.empty() ? 0 : rows.front();
    auto end = begin + static_cast<std::int64_t>(rows.size());
    return apply_slice(plan, whole.rows(begin, end));
  }
  tensor gathered{whole.type(), plan.gathered_shape};
  const auto row_bytes = static_cast<std::size_t>(whole.row_size()) * size_of(whole.type());
  for (std::size_t i = 0; i < rows.size() && row_bytes > 0; ++i)
    std::memcpy(gathered.mutable_bytes().data() + i * row_bytes,
                whole.bytes().data() + static_cast<std::size_t>(rows[i]) * row_bytes, row_bytes);
  return apply_slice(plan, gathered);
}

} // namespace troupe
