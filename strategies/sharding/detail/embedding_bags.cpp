#include <troupe/strategies/sharding/detail/embedding_bags.hpp>

#include <algorithm>
#include <cmath>

namespace troupe::detail {

namespace {

std::int64_t bag_at(const sparse_ids& ids, std::size_t entry) {
  const auto rank = ids.dense_shape.size();
  auto at = ids.indices.as<std::int64_t>().subspan(entry * rank, rank);
  std::int64_t bag = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (at[axis] < 0 || at[axis] >= ids.dense_shape[axis])
      throw_failure(errc::out_of_range, "sparse ids: entry " + std::to_string(entry) + ": index "
                                          + std::to_string(at[axis]) + " of axis "
                                          + std::to_string(axis) + " in dense shape "
                                          + to_string(ids.dense_shape));
    if (axis + 1 < rank)
      bag = bag * ids.dense_shape[axis] + at[axis];
  }
  return bag;
}

} // namespace

shape_t joined(shape_t head, std::span<const std::int64_t> tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

void expect_shape(const char* what, const shape_t& given, const shape_t& expected) {
  if (given != expected)
    throw_failure(errc::shape_mismatch, std::string{what} + " has shape " + to_string(given)
                                          + ", not " + to_string(expected));
}

void expect_type(const char* what, dtype given, dtype expected) {
  if (given != expected)
    throw_failure(errc::dtype_mismatch,
                  std::string{what} + " is " + to_string(given) + ", not " + to_string(expected));
}

id_list ids_of(const tensor& ids) {
  if (ids.type() == dtype::i32) {
    auto from = ids.as<std::int32_t>();
    return {from.begin(), from.end()};
  }
  expect_type("ids", ids.type(), dtype::i64);
  auto from = ids.as<std::int64_t>();
  return {from.begin(), from.end()};
}

unique_ids unique_of(std::span<const std::int64_t> ids) {
  unique_ids out;
  out.ids.assign(ids.begin(), ids.end());
  std::sort(out.ids.begin(), out.ids.end());
  out.ids.erase(std::unique(out.ids.begin(), out.ids.end()), out.ids.end());
  out.slots.reserve(ids.size());
  for (auto id : ids)
    out.slots.push_back(std::lower_bound(out.ids.begin(), out.ids.end(), id) - out.ids.begin());
  return out;
}

bag_entries entries_of(const sparse_ids& ids, const tensor& weights) {
  if (ids.dense_shape.size() < 2 || !is_sane(ids.dense_shape, dtype::i64))
    throw_failure(errc::shape_mismatch, "sparse ids: dense shape " + to_string(ids.dense_shape)
                                          + ", must have at least 2 axes with extents in range");
  expect_type("sparse ids' indices", ids.indices.type(), dtype::i64);
  expect_type("sparse ids' values", ids.values.type(), dtype::i64);
  const auto n = ids.values.size();
  expect_shape("sparse ids' values", ids.values.shape(), {n});
  expect_shape("sparse ids' indices", ids.indices.shape(),
               {n, static_cast<std::int64_t>(ids.dense_shape.size())});
  bag_entries out;
  out.bag_shape.assign(ids.dense_shape.begin(), ids.dense_shape.end() - 1);
  out.bags = count_of(out.bag_shape);
  out.ids = ids_of(ids.values);
  for (std::size_t i = 0; i < out.ids.size(); ++i)
    out.bag.push_back(bag_at(ids, i));
  out.weights.assign(out.ids.size(), 1.0);
  if (weights.defined()) {
    expect_type("weights", weights.type(), dtype::f32);
    expect_shape("weights", weights.shape(), {n});
    std::copy_n(weights.as<float>().begin(), out.ids.size(), out.weights.begin());
  }
  return out;
}

// Leaves out what `safe_embedding_lookup_sparse` doesn't look at, and fills bags that are empty
// then.
bag_entries safe_entries(const bag_entries& all, combiner how,
                         std::optional<std::int64_t> default_id) {
  bag_entries out{all.bags, all.bag_shape};
  std::vector<bool> filled(static_cast<std::size_t>(all.bags), false);
  auto add = [&](std::int64_t bag, std::int64_t id, double weight) {
    out.bag.push_back(bag);
    out.ids.push_back(id);
    out.weights.push_back(weight);
    filled[static_cast<std::size_t>(bag)] = true;
  };
  for (std::size_t i = 0; i < all.ids.size(); ++i)
    if (all.ids[i] >= 0 && (how == combiner::sum || all.weights[i] > 0))
      add(all.bag[i], all.ids[i], all.weights[i]);
  for (std::int64_t bag = 0; default_id && bag < all.bags; ++bag)
    if (!filled[static_cast<std::size_t>(bag)])
      add(bag, *default_id, 1.0);
  return out;
}

std::vector<double> divisors_of(const bag_entries& entries, combiner how) {
  if (how > combiner::sqrtn)
    throw_failure(errc::invalid_argument,
                  "combiner(" + std::to_string(static_cast<int>(how)) + ") is not a combiner");
  std::vector<double> out(static_cast<std::size_t>(entries.bags), how == combiner::sum ? 1.0 : 0.0);
  if (how == combiner::sum)
    return out;
  for (std::size_t i = 0; i < entries.ids.size(); ++i) {
    const auto w = entries.weights[i];
    out[static_cast<std::size_t>(entries.bag[i])] += how == combiner::mean ? w : w * w;
  }
  if (how == combiner::sqrtn)
    for (auto& x : out)
      x = std::sqrt(x);
  return out;
}

} // namespace troupe::detail
