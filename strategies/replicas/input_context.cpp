#include <troupe/strategies/replicas/input_context.hpp>

#include <limits>

namespace troupe {

namespace {

failure refused(const std::string& text) { return make_failure(errc::invalid_argument, text); }

result<std::uint32_t> replicas_of(std::uint32_t num_workers, std::uint32_t replicas_per_worker) {
  if (num_workers == 0)
    return refused("num_workers is 0, must be at least 1");
  if (replicas_per_worker == 0)
    return refused("replicas_per_worker is 0, must be at least 1");
  const auto all = std::uint64_t{num_workers} * replicas_per_worker;
  if (all > std::numeric_limits<std::uint32_t>::max())
    return refused(std::to_string(num_workers) + " workers with "
                   + std::to_string(replicas_per_worker) + " replicas have " + std::to_string(all)
                   + " replicas, may have at most 4294967295");
  return static_cast<std::uint32_t>(all);
}

} // namespace

std::int64_t input_context::per_replica_batch_size(std::int64_t global_batch_size) const {
  if (global_batch_size < 0)
    throw_failure(
      errc::invalid_argument,
      "global_batch_size is " + std::to_string(global_batch_size) + ", must not be negative");
  if (num_replicas_in_sync == 0 || global_batch_size % num_replicas_in_sync != 0)
    throw_failure(errc::invalid_argument, "global_batch_size " + std::to_string(global_batch_size)
                                            + " is not divisible by num_replicas_in_sync "
                                            + std::to_string(num_replicas_in_sync));
  return global_batch_size / num_replicas_in_sync;
}

std::string to_string(const input_context& x) {
  return "input pipeline " + std::to_string(x.input_pipeline_id) + " of "
         + std::to_string(x.num_input_pipelines) + ", " + std::to_string(x.num_replicas_in_sync)
         + " replicas in sync";
}

std::string to_string(const value_context& x) {
  return "replica " + std::to_string(x.replica_id_in_sync_group) + " of "
         + std::to_string(x.num_replicas_in_sync) + " in sync";
}

std::string to_string(input_replication mode) {
  switch (mode) {
    case input_replication::per_worker: return "per_worker";
    case input_replication::per_replica: return "per_replica";
  }
  return "input_replication(" + std::to_string(static_cast<int>(mode)) + ")";
}

bool input_options::prefetches() const noexcept {
  return per_replica_buffer_size > 0 && prefetch_to_device.value_or(!place_dataset_on_device);
}

result<void> check_input_options(const input_options& options, input_source source,
                                 bool is_mirrored) {
  const auto mode = to_string(options.replication);
  if (options.replication > input_replication::per_replica)
    return refused("input options: replication is " + mode + ", must be per_worker or per_replica");
  const bool per_replica = options.replication == input_replication::per_replica;
  if (options.place_dataset_on_device && !per_replica)
    return refused("input options: place_dataset_on_device is true with replication " + mode
                   + ", needs per_replica");
  if (options.place_dataset_on_device && options.prefetch_to_device.value_or(false))
    return refused(
      "input options: place_dataset_on_device and prefetch_to_device are both true "
      "with replication "
      + mode + "; batches made on a device need no prefetch to it");
  if (per_replica && !is_mirrored)
    return refused(
      "input options: replication per_replica is not supported by this strategy, only "
      "by mirrored_strategy");
  if (per_replica && source != input_source::dataset_function)
    return refused(
      "input options: replication per_replica is not supported by "
      "distribute_dataset, only by distribute_datasets_from_function");
  return {};
}

result<std::vector<input_context>> input_contexts(std::uint32_t num_workers,
                                                  std::uint32_t replicas_per_worker,
                                                  input_replication mode) {
  auto replicas = replicas_of(num_workers, replicas_per_worker);
  if (!replicas)
    return replicas.error();
  const auto pipelines = mode == input_replication::per_replica ? *replicas : num_workers;
  std::vector<input_context> out;
  for (std::uint32_t id = 0; id < pipelines; ++id)
    out.push_back({pipelines, id, *replicas});
  return out;
}

result<std::vector<value_context>> value_contexts(std::uint32_t num_workers,
                                                  std::uint32_t replicas_per_worker,
                                                  std::uint32_t worker) {
  auto replicas = replicas_of(num_workers, replicas_per_worker);
  if (!replicas)
    return replicas.error();
  if (worker >= num_workers)
    return refused("worker is " + std::to_string(worker) + ", num_workers is "
                   + std::to_string(num_workers));
  std::vector<value_context> out;
  for (std::uint32_t local = 0; local < replicas_per_worker; ++local)
    out.push_back({worker * replicas_per_worker + local, *replicas});
  return out;
}

} // namespace troupe
