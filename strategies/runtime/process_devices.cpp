#include <troupe/strategies/runtime/detail/process_devices.hpp>

#include <string>
#include <utility>

#include <troupe/device/context.hpp>
#include <troupe/messages/devices.hpp>

namespace troupe::detail {

namespace {

std::uint32_t cpu_devices_of(const runtime_options& options, const step_needs& needs) {
  return options.cpu_devices != 0 ? options.cpu_devices : needs.threads;
}

} // namespace

process_devices::process_devices(const process_host& host, const runtime_options& options,
                                 const step_needs& needs)
  : options_{options},
    runs_steps_here_{needs.runs_steps_here},
    plane_{std::make_shared<device_plane>(
      host.env(), host.system(),
      device_plane_options{.cpu_devices = cpu_devices_of(options, needs),
                           .device = {.hang_after = options.device_hang_after}})} {
  if (!options.devices.empty())
    return;
  for (std::uint32_t i = 0; i < cpu_devices_of(options, needs); ++i)
    for_steps_.push_back({device_kind::cpu, i});
}

void process_devices::open_named() {
  for (const auto& name : options_.devices) {
    auto id = parse_device(name).value_or_throw();
    if (runs_steps_here_)
      (void)plane_->open(id).value_or_throw();
    for_steps_.push_back(id);
  }
}

worker_executor_options process_devices::threads_of(const task_id& task,
                                                    std::uint32_t first) const {
  return {.task = task,
          .threads = options_.threads_per_worker,
          .effect_once = options_.effect_once,
          .request_max = options_.request_timeout,
          .device_of = [plane = plane_, all = for_steps_,
                        first](std::uint32_t thread) -> result<std::shared_ptr<device_context>> {
            const auto& id = all[(first + thread) % all.size()];
            auto made = plane->open(id);
            if (!made)
              return made.error();
            return device_context::make(std::move(*made),
                                        "compute." + std::to_string(first + thread));
          }};
}

namespace {

/// Tells a worker of its device's end, without keeping it.
class worker_watcher final : public device_watcher {
public:
  explicit worker_watcher(const worker_actor& actor)
    : actor_{caf::actor_cast<caf::weak_actor_ptr>(actor)} {}
  void on_device_failed(const device_failed& msg) override {
    if (auto strong = actor_.lock())
      tell_from_outside(caf::actor_cast<worker_actor>(strong), msg);
  }

private:
  caf::weak_actor_ptr actor_;
};

} // namespace

void process_devices::watch(std::uint32_t first, const worker_actor& worker) const {
  auto watcher = std::make_shared<worker_watcher>(worker);
  for (std::uint32_t thread = 0; thread < options_.threads_per_worker; ++thread)
    plane_->watch(for_steps_[(first + thread) % for_steps_.size()], watcher);
}

} // namespace troupe::detail
