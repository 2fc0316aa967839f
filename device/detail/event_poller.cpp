#include <troupe/device/detail/event_poller.hpp>

#include <algorithm>
#include <utility>

#include <troupe/device/detail/device_core.hpp>

namespace troupe::detail {

namespace {

/// Rounds when nothing is open: only the device's health is looked at.
constexpr duration idle_every = std::chrono::milliseconds{100};

/// What one round may add to an event's age, whenever the round before was.
constexpr duration age_step_max = std::chrono::milliseconds{250};

/// Pollers that a failed device may still call. Never destroyed, so reachable to the end.
void keep_for_ever(std::shared_ptr<event_poller> what) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<event_poller>>;
  std::lock_guard lock{mutex};
  kept.push_back(std::move(what));
}

} // namespace

event_poller::event_poller(const environment& env, std::shared_ptr<device_backend> backend,
                           device_id id, std::shared_ptr<device_health> health, duration poll_every,
                           duration hang_after)
  : env_{env},
    backend_{std::move(backend)},
    id_{id},
    health_{std::move(health)},
    poll_every_{poll_every},
    hang_after_{hang_after},
    changed_{env.waits.make_point()} {}

void event_poller::run() {
  (void)backend_->bind(id_.index);
  last_round_ = env_.clock.now();
  for (;;) {
    round();
    std::unique_lock lock{mutex_};
    if (stopped_)
      break;
    const auto seen = std::exchange(wakes_, 0);
    if (seen == 0)
      (void)changed_->wait_until(
        lock,
        after(env_.clock.now(), open_.empty() ? std::max(idle_every, poll_every_) : poll_every_));
    if (stopped_)
      break;
  }
  std::lock_guard lock{mutex_};
  ended_ = true;
  changed_->notify_all();
}

void event_poller::round() {
  const auto now = env_.clock.now();
  const auto older = std::min(now - last_round_, std::max(age_step_max, 2 * poll_every_));
  last_round_ = now;
  ++rounds_;
  if (health_->is_well())
    if (auto answer = backend_->health(id_.index); !answer.ok())
      health_->fail(device_failure(id_, {}, nullptr, answer));
  for (auto& check : checks_)
    check(now);
  std::vector<entry> open;
  {
    std::lock_guard lock{mutex_};
    open = std::exchange(open_, {});
  }
  std::vector<std::pair<entry, result<void>>> done;
  std::vector<entry> rest;
  for (auto& e : open) {
    e.age += std::exchange(e.seen, true) ? older : duration{};
    if (auto out = look(e))
      done.emplace_back(std::move(e), std::move(*out));
    else
      rest.push_back(std::move(e));
  }
  std::unique_lock lock{mutex_};
  if (stopped_)
    for (auto& e : rest)
      done.emplace_back(std::move(e), result<void>{stop_reason_});
  else
    open_.insert(open_.begin(), std::make_move_iterator(rest.begin()),
                 std::make_move_iterator(rest.end()));
  lock.unlock();
  for (auto& [e, out] : done)
    e.call(out);
}

std::optional<result<void>> event_poller::look(const entry& open) {
  if (auto why = health_->why())
    return result<void>{std::move(*why)};
  auto& e = *open.event;
  if (auto why = e.broken())
    return result<void>{std::move(*why)};
  const auto answer = backend_->query(e.native);
  if (answer.status == device_status::not_ready) {
    if (open.age < hang_after_)
      return std::nullopt;
    return result<void>{e.hangs()};
  }
  if (!answer.ok())
    return result<void>{e.core->fail(e.stream->name, e.operation, answer)};
  return e.settled();
}

void event_poller::stop(const failure& why) {
  std::vector<entry> open;
  {
    std::lock_guard lock{mutex_};
    if (std::exchange(stopped_, true))
      return;
    stop_reason_ = why;
    open = std::exchange(open_, {});
    if (spare_tickets_.size() != tickets_.size())
      keep_for_ever(shared_from_this());
    changed_->notify_all();
  }
  for (auto& e : open)
    e.call(result<void>{why});
}

bool event_poller::ended() const {
  std::lock_guard lock{mutex_};
  return ended_;
}

bool event_poller::await_end(time_point deadline) {
  std::unique_lock lock{mutex_};
  return wait_for(*changed_, lock, deadline, [this] { return ended_; });
}

bool event_poller::add(entry e, std::uint32_t open_max) {
  std::lock_guard lock{mutex_};
  if (stopped_ || open_.size() >= open_max)
    return false;
  open_.push_back(std::move(e));
  ++wakes_;
  changed_->notify_all();
  return true;
}

std::uint64_t event_poller::open() const {
  std::lock_guard lock{mutex_};
  return open_.size();
}

void event_poller::wake() {
  std::lock_guard lock{mutex_};
  ++wakes_;
  changed_->notify_all();
}

void* event_poller::ticket() {
  std::lock_guard lock{mutex_};
  if (spare_tickets_.empty())
    return &tickets_.emplace_back(ticket_slot{this});
  auto* out = spare_tickets_.back();
  spare_tickets_.pop_back();
  return out;
}

void event_poller::take_back(void* ticket) {
  std::lock_guard lock{mutex_};
  spare_tickets_.push_back(static_cast<ticket_slot*>(ticket));
}

void event_poller::posted(void* argument) {
  auto* slot = static_cast<ticket_slot*>(argument);
  auto* self = slot->of;
  std::lock_guard lock{self->mutex_};
  self->spare_tickets_.push_back(slot);
  ++self->wakes_;
  self->changed_->notify_all();
}

} // namespace troupe::detail
