#include <troupe/strategies/synchronous/tpu_strategy.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <troupe/strategies/replicas/detail/context_stack.hpp>
#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/synchronous/detail/own_devices.hpp>
#include <troupe/strategies/topology/logical_devices.hpp>

namespace troupe {

namespace {

using detail::replica_engine;
using detail::strategy_kind;
using detail::sync_options;

std::vector<std::string> cores_of(runtime& rt, const tpu_options& options) {
  if (!options.devices.empty())
    return detail::own_devices("tpu_strategy", options.devices);
  std::vector<std::string> cpus, gpus;
  for (const auto& each : rt.devices())
    (each.id.kind == device_kind::gpu ? gpus : cpus).push_back(to_string(each.id));
  return gpus.empty() ? cpus : gpus;
}

device_assignment all_cores(const topology& slice) {
  std::vector<std::vector<mesh_coordinates>> cores;
  for (const auto& task : slice.device_coordinates())
    for (const auto& core : task)
      cores.push_back({core});
  return device_assignment::make(slice, std::move(cores)).value_or_throw();
}

topology line_of(std::size_t cores) {
  return topology::of_one_task({static_cast<std::int32_t>(cores), 1, 1, 1}).value_or_throw();
}

/// The replicas in the order of their first cores' numbers; of one core's, in their own. Empty when
/// that is their own order.
std::vector<std::uint32_t> order_of_devices(const std::vector<std::uint32_t>& numbers) {
  std::vector<std::uint32_t> out(numbers.size());
  std::iota(out.begin(), out.end(), 0u);
  if (std::is_sorted(numbers.begin(), numbers.end()))
    return {};
  std::stable_sort(out.begin(), out.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return numbers[a] < numbers[b]; });
  return out;
}

std::shared_ptr<replica_engine> made(runtime& rt, const device_assignment& assignment,
                                     const tpu_options& options) {
  const auto cores = cores_of(rt, options);
  const auto& slice = assignment.where();
  if (slice.num_tasks() != 1)
    throw_failure(errc::invalid_argument, "tpu_strategy: the slice has "
                                            + std::to_string(slice.num_tasks())
                                            + " tasks, this process is one");
  if (slice.num_devices() > cores.size())
    throw_failure(errc::invalid_argument,
                  "tpu_strategy: the slice has " + std::to_string(slice.num_devices())
                    + " cores, there are " + std::to_string(cores.size()) + " devices");
  sync_options out{
    .kind = strategy_kind::tpu, .name = "tpu_strategy", .resolver = options.resolver};
  std::vector<std::uint32_t> first_cores;
  for (const auto& replica : assignment.core_assignment()) {
    out.logical_devices.emplace_back();
    out.hardware.emplace_back();
    for (const auto& core : replica) {
      const auto number = slice.ordinal_at(core).value_or_throw();
      out.logical_devices.back().push_back("tpu:" + std::to_string(number));
      out.hardware.back().push_back(cores[number]);
    }
    out.devices.push_back(out.logical_devices.back().front());
    first_cores.push_back(slice.ordinal_at(replica.front()).value_or_throw());
  }
  if (options.input_follows_devices)
    out.input_order = order_of_devices(first_cores);
  out.collective_timeout = options.replicas.collective_timeout;
  out.grace_ms = options.replicas.grace_ms;
  auto state = std::make_shared<replica_engine>(rt.services(), std::move(out));
  state->follow_runtime();
  return state;
}

} // namespace

tpu_strategy::tpu_strategy(runtime& rt, device_assignment assignment, tpu_options options)
  : strategy{made(rt, assignment, options)},
    assignment_{std::make_shared<const device_assignment>(std::move(assignment))},
    spmd_{options.spmd} {}

tpu_strategy::tpu_strategy(runtime& rt, const topology& slice, tpu_options options)
  : tpu_strategy{rt, all_cores(slice), std::move(options)} {}

tpu_strategy::tpu_strategy(runtime& rt, tpu_options options)
  : tpu_strategy{rt, line_of(cores_of(rt, options).size()), options} {}

std::uint32_t tpu_strategy::here(const char* what) const {
  auto* mode = detail::innermost_mode();
  if (!mode || mode->kind != detail::context_kind::replica || mode->strategy != state_)
    throw_failure(errc::wrong_state,
                  std::string{what} + ": must be called inside a replica of " + to_string());
  return mode->replica->replica_id_in_sync_group() - state_->first_id();
}

placed_tensor tpu_strategy::assign_to_logical_device(const tensor& x, std::uint32_t index) const {
  const auto local = here("assign_to_logical_device");
  check_assign_to_logical_device(index, num_logical_devices(), spmd_).value_or_throw();
  return {x, {state_->logical_device(local, index)}};
}

std::vector<placed_tensor> tpu_strategy::split_to_logical_devices(
  const tensor& x, std::span<const std::int64_t> dims) const {
  const auto local = here("split_to_logical_devices");
  auto tiles = troupe::split_to_logical_devices(x, dims, num_logical_devices()).value_or_throw();
  std::vector<placed_tensor> out;
  for (std::uint32_t k = 0; k < tiles.size(); ++k)
    out.push_back({std::move(tiles[k]), {state_->logical_device(local, k)}});
  return out;
}

placed_tensor tpu_strategy::replicate_to_logical_devices(const tensor& x) const {
  const auto local = here("replicate_to_logical_devices");
  return {x, state_->options().logical_devices[local]};
}

device_context& tpu_strategy::logical_device(std::uint32_t index) const {
  const auto local = here("logical_device");
  check_logical_device(index, num_logical_devices()).value_or_throw();
  return *state_->device_of(local, index); // kept until the runtime ends
}

} // namespace troupe
