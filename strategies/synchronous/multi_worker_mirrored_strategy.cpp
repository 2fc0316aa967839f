#include <troupe/strategies/synchronous/multi_worker_mirrored_strategy.hpp>

#include <algorithm>
#include <utility>

#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/replicas/detail/worker_calls.hpp>
#include <troupe/strategies/synchronous/detail/own_devices.hpp>

namespace troupe {

namespace {

using detail::replica_engine;
using detail::sync_options;

constexpr const char* name = "multi_worker_mirrored_strategy";

std::vector<std::string> devices_of(runtime& rt, const multi_worker_options& how) {
  auto out = how.devices.value_or(rt.options().devices);
  if (how.devices && out.empty())
    throw_failure(errc::invalid_argument, std::string{name} + ": devices is empty");
  if (out.empty())
    for (const auto& each : rt.devices())
      if (each.id.kind == device_kind::gpu)
        out.push_back(to_string(each.id));
  if (out.empty())
    out.push_back("cpu:0");
  return detail::own_devices(name, std::move(out));
}

std::shared_ptr<const cluster_resolver> resolver_of(const runtime_options& options) {
  if (options.resolver)
    return options.resolver;
  cluster_spec spec;
  spec.set_job("worker", options.peers);
  return std::make_shared<simple_resolver>(simple_resolver_options{
    .cluster = std::move(spec), .task = {.type = "worker", .id = options.peer}});
}

/// Who waits is said in front; what is missing, by the group.
wait_listener wait_listener_of(runtime& rt, const multi_worker_options& how) {
  const auto self = to_string(task_id{.job = job_kind::worker, .index = rt.options().peer});
  return [self, to = how.on_wait ? how.on_wait : rt.services()->say](const std::string& text) {
    to(self + ": " + text);
  };
}

std::shared_ptr<replica_engine> made(runtime& rt, const multi_worker_options& how,
                                     std::shared_ptr<const cluster_resolver> resolver = {}) {
  const auto& given = rt.options();
  if (given.peers.empty())
    throw_failure(errc::bad_config,
                  std::string{name} + ": the runtime has no peers: create it with "
        "runtime::synchronous_from_args, or set peers and peer");
  sync_options options{.kind = detail::strategy_kind::multi_worker_mirrored,
                       .name = name,
                       .devices = devices_of(rt, how),
                       .workers = static_cast<std::uint32_t>(given.peers.size()),
                       .worker = given.peer,
                       .collective_timeout = how.collective_timeout,
                       .grace_ms = how.grace_ms,
                       .on_wait = wait_listener_of(rt, how),
                       .resolver = resolver ? std::move(resolver) : resolver_of(given)};
  if (const auto& meeting = rt.services()->meeting)
    options.links =
      process_links::make(
        meeting, {.what = name, .devices = static_cast<std::uint32_t>(options.devices.size())},
        after(rt.env().clock.now(), how.start_timeout), options.on_wait)
        .value_or_throw();
  auto out = std::make_shared<replica_engine>(rt.services(), std::move(options));
  out->follow_runtime();
  return out;
}

multi_worker_options without_devices(runtime& rt,
                                     const std::shared_ptr<const cluster_resolver>& resolver,
                                     multi_worker_options options) {
  if (!resolver)
    throw_failure(errc::invalid_argument, std::string{name} + ": cluster_resolver is null");
  if (options.devices)
    throw_failure(errc::invalid_argument,
                  std::string{name} + ": set either devices or cluster_resolver, not both");
  const auto told = runtime::synchronous_options(resolver, {});
  if (told.peers != rt.options().peers || told.peer != rt.options().peer)
    throw_failure(errc::bad_config, std::string{name} + ": cluster_resolver names "
                                      + std::to_string(told.peers.size()) + " workers with index "
                                      + std::to_string(told.peer) + ", but the runtime has "
                                      + std::to_string(rt.options().peers.size())
                                      + " peers with index " + std::to_string(rt.options().peer));
  return options;
}

} // namespace

multi_worker_mirrored_strategy::multi_worker_mirrored_strategy(runtime& rt,
                                                               multi_worker_options options)
  : strategy{made(rt, options)} {}

multi_worker_mirrored_strategy::multi_worker_mirrored_strategy(
  runtime& rt, std::shared_ptr<const class cluster_resolver> resolver, multi_worker_options options)
  : strategy{made(rt, without_devices(rt, resolver, std::move(options)), resolver)} {}

std::uint32_t multi_worker_mirrored_strategy::num_workers() const {
  return state_->options().workers;
}
std::uint32_t multi_worker_mirrored_strategy::worker_index() const {
  return state_->options().worker;
}

void multi_worker_mirrored_strategy::barrier() const { detail::worker_barrier(*state_, "barrier"); }

void multi_worker_mirrored_strategy::agree(const std::optional<failure>& why,
                                           const std::string& what) const {
  detail::agree(*state_, why, what);
}

std::vector<std::string> multi_worker_mirrored_strategy::exchange(const std::string& mine,
                                                                  const std::string& what) const {
  return detail::exchange_texts(*state_, mine, what);
}

} // namespace troupe
