#include <troupe/device/detail/cpu_stream.hpp>

#include <utility>

#include <troupe/core/thrown.hpp>

namespace troupe::detail {

cpu_stream::cpu_stream(std::shared_ptr<cpu_shared> shared, device_id device,
                       std::uint32_t queue_len_max, duration full_max)
  : shared_{std::move(shared)},
    device_{device},
    queue_len_max_{queue_len_max},
    full_max_{full_max},
    work_{shared_->env.waits.make_point()} {}

void cpu_stream::start(const std::string& name, const std::shared_ptr<cpu_stream>& self) {
  thread_ =
    shared_->env.threads.start(name.empty() ? to_string(device_) : name, [self] { self->body(); });
}

bool cpu_stream::stop() {
  bool computes = false;
  {
    std::lock_guard lock{shared_->mutex};
    stopped_ = true;
    computes = computing_;
    work_->notify_all();
    shared_->changed->notify_all();
  }
  if (computes)
    thread_->abandon();
  else
    thread_->join(); // it only has to return
  return !computes;
}

device_answer cpu_stream::failed() const {
  std::lock_guard lock{shared_->mutex};
  return failed_;
}

device_answer cpu_stream::put(item what) {
  std::unique_lock lock{shared_->mutex};
  const auto deadline = after(shared_->env.clock.now(), full_max_);
  const bool computes = static_cast<bool>(what.op.run);
  const bool room = !computes || wait_for(*shared_->changed, lock, deadline, [this] {
    return operations_ < queue_len_max_ || !failed_.ok() || stopped_;
  });
  if (!failed_.ok())
    return failed_;
  if (stopped_)
    return {.status = device_status::invalid, .text = "the stream no longer exists"};
  if (!room)
    return {.status = device_status::failed, .text = "the queue of the stream stays full"};
  queue_.push_back(std::move(what));
  operations_ += computes ? 1 : 0;
  if (queue_.size() == 1)
    work_->notify_one();
  return {};
}

device_answer cpu_stream::push(device_op op) { return put({.op = std::move(op)}); }

device_answer cpu_stream::record(cpu_event& event) {
  auto made = std::make_shared<cpu_record>();
  {
    std::lock_guard lock{shared_->mutex};
    event.last = made;
  }
  return put({.record = std::move(made)});
}

device_answer cpu_stream::depend(const cpu_event& event) {
  std::shared_ptr<cpu_record> on;
  {
    std::lock_guard lock{shared_->mutex};
    on = event.last;
  }
  return on ? put({.wait = std::move(on)}) : device_answer{};
}

void cpu_stream::body() {
  std::unique_lock lock{shared_->mutex};
  for (;;) {
    while (queue_.empty() && !stopped_)
      (void)work_->wait_until(lock, never);
    if (stopped_)
      break;
    auto& front = queue_.front(); // stays queued, and counted, while it runs
    if (front.op.run) {
      computing_ = true;
      lock.unlock();
      run_one(front);
      lock.lock();
      computing_ = false;
    }
    while (front.wait && !front.wait->passed && front.wait->failed.ok() && !stopped_)
      (void)shared_->changed->wait_until(lock, never);
    if (front.wait && !front.wait->failed.ok())
      break_all(front.wait->failed);
    if (front.record && failed_.ok())
      front.record->passed = true;
    // What an operation owned must not end under the lock: it may be the last to hold a tensor.
    auto done = std::move(front);
    queue_.pop_front();
    const bool computed = static_cast<bool>(done.op.run);
    if (done.record || (computed && operations_-- == queue_len_max_))
      shared_->changed->notify_all();
    if (computed) {
      computing_ = true;
      lock.unlock();
      done = {};
      lock.lock();
      computing_ = false;
    }
  }
  auto dropped = std::exchange(queue_, {});
  for (auto& each : dropped)
    if (each.record)
      each.record->failed = failed_.ok() ? device_answer{.status = device_status::lost,
                                                         .text = "the stream was stopped"}
                                         : failed_;
  shared_->changed->notify_all();
  lock.unlock();
  dropped.clear();
}

/// Without the lock. The answer of an operation that broke is the stream's from then on.
void cpu_stream::run_one(item& what) {
  if (!failed().ok())
    return;
  device_answer answer;
  try { // a user's operation
    answer = what.op.run({.device = device_, .stream = nullptr});
  } catch (...) { // of whatever type: what leaves the thread would end the process
    if (ends_the_thread())
      throw;
    answer = {.status = device_status::launch_failed, .text = "the operation threw an exception"};
  }
  if (answer.ok())
    return;
  if (answer.status != device_status::lost)
    answer.status = device_status::launch_failed;
  answer.blame = what.op.name;
  std::lock_guard lock{shared_->mutex};
  break_all(answer);
}

/// Under the lock. All that waits for this stream hears of it.
void cpu_stream::break_all(const device_answer& why) {
  if (!failed_.ok())
    return;
  failed_ = why;
  for (auto& each : queue_)
    if (each.record)
      each.record->failed = why;
  shared_->changed->notify_all();
}

} // namespace troupe::detail
