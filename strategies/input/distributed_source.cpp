#include <troupe/strategies/input/detail/distributed_source.hpp>

#include <troupe/core/execution_context.hpp>
#include <troupe/core/production_ports.hpp>

namespace troupe::detail {

namespace {

/// The default strategy has no runtime whose ports it could use. In a simulated process those of
/// this machine would be real files and real chance, which no seed repeats.
data_context ports_of(const replica_engine& of) {
  if (!of.is_standard())
    return {of.env()};
  if (has_lent_context())
    throw_failure(errc::wrong_state,
                  of.text()
                    + ": the default strategy reads real files, "
                      "which a simulated process must not; use a "
                  "strategy of the process's runtime, or iterate the dataset with its environment");
  static auto& ports = *new std::unique_ptr<production_ports>{make_production_ports()};
  return {ports->storage(), ports->random()};
}

} // namespace

piece_pipelines distributed_source::open() const {
  piece_pipelines out;
  const bool each = options_.input.replication == input_replication::per_replica;
  for (std::uint32_t i = 0; i < (each ? of_->local_count() : 1); ++i)
    out.push_back(open_one(each ? of_->count() : of_->options().workers,
                           each ? of_->first_id() + i : of_->options().worker,
                           each ? 1 : of_->local_count()));
  return out;
}

namespace {

bool has_gpu(const replica_engine& of) {
  for (std::uint32_t i = 0; i < of.local_count(); ++i)
    if (of.hardware(i).kind == device_kind::gpu)
      return true;
  return false;
}

} // namespace

std::uint32_t distributed_source::steps_ahead() const {
  // What is made on a device is not fetched to it; the default strategy's dataset
  // is iterated as it is.
  if (of_->is_standard() || options_.input.place_dataset_on_device)
    return 0;
  // A thread beside replicas that compute on the same cores costs more than it saves, measured: it
  // is for who asks.
  if (!options_.input.prefetch_to_device.value_or(false) && !has_gpu(*of_))
    return 0;
  return options_.input.per_replica_buffer_size;
}

bool distributed_source::puts_on_devices() const {
  return !of_->is_standard()
         && (options_.input.prefetches() || options_.input.place_dataset_on_device);
}

/// Weights are given in the order of replicas, pieces are cut in that of their devices.
std::vector<std::uint32_t> distributed_source::weights_in_order() const {
  auto out = options_.weights;
  const auto& order = of_->options().input_order;
  const auto first = of_->first_id();
  if (order.empty() || out.size() != of_->count()) // a wrong number is refused by the pipeline
    return out;
  for (std::uint32_t place = 0; place < order.size(); ++place)
    out[first + place] = options_.weights[first + order[place]];
  return out;
}

pipeline_pieces distributed_source::open_one(std::int64_t pipelines, std::int64_t pipeline,
                                             std::int64_t replicas) const {
  const pipeline_options how{.workers = pipelines,
                             .worker = pipeline,
                             .replicas = replicas,
                             .policy = options_.policy,
                             .rule = options_.rule,
                             .weights = weights_in_order(),
                             .rebatch = options_.rebatch,
                             .shared_seed = options_.shared_seed};
  const auto from = ports_of(*of_);
  if (!function)
    return pipeline_pieces{global, how, from};
  return pipeline_pieces::from_function(
    [this](const pipeline_place& at) {
      return function({.num_input_pipelines = static_cast<std::uint32_t>(at.workers),
                       .input_pipeline_id = static_cast<std::uint32_t>(at.worker),
                       .num_replicas_in_sync = of_->count()});
    },
    how, from);
}

} // namespace troupe::detail
