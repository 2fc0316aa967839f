#include <troupe/strategies/sharding/embedding.hpp>

#include <troupe/kernels/casts.hpp>
#include <troupe/kernels/elementwise.hpp>
#include <troupe/kernels/gather_scatter.hpp>
#include <troupe/kernels/reduce.hpp>
#include <troupe/strategies/sharding/detail/embedding_bags.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

namespace troupe {

namespace {

using namespace detail;

std::span<const std::int64_t> row_shape_of(const embedding_table& table) {
  return std::span{table.shape}.subspan(1);
}

void expect_table(const embedding_table& table) {
  if (table.shape.empty())
    throw_failure(errc::invalid_argument, "embedding table: shape [] has no rows");
  if (!table.shards.empty())
    check_div_layout(table.shape[0], table.shards).value_or_throw();
}

void expect_max_norm(std::optional<float> max_norm) {
  if (max_norm && !(*max_norm >= 0))
    throw_failure(errc::invalid_argument, "embedding: max_norm is " + std::to_string(*max_norm));
}

// --- element types ----------------------------------------------------------------------------

bool is_half(dtype type) { return type == dtype::f16 || type == dtype::bf16; }

std::span<const std::uint16_t> half_bits(const tensor& x) {
  return {reinterpret_cast<const std::uint16_t*>(x.bytes().data()),
          static_cast<std::size_t>(x.size())};
}

// Half precision as f32, anything else as it is.
tensor widened(const tensor& x) {
  if (!is_half(x.type()))
    return x;
  tensor out{dtype::f32, x.shape()};
  if (x.type() == dtype::f16)
    kernels::cast_f16_to_f32(half_bits(x), out.mutable_as<float>());
  else
    kernels::cast_bf16_to_f32(half_bits(x), out.mutable_as<float>());
  return out;
}

tensor narrowed(const tensor& x, dtype type) {
  if (!is_half(type))
    return x;
  tensor out{type, x.shape()};
  std::span<std::uint16_t> to{reinterpret_cast<std::uint16_t*>(out.mutable_bytes().data()),
                              static_cast<std::size_t>(out.size())};
  if (type == dtype::f16)
    kernels::cast_f32_to_f16(x.as<float>(), to);
  else
    kernels::cast_f32_to_bf16(x.as<float>(), to);
  return out;
}

// Rows longer than `max_norm` at that length; `rows` is f32 or f64.
tensor clipped(const tensor& rows, std::optional<float> max_norm) {
  if (!max_norm || rows.size() == 0)
    return rows;
  return with_float("embedding table", rows.type(), [&](auto zero) {
    using T = decltype(zero);
    auto out = rows.clone();
    auto all = out.template mutable_as<T>();
    const auto cols = static_cast<std::size_t>(rows.row_size());
    for (std::size_t at = 0; at < all.size(); at += cols) {
      auto row = all.subspan(at, cols);
      const double norm = kernels::l2_norm<T>(row);
      if (norm > *max_norm)
        kernels::scale<T>(static_cast<T>(*max_norm / norm), row, row);
    }
    return out;
  });
}

// The rows of `ids`, which are unique; nobody is asked for none.
tensor gather_unique(const id_list& ids, const embedding_table& table,
                     const gather_unique_rows& gather) {
  auto shape = joined({static_cast<std::int64_t>(ids.size())}, row_shape_of(table));
  if (ids.empty())
    return tensor{table.type, shape};
  auto rows = gather(ids);
  expect_type("gathered rows", rows.type(), table.type);
  expect_shape("gathered rows", rows.shape(), shape);
  return rows;
}

void expect_ids_in(std::span<const std::int64_t> ids, const embedding_table& table) {
  auto bad = kernels::first_bad_row(ids, static_cast<std::size_t>(table.shape[0]));
  if (bad < ids.size())
    throw_failure(errc::out_of_range, "embedding: position " + std::to_string(bad) + ": id "
                                        + std::to_string(ids[bad]) + " of "
                                        + std::to_string(table.shape[0]) + " rows");
}

template <class T>
tensor combine(const bag_entries& entries, const tensor& rows, const id_list& slots,
               std::span<const std::int64_t> row_shape, combiner how) {
  auto out = tensor::zeros(rows.type(), joined(entries.bag_shape, row_shape));
  const auto cols = static_cast<std::size_t>(count_of({row_shape.begin(), row_shape.end()}));
  const auto divisors = divisors_of(entries, how);
  auto bag_row = [&](std::size_t bag) { return out.mutable_as<T>().subspan(bag * cols, cols); };
  for (std::size_t i = 0; i < slots.size(); ++i)
    kernels::axpy<T>(static_cast<T>(entries.weights[i]),
                     rows.as<T>().subspan(static_cast<std::size_t>(slots[i]) * cols, cols),
                     bag_row(static_cast<std::size_t>(entries.bag[i])));
  for (std::size_t bag = 0; bag < divisors.size(); ++bag) {
    auto row = bag_row(bag);
    for (auto& x : row)
      x = divisors[bag] == 0 ? T{0} : x / static_cast<T>(divisors[bag]);
  }
  return out;
}

tensor lookup_entries(const bag_entries& entries, const embedding_table& table,
                      const gather_unique_rows& gather, const sparse_lookup_options& options) {
  expect_ids_in(entries.ids, table);
  auto unique = unique_of(entries.ids);
  auto rows = clipped(widened(gather_unique(unique.ids, table, gather)), options.max_norm);
  auto out = with_float("embedding table", rows.type(), [&](auto zero) {
    return combine<decltype(zero)>(entries, rows, unique.slots, row_shape_of(table), options.how);
  });
  return narrowed(out, table.type);
}

} // namespace

// --- dense ------------------------------------------------------------------------------------

embedding_table table_of(const variable_spec& spec) { return {spec.type, spec.shape, spec.shards}; }

gather_unique_rows by_shard(const embedding_table& table, gather_shard_rows gather) {
  expect_table(table);
  auto shared = std::make_shared<const embedding_table>(table);
  return [shared, gather = std::move(gather)](std::span<const std::int64_t> ids) {
    auto row_shape = row_shape_of(*shared);
    auto groups = group_by_owner(ids, shared->shape[0], shared->shards).value_or_throw();
    return gather_groups(groups, shared->type, {row_shape.begin(), row_shape.end()},
                         static_cast<std::int64_t>(ids.size()), gather);
  };
}

tensor embedding_lookup(const tensor& ids, const embedding_table& table,
                        const gather_unique_rows& gather, std::optional<float> max_norm) {
  expect_table(table);
  expect_max_norm(max_norm);
  auto wanted = ids_of(ids);
  expect_ids_in(wanted, table);
  auto unique = unique_of(wanted);
  auto rows = gather_unique(unique.ids, table, gather);
  if (max_norm)
    rows = narrowed(clipped(widened(rows), max_norm), table.type);
  tensor out{table.type, joined(ids.shape(), row_shape_of(table))};
  if (out.size() > 0)
    kernels::gather_row_bytes(rows.bytes(), rows.size_bytes() / unique.ids.size(), unique.slots,
                              out.mutable_bytes());
  return out;
}

// --- sparse -----------------------------------------------------------------------------------

tensor embedding_lookup_sparse(const sparse_ids& ids, const tensor& weights,
                               const embedding_table& table, const gather_unique_rows& gather,
                               const sparse_lookup_options& options) {
  expect_table(table);
  expect_max_norm(options.max_norm);
  return lookup_entries(entries_of(ids, weights), table, gather, options);
}

tensor safe_embedding_lookup_sparse(const sparse_ids& ids, const tensor& weights,
                                    const embedding_table& table, const gather_unique_rows& gather,
                                    const sparse_lookup_options& options,
                                    std::optional<std::int64_t> default_id) {
  expect_table(table);
  expect_max_norm(options.max_norm);
  auto entries = safe_entries(entries_of(ids, weights), options.how, default_id);
  return lookup_entries(entries, table, gather, options);
}

} // namespace troupe
