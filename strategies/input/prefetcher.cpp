#include <troupe/strategies/input/detail/prefetcher.hpp>

#include <utility>

#include <troupe/core/execution_context.hpp>

namespace troupe::detail {

// --- making steps

prefetched_batch batch_producer::make() {
  prefetched_batch out;
  for (auto& pipeline : pipelines) {
    auto part = pipeline.next();
    out.step.has_data = out.step.has_data || part.has_data;
    for (auto& piece : part.pieces)
      out.step.pieces.push_back(std::move(piece));
  }
  if (!order.empty()) {
    std::vector<input_piece> of_replicas(out.step.pieces.size());
    for (std::size_t place = 0; place < order.size(); ++place)
      of_replicas.at(order[place]) = std::move(out.step.pieces.at(place));
    out.step.pieces = std::move(of_replicas);
  }
  if (feeder && out.step.has_data)
    out.placed = feeder->place(out.step.pieces);
  return out;
}

std::vector<std::string> batch_producer::positions() const {
  std::vector<std::string> out;
  for (const auto& each : pipelines)
    out.push_back(each.save());
  return out;
}

namespace {

/// What was thrown comes out by the `next` that it belongs to.
prefetched_batch made_ahead(batch_producer& maker) {
  try {
    auto out = maker.make();
    out.positions = maker.positions();
    return out;
  } catch (...) { // a simulator's end of the thread too: an error is the thread's last step
    prefetched_batch out;
    out.error = std::current_exception();
    return out;
  }
}

} // namespace

// --- the queue

input_queue::input_queue(const environment& env, std::shared_ptr<batch_producer> maker,
                         std::uint32_t steps)
  : env_{env}, maker_{std::move(maker)}, steps_{steps}, changed_{env.waits.make_point()} {}

bool input_queue::begin() {
  std::lock_guard lock{mutex_};
  stopping_ = closed_;
  runs_ = !closed_;
  return runs_;
}

void input_queue::never_began() {
  std::lock_guard lock{mutex_};
  runs_ = false;
}

void input_queue::serve() {
  std::unique_lock lock{mutex_};
  struct at_end { // also when a simulator unwinds the thread in a wait, which leaves it unlocked
    input_queue& of;
    std::unique_lock<std::mutex>& lock;
    ~at_end() {
      if (!lock.owns_lock())
        lock.lock();
      of.runs_ = false;
      of.changed_->notify_all();
    }
  } ends{*this, lock};
  while (!stopping_) {
    if (ready_.size() >= steps_) {
      (void)changed_->wait_until(lock, never);
      continue;
    }
    lock.unlock();
    auto made = made_ahead(*maker_);
    lock.lock();
    const bool last = made.is_last();
    ready_.push_back(std::move(made));
    changed_->notify_all();
    if (last)
      return;
  }
}

prefetched_batch input_queue::take() {
  std::unique_lock lock{mutex_};
  while (ready_.empty() && runs_)
    (void)changed_->wait_until(lock, never);
  if (ready_.empty())
    throw_failure(errc::wrong_state, "next: the strategy's runtime has ended");
  auto out = std::move(ready_.front());
  ready_.pop_front();
  changed_->notify_all();
  return out;
}

bool input_queue::stop(time_point deadline) {
  std::unique_lock lock{mutex_};
  stopping_ = true;
  changed_->notify_all();
  while (runs_ && changed_->wait_until(lock, deadline))
    ;
  return !runs_;
}

void input_queue::clear() {
  std::deque<prefetched_batch> dropped; // what frees memory does it without the lock
  std::lock_guard lock{mutex_};
  dropped.swap(ready_);
}

bool input_queue::close(time_point deadline) {
  {
    std::lock_guard lock{mutex_};
    closed_ = true;
  }
  return stop(deadline);
}

// --- the iterator's side

prefetcher::prefetcher(std::shared_ptr<distributed_source> source)
  : source_{std::move(source)}, maker_{std::make_shared<batch_producer>()} {
  maker_->pipelines = source_->open();
  maker_->order = source_->of()->options().input_order;
}

prefetcher::~prefetcher() {
  if (!thread_)
    return;
  const destructor_waits here;
  const auto& services = *source_->of()->services();
  end_thread(services.closed() ? time_point{} // it was waited for
                               : after(services.env.clock.now(), std::chrono::seconds{10}));
}

/// Whether steps are made ahead: begins at the first step of a pass, or behind a position.
bool prefetcher::has_thread() {
  if (thread_ || direct_)
    return thread_ != nullptr;
  const auto steps = source_->steps_ahead();
  direct_ = true;
  if (steps == 0)
    return false;
  const auto& of = source_->of();
  const auto& env = of->env();
  if (!queue_) {
    auto queue = std::make_shared<input_queue>(env, maker_, steps);
    if (of->keep_track(queue)) // else the strategy was closed just now
      queue_ = std::move(queue);
  }
  given_ = maker_->positions();
  if (!queue_ || !queue_->begin())
    throw_failure(errc::wrong_state, "next: the runtime of " + of->text() + " has ended");
  try {
    thread_ = env.threads.start("input." + std::to_string(of->first_id()),
                                [queue = queue_] { queue->serve(); });
    direct_ = false;
    return true;
  } catch (const std::exception& e) { // the system has none left: steps are made one by one
    trace(env, "input.no_lane", {{"strategy", of->text()}, {"why", e.what()}});
    queue_->never_began();
    given_.reset();
    return false;
  }
}

void prefetcher::end_thread(time_point deadline) {
  if (!thread_)
    return;
  const bool ended = queue_->stop(deadline);
  auto gone = std::exchange(thread_, nullptr);
  if (ended)
    gone->join();
  else
    gone->abandon();
}

prefetched_batch prefetcher::next() {
  const auto& of = source_->of();
  if (!of->is_standard())
    (void)of->env(); // throws when the runtime has ended
  if (!begun_ && source_->puts_on_devices())
    maker_->feeder = device_feeder::make(*of);
  begun_ = true;
  if (!has_thread())
    return maker_->make();
  auto out = queue_->take();
  if (!out.is_last()) {
    given_ = std::move(out.positions);
    return out;
  }
  end_thread(never); // from here on the pipelines stand where the program does
  given_.reset();
  direct_ = true;
  if (out.error)
    std::rethrow_exception(out.error);
  return out;
}

void prefetcher::start_pass(std::uint64_t pass) {
  end_thread(never);
  if (queue_)
    queue_->clear();
  given_.reset();
  direct_ = false;
  for (auto& each : maker_->pipelines)
    each.start_pass(pass);
  pass_ = pass;
}

std::vector<std::string> prefetcher::positions() const {
  return given_ ? *given_ : maker_->positions();
}

void prefetcher::restore(const std::vector<std::string>& positions) {
  piece_pipelines there;
  for (std::size_t i = 0; i < positions.size(); ++i)
    there.push_back(maker_->pipelines.at(i).restored(positions[i]));
  end_thread(never);
  if (queue_)
    queue_->clear();
  given_.reset();
  direct_ = false;
  maker_->pipelines = std::move(there);
  pass_ = maker_->pipelines.front().pass();
}

} // namespace troupe::detail
