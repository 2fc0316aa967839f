#pragma once

#include <cstdint>
#include <functional>

#include <troupe/core/environment.hpp>
#include <troupe/data/element.hpp>

/// What the description of a dataset (dataset.hpp) and its nodes have in common.
namespace troupe {

class dataset;

/// Maps one element to another: a `dataset::map_function`.
using element_function = std::function<element(const element&)>;
/// Makes a dataset of an element: a `dataset::expand_function`.
using dataset_function = std::function<dataset(const element&)>;

/// The `dataset::cardinality` of a dataset that never ends.
inline constexpr std::int64_t infinite_cardinality = -1;
/// The `dataset::cardinality` of a dataset whose length only reading tells.
inline constexpr std::int64_t unknown_cardinality = -2;

/// Value of both arguments of a `dataset::shard` that is filled in later (autoshard.hpp).
inline constexpr std::int64_t shard_hint = -1;

/// The ports of an iterator: files, and fresh seeds for shuffles that have none. The ports outlive
/// the iterators.
struct data_context {
  data_context(storage_port& files, random_port& seeds) : storage{files}, random{seeds} {}
  data_context(const environment& env) : storage{env.storage}, random{env.random} {}
  storage_port& storage;
  random_port& random;
};

} // namespace troupe
