#pragma once

#include <cstdint>
#include <string>

#include <troupe/data/dataset.hpp>

/// Sharing of a dataset between workers: each worker rewrites the same description for itself. Any
/// thread.
namespace troupe {

/// How a dataset is shared between workers. The numbers are TensorFlow's.
enum class autoshard_policy : std::int8_t {
  /// Every worker reads everything.
  off = -1,
  /// `file` where that works, else `data`.
  automatic = 0,
  /// A worker reads its own files only: those with index mod workers = its index.
  file = 1,
  /// Every worker reads everything and keeps the elements with index mod workers = its index.
  data = 2,
  /// Fills in the dataset's own `shard(shard_hint, shard_hint)`.
  hint = 3
};

/// "off", "automatic", ...; "autoshard_policy(7)" for a value outside the enum.
std::string to_string(autoshard_policy x);

/// A worker's share of a dataset.
struct autosharded {
  dataset share{};
  /// The policy that was applied; never `automatic`.
  autoshard_policy policy = autoshard_policy::off;
  /// Why `automatic` fell back to `data`, for a person to read once; else empty.
  std::string note{};
};

/// The share of worker `index` of `workers`.
/// - `file`: the shard goes right before the file reader: into its list of files, or before the
///   flat_map or interleave whose input begins with `dataset::files`; shuffles of that list go
///   after the shard. All inputs of zip and concatenate are shared out alike. Lists files.
/// - `data`: the shard goes last, but before trailing prefetches.
/// - `hint`: every hint is filled in, and there must be an element for each worker.
///
/// Throws `invalid_argument` for `workers` below 1 and `index` outside, for fewer files than
/// workers when `file` was asked for by name, and for `hint` without a hint; `not_found` for `file`
/// where there is no file reader. Of these, `automatic` throws only the first. Listing files throws
/// as iterating does.
autosharded autoshard(const dataset& data, std::int64_t workers, std::int64_t index,
                      autoshard_policy policy, data_context context);

} // namespace troupe
