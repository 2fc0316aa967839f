#include <troupe/actors/control_plane/control_link.hpp>

#include <utility>

namespace troupe {

control_link::control_link(std::unique_ptr<channel> wire, std::function<void()> wake,
                           std::uint32_t receive_bytes_max, std::uint64_t queue_bytes_max)
  : wire_{std::move(wire)},
    wake_{std::move(wake)},
    queue_bytes_max_{queue_bytes_max},
    in_{link_limits(receive_bytes_max)},
    out_{link_limits(link_bytes_max)} {}

bool control_link::send(link_kind kind, std::uint64_t request, std::string bytes) {
  unique_lock lock{mutex_};
  if (closed_ || sealed_ || broken_)
    return false;
  const auto size = frame_header_bytes + bytes.size();
  const auto queued = waiting_bytes_ + left_bytes_;
  if (bytes.size() > link_bytes_max || queued + size > queue_bytes_max_) {
    broken_ = make_failure(errc::too_large, "link with " + wire_->peer() + ": sending a frame of "
                                              + std::to_string(size) + " bytes while "
                                              + std::to_string(queued) + " of at most "
                                              + std::to_string(queue_bytes_max_) + " are queued");
    lock.unlock();
    wake_();
    return false;
  }
  outgoing_frame frame;
  frame.kind = static_cast<std::uint8_t>(kind);
  frame.request = request;
  frame.meta = std::move(bytes);
  waiting_.push_back(std::move(frame));
  waiting_bytes_ += size;
  if (writing_ || blocked_) // whoever writes takes it along; the thread watches the channel
    return true;
  write(lock);
  const bool look = blocked_ || broken_;
  lock.unlock();
  if (look)
    wake_();
  return true;
}

result<void> control_link::flush() {
  unique_lock lock{mutex_};
  if (blocked_ && !writing_ && !closed_ && !broken_) {
    blocked_ = false;
    write(lock);
  }
  return broken_ ? result<void>{*broken_} : result<void>{};
}

bool control_link::blocked() const {
  std::lock_guard lock{mutex_};
  return blocked_ && !broken_;
}

/// With the lock held, which it lets go of while it writes: in a simulation a channel may let
/// another thread run inside the call.
void control_link::write(unique_lock& lock) {
  writing_ = true;
  while (!waiting_.empty() || left_bytes_ > 0) {
    auto frames = std::exchange(waiting_, {});
    left_bytes_ += std::exchange(waiting_bytes_, 0);
    lock.unlock();
    result<bool> all = true;
    for (auto& frame : frames)
      if (auto ok = out_.push(std::move(frame)); !ok)
        all = ok.error();
    if (all)
      all = out_.pump(*wire_);
    lock.lock();
    left_bytes_ = out_.queued_bytes();
    if (!all) {
      broken_ = std::move(all.error());
      break;
    }
    if (closed_ || !*all) {
      blocked_ = !closed_;
      break;
    }
  }
  writing_ = false;
  if (closed_)
    wire_->close();
}

void control_link::seal() {
  std::lock_guard lock{mutex_};
  sealed_ = true;
}

void control_link::close() {
  unique_lock lock{mutex_};
  if (std::exchange(closed_, true))
    return;
  waiting_.clear();
  if (!writing_)
    wire_->close();
}

} // namespace troupe
