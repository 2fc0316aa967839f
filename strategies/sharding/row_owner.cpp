#include <troupe/strategies/sharding/row_owner.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace troupe {

namespace {

failure bad_row(std::int64_t id, std::int64_t rows) {
  return make_failure(errc::out_of_range,
                      "row " + std::to_string(id) + " of " + std::to_string(rows) + " rows");
}

// Adds ids to the group of the shard that `owner_of` finds; groups without ids are left out.
template <class OwnerOf>
result<std::vector<shard_gather>> group(std::span<const std::int64_t> ids, std::size_t shards,
                                        OwnerOf owner_of) {
  std::vector<shard_gather> all(shards);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    result<row_owner> owner = owner_of(ids[i]);
    if (!owner)
      return make_failure(owner.error().code,
                          "position " + std::to_string(i) + ": " + owner.error().text);
    auto& to = all[owner->shard];
    to.shard = owner->shard;
    to.local_rows.push_back(owner->local_row);
    to.positions.push_back(static_cast<std::int64_t>(i));
  }
  std::erase_if(all, [](const shard_gather& x) { return x.local_rows.empty(); });
  return all;
}

bool is_identity(const std::vector<std::int64_t>& positions) {
  for (std::size_t i = 0; i < positions.size(); ++i)
    if (positions[i] != static_cast<std::int64_t>(i))
      return false;
  return true;
}

} // namespace

result<row_owner> owner_of_row(std::int64_t rows, std::uint32_t shards, std::int64_t id) {
  if (shards == 0)
    return make_failure(errc::invalid_argument, "owner of a row: shards is 0");
  if (id < 0 || id >= rows)
    return bad_row(id, rows);
  const auto base = rows / shards;
  const auto extra = rows % shards;
  // The first `extra` shards have base + 1 rows, the others base.
  const auto boundary = extra * (base + 1);
  if (id < boundary)
    return row_owner{static_cast<std::uint32_t>(id / (base + 1)), id % (base + 1)};
  return row_owner{static_cast<std::uint32_t>((id - extra) / base), (id - extra) % base};
}

result<void> check_div_layout(std::int64_t rows, std::span<const shard_spec> shards) {
  if (shards.empty())
    return make_failure(errc::mismatch, "div layout: no shards");
  const auto n = static_cast<std::int64_t>(shards.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    auto end = begin + rows / n + (static_cast<std::int64_t>(i) < rows % n ? 1 : 0);
    if (shards[i].row_begin != begin || shards[i].row_end != end)
      return make_failure(errc::mismatch,
                          "shard " + std::to_string(i) + " has rows ["
                            + std::to_string(shards[i].row_begin) + ", "
                            + std::to_string(shards[i].row_end) + "), the div split of "
                            + std::to_string(rows) + " rows in " + std::to_string(n) + " gives ["
                            + std::to_string(begin) + ", " + std::to_string(end) + ")");
    begin = end;
  }
  return {};
}

result<void> check_row_indices(const tensor& indices, std::int64_t rows) {
  if (!indices.defined())
    return make_failure(errc::invalid_argument, "no indices given, expected i64 of rank 1");
  if (indices.type() != dtype::i64)
    return make_failure(errc::dtype_mismatch,
                        "indices are " + to_string(indices.type()) + ", must be i64");
  if (indices.rank() != 1)
    return make_failure(errc::shape_mismatch,
                        "indices have shape " + to_string(indices.shape()) + ", must have rank 1");
  auto ids = indices.as<std::int64_t>();
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= rows)
      return make_failure(errc::out_of_range,
                          "position " + std::to_string(i) + ": " + bad_row(ids[i], rows).text);
  return {};
}

result<std::vector<shard_gather>> group_by_owner(std::span<const std::int64_t> ids,
                                                 std::int64_t rows,
                                                 std::span<const shard_spec> shards) {
  if (auto fits = check_div_layout(rows, shards); !fits)
    return fits.error();
  const auto n = static_cast<std::uint32_t>(shards.size());
  return group(ids, shards.size(), [&](std::int64_t id) { return owner_of_row(rows, n, id); });
}

result<std::vector<shard_gather>> group_by_range(std::span<const std::int64_t> ids,
                                                 std::span<const shard_spec> shards) {
  const auto rows = shards.empty() ? 0 : shards.back().row_end;
  return group(ids, shards.size(), [&](std::int64_t id) -> result<row_owner> {
    auto at = std::partition_point(shards.begin(), shards.end(),
                                   [id](const shard_spec& x) { return x.row_end <= id; });
    if (at == shards.end() || id < at->row_begin)
      return bad_row(id, rows);
    return row_owner{static_cast<std::uint32_t>(at - shards.begin()), id - at->row_begin};
  });
}

tensor gather_groups(std::span<const shard_gather> groups, dtype type, const shape_t& row_shape,
                     std::int64_t total, const gather_shard_rows& gather) {
  auto shape_of = [&](std::int64_t rows) {
    shape_t shape{rows};
    shape.insert(shape.end(), row_shape.begin(), row_shape.end());
    return shape;
  };
  auto rows_of = [&](const shard_gather& group) {
    auto rows = gather(group.shard, group.local_rows);
    auto expected = shape_of(static_cast<std::int64_t>(group.local_rows.size()));
    if (rows.type() != type)
      throw_failure(errc::dtype_mismatch, "shard " + std::to_string(group.shard) + " gave "
                                            + to_string(rows.type()) + ", not " + to_string(type));
    if (rows.shape() != expected)
      throw_failure(errc::shape_mismatch, "shard " + std::to_string(group.shard) + " gave "
                                            + to_string(rows.shape()) + ", not "
                                            + to_string(expected));
    return rows;
  };
  if (groups.size() == 1 && static_cast<std::int64_t>(groups[0].positions.size()) == total
      && is_identity(groups[0].positions))
    return rows_of(groups[0]);
  tensor out{type, shape_of(total)};
  const auto row_bytes = static_cast<std::size_t>(count_of(row_shape)) * size_of(type);
  auto* to = out.mutable_bytes().data();
  for (const auto& group : groups) {
    auto rows = rows_of(group);
    for (std::size_t i = 0; i < group.positions.size() && row_bytes > 0; ++i)
      std::memcpy(to + static_cast<std::size_t>(group.positions[i]) * row_bytes,
                  rows.bytes().data() + i * row_bytes, row_bytes);
  }
  return out;
}

} // namespace troupe
