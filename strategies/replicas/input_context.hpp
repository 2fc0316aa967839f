#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/result.hpp>

/// Arguments of a user's input and value functions, and options of input. Plain values; any thread.
/// Source: tf.distribute.
namespace troupe {

/// The input pipeline that a dataset function makes a dataset for.
struct input_context {
  std::uint32_t num_input_pipelines = 1;
  std::uint32_t input_pipeline_id = 0; ///< below `num_input_pipelines`
  std::uint32_t num_replicas_in_sync = 1;

  /// Rows of one replica in a global batch. Throws `invalid_argument` when `global_batch_size` is
  /// negative or the replicas don't divide it; the text names both numbers.
  std::int64_t per_replica_batch_size(std::int64_t global_batch_size) const;
  friend bool operator==(const input_context&, const input_context&) = default;
};

/// "input pipeline 1 of 3, 6 replicas in sync".
std::string to_string(const input_context& x);

/// The replica that a value function makes a value for.
struct value_context {
  std::uint32_t replica_id_in_sync_group = 0; ///< below `num_replicas_in_sync`
  std::uint32_t num_replicas_in_sync = 1;
  friend bool operator==(const value_context&, const value_context&) = default;
};

/// "replica 1 of 3 in sync".
std::string to_string(const value_context& x);

/// How often a dataset function is called.
enum class input_replication : std::uint8_t {
  per_worker = 0, ///< once a worker; its pipeline feeds the worker's replicas in turn
  per_replica = 1 ///< once a replica, which reads its own pipeline
};

/// "per_worker"; "input_replication(7)" for a value outside the enum.
std::string to_string(input_replication mode);

/// How input reaches the replicas.
struct input_options {
  /// Put batches on the replica's device ahead of time. Unset: yes, where a replica is on a GPU.
  /// Where all are on CPUs there is nothing to fetch, and steps are made ahead, by a thread of the
  /// input, only where this is true.
  std::optional<bool> prefetch_to_device{};
  input_replication replication = input_replication::per_worker;
  /// Build the dataset on the replica's device, not on the host.
  bool place_dataset_on_device = false;
  /// Batches kept ready for each replica; 0: none, nothing is prefetched.
  std::uint32_t per_replica_buffer_size = 1;

  /// Whether batches are put on devices ahead of time.
  bool prefetches() const noexcept;
  friend bool operator==(const input_options&, const input_options&) = default;
};

/// The call that the options are for.
enum class input_source : std::uint8_t {
  dataset = 0,         ///< distribute_dataset
  dataset_function = 1 ///< distribute_datasets_from_function
};

/// Whether `options` can be had: a dataset on the device takes `per_replica` and no explicit
/// prefetch; `per_replica` takes a mirrored strategy (`is_mirrored`) and a dataset function.
/// `invalid_argument` names the options and their values.
result<void> check_input_options(const input_options& options, input_source source,
                                 bool is_mirrored);

/// A context for each call of a dataset function, ids ascending: one for each of `num_workers`, or
/// for each replica. `invalid_argument` when a number is 0 or the replicas are over 2^32 - 1.
result<std::vector<input_context>> input_contexts(std::uint32_t num_workers,
                                                  std::uint32_t replicas_per_worker,
                                                  input_replication mode);

/// A context for each of the worker's replicas in order. Ids are global: the worker times the
/// replicas per worker, plus the local replica. `invalid_argument` as above, and when `worker` is
/// not below `num_workers`.
result<std::vector<value_context>> value_contexts(std::uint32_t num_workers,
                                                  std::uint32_t replicas_per_worker,
                                                  std::uint32_t worker);

} // namespace troupe
