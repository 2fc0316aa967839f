#include <troupe/strategies/synchronous/mirrored_strategy.hpp>

#include <algorithm>
#include <utility>

#include <troupe/strategies/replicas/detail/replica_engine.hpp>
#include <troupe/strategies/synchronous/detail/own_devices.hpp>
#include <troupe/strategies/variables/scopes.hpp>

namespace troupe {

namespace {

using detail::replica_engine;
using detail::strategy_kind;
using detail::sync_options;

std::shared_ptr<replica_engine> made(runtime& rt, sync_options options,
                                     const replica_options& how) {
  options.collective_timeout = how.collective_timeout;
  options.grace_ms = how.grace_ms;
  auto out = std::make_shared<replica_engine>(rt.services(), std::move(options));
  out->follow_runtime();
  return out;
}

std::vector<std::string> devices_or_default(runtime& rt, const char* name,
                                            std::optional<std::vector<std::string>> devices) {
  if (!devices) {
    devices.emplace();
    for (const auto& each : rt.devices())
      if (each.id.kind == device_kind::gpu)
        devices->push_back(to_string(each.id));
    if (devices->empty())
      devices->push_back("cpu:0");
  }
  if (devices->empty())
    throw_failure(errc::invalid_argument, std::string{name} + ": devices is empty");
  return detail::own_devices(name, *std::move(devices));
}

} // namespace

std::string detail::own_device(const char* name, const std::string& text) {
  if (!text.starts_with('/'))
    return text;
  const auto at = resolve_device(text), here = resolve_device("");
  if (at.job != here.job || at.task != here.task)
    throw_failure(errc::device_unavailable, std::string{name} + ": device '" + text
                                              + "' belongs to another process, " + to_string(at));
  return short_name(at);
}

std::vector<std::string> detail::own_devices(const char* name, std::vector<std::string> devices) {
  for (auto& each : devices)
    each = own_device(name, each);
  for (const auto& each : devices)
    if (std::count(devices.begin(), devices.end(), each) > 1)
      throw_failure(errc::invalid_argument,
                    std::string{name} + ": devices names '" + each + "' twice");
  return devices;
}

one_device_strategy::one_device_strategy(runtime& rt, const std::string& device,
                                         replica_options options)
  : strategy{made(rt,
                  {.kind = strategy_kind::one_device,
                   .name = "one_device_strategy",
                   .devices = {detail::own_device("one_device_strategy", device)}},
                  options)} {}

mirrored_strategy::mirrored_strategy(runtime& rt, std::optional<std::vector<std::string>> devices,
                                     replica_options options)
  : strategy{made(rt,
                  {.kind = strategy_kind::mirrored,
                   .name = "mirrored_strategy",
                   .devices = devices_or_default(rt, "mirrored_strategy", std::move(devices))},
                  options)} {}

central_storage_strategy::central_storage_strategy(runtime& rt,
                                                   std::optional<std::vector<std::string>> devices,
                                                   std::optional<std::string> parameter_device,
                                                   replica_options options)
  : strategy{[&] {
      sync_options with{
        .kind = strategy_kind::central_storage,
        .name = "central_storage_strategy",
        .devices = devices_or_default(rt, "central_storage_strategy", std::move(devices))};
      with.parameter_device = parameter_device
                                ? detail::own_device("central_storage_strategy", *parameter_device)
                              : with.devices.size() == 1 ? with.devices[0]
                                                         : std::string{"cpu:0"};
      return made(rt, std::move(with), options);
    }()} {}

} // namespace troupe
