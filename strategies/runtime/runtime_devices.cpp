#include <troupe/messages/devices.hpp>
#include <troupe/strategies/runtime/detail/runtime_impl.hpp>

#include <cstdio>
#include <utility>

namespace troupe {

std::uint32_t runtime::impl::lanes_here() const {
  if (is_synchronous())
    return 1;
  return (over_processes() ? 1 : options_.workers) * options_.lanes_per_worker;
}

/// Named devices are opened now, so that a wrong name ends the start and not a step. GPUs that
/// nobody named are not even looked for.
void runtime::impl::make_devices() {
  const auto cpus = options_.cpu_devices != 0 ? options_.cpu_devices : lanes_here();
  devices_ = std::make_shared<device_plane>(
    *env_, *system_,
    device_plane_options{.cpu_devices = cpus,
                         .device = {.hang_after = options_.device_hang_after}});
  services_ = std::make_shared<detail::runtime_services>(*env_, *system_, devices_);
  if (own_env_)
    services_->say = [](const std::string& line) {
      std::fprintf(stderr, "troupe: %s\n", line.c_str());
    };
  for (std::uint32_t i = 0; options_.devices.empty() && i < cpus; ++i)
    step_devices_.push_back({device_kind::cpu, i});
  const bool runs_steps = !over_processes() || options_.task->job == job_kind::worker;
  for (const auto& name : options_.devices) {
    auto id = parse_device(name).value_or_throw();
    if (runs_steps)
      (void)devices_->open(id).value_or_throw();
    step_devices_.push_back(id);
  }
}

worker_lanes_options runtime::impl::lanes_of(const task_id& task) const {
  const auto first = over_processes() ? 0 : task.index * options_.lanes_per_worker;
  return {.task = task,
          .lanes = options_.lanes_per_worker,
          .effect_once = options_.effect_once,
          .request_max = options_.request_timeout,
          .device_of = [plane = devices_, all = step_devices_,
                        first](std::uint32_t lane) -> result<std::shared_ptr<device_context>> {
            const auto& id = all[(first + lane) % all.size()];
            auto made = plane->open(id);
            if (!made)
              return made.error();
            return device_context::make(std::move(*made), "lane." + std::to_string(first + lane));
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

/// The worker is of no use without the devices of its lanes.
void runtime::impl::watch_devices(const task_id& task, const worker_actor& actor) {
  const auto first = over_processes() ? 0 : task.index * options_.lanes_per_worker;
  auto watcher = std::make_shared<worker_watcher>(actor);
  for (std::uint32_t lane = 0; lane < options_.lanes_per_worker; ++lane)
    devices_->watch(step_devices_[(first + lane) % step_devices_.size()], watcher);
}

} // namespace troupe
