#include <troupe/actors/devices/device_plane.hpp>

#include <utility>

#include <troupe/device/cpu_backend.hpp>
#include <troupe/device/cuda_backend.hpp>
#include <troupe/messages/devices.hpp>

namespace troupe {

device_plane::device_plane(const environment& env, caf::actor_system& system,
                           device_plane_options options)
  : env_{env}, system_{system}, options_{options}, changed_{env.waits.make_point()} {}

device_plane::~device_plane() = default;

/// Looked for when first wanted: asking a driver takes its time, and most runs need no GPU.
/// @pre the lock is held
const std::vector<std::shared_ptr<device_backend>>& device_plane::backends() {
  if (!backends_.empty())
    return backends_;
  if (env_.devices) {
    backends_ = env_.devices->backends();
    why_no_gpu_ = "the environment provides none";
    return backends_;
  }
  backends_.push_back(make_cpu_backend(env_, {.devices = options_.cpu_devices}));
  auto gpus = make_cuda_backend(env_);
  if (gpus)
    backends_.push_back(std::move(*gpus));
  else
    why_no_gpu_ = gpus.error().text;
  return backends_;
}

std::vector<device_info> device_plane::list() {
  std::lock_guard lock{mutex_};
  std::vector<device_info> out;
  for (const auto& backend : backends()) {
    auto count = backend->count();
    for (std::uint32_t i = 0; count && i < *count; ++i)
      if (auto facts = backend->describe(i))
        out.push_back({.id = {backend->kind(), i}, .facts = std::move(*facts)});
  }
  return out;
}

failure device_plane::not_there(const device_id& id) {
  std::string text = to_string(id) + " does not exist; available devices:";
  for (const auto& each : list())
    text += " " + to_string(each.id);
  if (id.kind == device_kind::cpu)
    text += " (runtime_options::cpu_devices sets their number)";
  if (id.kind == device_kind::gpu && !why_no_gpu_.empty())
    text += " (" + why_no_gpu_ + ")";
  return make_failure(errc::device_unavailable, std::move(text));
}

result<std::shared_ptr<device>> device_plane::open(const device_id& id) {
  std::shared_ptr<device_backend> backend;
  std::unique_lock lock{mutex_};
  if (closed_)
    return make_failure(errc::wrong_state, to_string(id) + ": the runtime has ended");
  for (const auto& each : backends())
    if (auto count = each->count(); each->kind() == id.kind && count && id.index < *count)
      backend = each;
  if (!backend) {
    lock.unlock();
    return not_there(id);
  }
  if (!entries_.contains(id))
    start(id, std::move(backend));
  auto e = entries_[id];
  const auto deadline = after(env_.clock.now(), options_.open_max);
  if (!wait_for(*changed_, lock, deadline, [&] { return e->made.has_value(); }))
    return make_failure(errc::device_timeout, to_string(id) + ": opening did not finish within "
                                                + std::to_string(to_ms(options_.open_max)) + " ms");
  // Its actor has ended; the next may try again. Another who waited may have been here before.
  if (auto at = entries_.find(id); !*e->made && at != entries_.end() && at->second == e)
    entries_.erase(at);
  return *e->made;
}

/// @pre the lock is held
void device_plane::start(const device_id& id, std::shared_ptr<device_backend> backend) {
  auto made = std::make_shared<entry>();
  made->closed = std::make_shared<promise_slot<bool>>(env_);
  entries_[id] = made;
  auto opened = [weak = weak_from_this(), made](result<std::shared_ptr<device>> what) {
    auto self = weak.lock();
    if (!self)
      return;
    std::lock_guard lock{self->mutex_};
    made->made = std::move(what);
    self->changed_->notify_all();
  };
  made->actor = spawn_device(system_, env_,
                             {.backend = std::move(backend),
                              .index = id.index,
                              .how = options_.device,
                              .check_ms = options_.check_ms,
                              .opened = std::move(opened),
                              .closed = made->closed});
  for (const auto& by : watchers_[id])
    tell_from_outside(made->actor, watch_device{.by = {by}});
}

void device_plane::watch(const device_id& id, std::shared_ptr<device_watcher> by) {
  std::lock_guard lock{mutex_};
  watchers_[id].push_back(by);
  auto at = entries_.find(id);
  if (at != entries_.end())
    tell_from_outside(at->second->actor, watch_device{.by = {std::move(by)}});
}

bool device_plane::close(time_point deadline) {
  std::map<device_id, std::shared_ptr<entry>> all;
  {
    std::lock_guard lock{mutex_};
    closed_ = true;
    all = std::exchange(entries_, {});
  }
  const auto left = deadline - env_.clock.now();
  const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(to_ms(left), 100));
  for (auto& [id, e] : all)
    tell_from_outside(e->actor, close_device{.deadline_ms = ms, .here = made_here()});
  bool clean = true;
  for (auto& [id, e] : all) {
    auto ended =
      e->closed->poll_until(after(deadline, std::chrono::seconds{1}), "close " + to_string(id));
    clean = clean && ended && *ended;
  }
  return clean;
}

} // namespace troupe
