#include <troupe/actors/devices/device.hpp>

#include <exception>
#include <utility>

#include <troupe/messages/devices.hpp>
#include <troupe/messages/tick.hpp>

namespace troupe {

device_state::device_state(interface::pointer self, const environment& env,
                           device_actor_options options)
  : self_{self}, env_{env}, options_{std::move(options)} {}

device_state::~device_state() {
  {
    std::lock_guard lock{outcome_->mutex};
    outcome_->unwanted = true;
  }
  if (thread_) { // the system ends in the middle of it
    if (thread_->ended())
      thread_->join();
    else
      thread_->abandon();
  }
  tell_opened(make_failure(errc::unavailable, text() + ": the device's actor has ended"));
  device_ = nullptr;
  if (options_.closed)
    options_.closed->set(false);
}

void device_state::tell_opened(result<std::shared_ptr<device>> what) {
  if (auto tell = std::exchange(options_.opened, nullptr))
    tell(std::move(what));
}

std::string device_state::text() const {
  return to_string(device_id{options_.backend->kind(), options_.index});
}

auto device_state::make_behavior() -> interface::behavior_type {
  run_on_thread("open", opened_timer,
                [env = env_, backend = options_.backend, index = options_.index,
                 how = options_.how](outcome& out) {
                  auto made = device::open(env, backend, index, how);
                  std::unique_lock lock{out.mutex};
                  if (!made) {
                    out.why = std::move(made.error());
                  } else if (!out.unwanted) {
                    out.made = std::move(*made);
                  } else {
                    lock.unlock();
                    (void)(*made)->close(std::chrono::seconds{1});
                  }
                });
  return {
    [this](device_failed& msg) { on_failed(msg); },
    [this](watch_device& msg) { on_watch(msg); },
    [this](query_device&) { return on_query(); },
    [this](close_device& msg) { on_close(msg); },
    [this](tick& msg) { on_tick(msg); },
  };
}

/// The driver may wait in there; handlers may not. Ends with a tick.
void device_state::run_on_thread(const std::string& what, std::uint8_t then,
                               std::function<void(outcome&)> body) {
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(self_handle<device_actor>(self_));
  thread_ = env_.threads.start(what + "-" + text(), [weak, then, out = outcome_, body] {
    try {
      body(*out);
    } catch (const std::exception& e) { // no memory for it
      std::lock_guard lock{out->mutex};
      out->why = make_failure(errc::out_of_memory,
                              std::string{"out of memory while opening it: "} + e.what());
    }
    if (auto strong = weak.lock())
      tell_from_outside(caf::actor_cast<device_actor>(strong), tick{.what = then});
  });
}

void device_state::on_tick(const tick& msg) {
  if (msg.what == opened_timer)
    return on_opened();
  if (msg.what == closed_timer)
    return on_closed();
  look_at_poller();
}

void device_state::on_opened() {
  if (!thread_ || device_) // not ours
    return;
  std::exchange(thread_, nullptr)->join();
  failure why;
  {
    std::lock_guard lock{outcome_->mutex};
    device_ = std::exchange(outcome_->made, nullptr);
    why = outcome_->why;
  }
  if (!device_) {
    trace(env_, "device.not_opened", {{"device", text()}, {"why", why.text}});
    tell_opened(std::move(why));
    return self_->quit();
  }
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(self_handle<device_actor>(self_));
  device_->on_failure([weak, device = text()](const failure& f) {
    if (auto strong = weak.lock())
      tell_from_outside(caf::actor_cast<device_actor>(strong),
                        device_failed{.device = device, .why = f, .here = made_here()});
  });
  tell_opened(device_);
  look_at_poller();
}

/// Counts looks and not time: a process that was stopped condemns nobody when it goes on.
void device_state::look_at_poller() {
  if (failed_ || closing_ || !device_)
    return;
  const auto now = device_->heartbeats();
  silent_ms_ = now == heartbeats_ ? silent_ms_ + options_.check_ms : 0;
  heartbeats_ = now;
  if (silent_ms_ > static_cast<std::uint64_t>(to_ms(options_.how.hang_after)))
    device_->give_up(make_failure(
      errc::device_timeout,
      text() + ": the poller hangs in a driver call for " + std::to_string(silent_ms_) + " ms"));
  tell_after(self_, self_handle<device_actor>(self_), std::chrono::milliseconds{options_.check_ms},
             tick{.what = check_timer});
}

void device_state::on_failed(device_failed& msg) {
  if (!msg.here.value || failed_)
    return;
  failed_ = std::make_unique<device_failed>(std::move(msg));
  trace(env_, "device.failed", {{"device", failed_->device}, {"why", failed_->why.text}});
  mark(env_, "device.failed");
  for (auto& each : std::exchange(watchers_, {}))
    each->on_device_failed(*failed_);
}

void device_state::on_watch(watch_device& msg) {
  if (!msg.by.value)
    return;
  if (failed_)
    msg.by.value->on_device_failed(*failed_);
  else if (watchers_.size() < options_.watchers_max)
    watchers_.push_back(std::move(msg.by.value));
}

device_report device_state::on_query() {
  device_report out{.device = text()};
  if (!device_)
    return out;
  const auto seen = device_->statistics();
  out.why = device_->why_failed().value_or(failure{});
  out.memory_bytes = device_->facts().memory_bytes;
  out.bytes_in_use = seen.memory.bytes_in_use;
  out.bytes_cached = seen.memory.bytes_cached;
  out.operations = seen.operations;
  out.events_open = seen.events_open;
  out.streams = seen.streams;
  return out;
}

void device_state::on_close(const close_device& msg) {
  if (!msg.here.value || std::exchange(closing_, true))
    return;
  if (!device_) { // opens still, or could not be opened
    if (thread_)
      std::exchange(thread_, nullptr)->abandon();
    return self_->quit();
  }
  run_on_thread("close", closed_timer, [d = device_, ms = msg.deadline_ms](outcome& out) {
    auto done = d->close(std::chrono::milliseconds{ms});
    std::lock_guard lock{out.mutex};
    if (!done)
      out.why = std::move(done.error());
  });
}

void device_state::on_closed() {
  if (!closing_ || !thread_)
    return;
  std::exchange(thread_, nullptr)->join();
  if (options_.closed) {
    std::lock_guard lock{outcome_->mutex};
    options_.closed->set(outcome_->why.code == errc::none);
  }
  self_->quit();
}

device_actor spawn_device(caf::actor_system& system, const environment& env,
                          device_actor_options options) {
  return spawn_state<device_state>(system, std::cref(env), std::move(options));
}

} // namespace troupe
