#include <troupe/actors/worker/worker_executor.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <troupe/actors/worker/detail/step_runner.hpp>
#include <troupe/messages/membership.hpp>

namespace troupe {

worker_executor::worker_executor(const environment& env, worker_executor_options options,
                                 std::function<void()> progress)
  : env_{env},
    options_{std::move(options)},
    progress_{std::move(progress)},
    work_{env.waits.make_point()},
    threads_{env.threads, options_.threads, options_.threads_lost_max},
    running_(options_.threads),
    reports_{{.report_batch = options_.report_batch,
              .report_queue_min = options_.report_queue_min,
              .quiet_batch = options_.quiet_batch}} {}

worker_executor::~worker_executor() {
  TROUPE_ASSERT(threads_.running() == 0, "threads are joined before their owner goes");
}

// --- the worker actor
// -------------------------------------------------------------------------------------------

void worker_executor::begin_session(const origin& self, term_no term, worker_routes routes) {
  std::lock_guard lock{mutex_};
  end_session_locked();
  if (threads_.closed())
    return;
  session_ = std::make_shared<worker_session>(env_, self, term, std::move(routes));
  if (!std::exchange(started_, true))
    for (std::uint32_t i = 0; i < threads_.places(); ++i)
      start_thread(i);
}

void worker_executor::end_session() {
  std::lock_guard lock{mutex_};
  end_session_locked();
}

void worker_executor::end_session_locked() {
  if (!session_)
    return;
  session_->dead = true;
  session_ = nullptr;
  jobs_.clear();
  reports_.drop();
  const auto now = env_.clock.now();
  for (auto& step : running_)
    if (step) // it must not hold up the next session
      step->ask_to_end(now, std::chrono::milliseconds{options_.grace_ms});
  work_->notify_all(); // a step that waits to begin
}

namespace {

/// What is wrong with a specification that a peer sent; empty: nothing.
std::string complaint(const variable_spec& spec) {
  constexpr std::uint32_t servers_max = 100'000;
  if (!is_sane(spec.shape, spec.type) || spec.shards.empty())
    return "shape " + to_string(spec.shape) + " in " + std::to_string(spec.shards.size())
           + " shards";
  std::int64_t row = 0;
  for (const auto& shard : spec.shards) {
    if (shard.row_begin != row || shard.row_end < row || shard.server >= servers_max)
      return "rows [" + std::to_string(shard.row_begin) + ", " + std::to_string(shard.row_end)
             + ") on server " + std::to_string(shard.server);
    row = shard.row_end;
  }
  return row == spec.rows() ? "" : "shards end at row " + std::to_string(row);
}

} // namespace

void worker_executor::add_variables(const std::vector<variable_spec>& variables) {
  std::lock_guard lock{mutex_};
  if (!session_)
    return;
  std::lock_guard inner{session_->mutex};
  for (const auto& spec : variables)
    if (auto why = complaint(spec); !why.empty())
      trace(env_, "worker.variable_refused", {{"variable", spec.id}, {"why", why}});
    else
      session_->variables[spec.id] = std::make_shared<const variable_spec>(spec);
}

void worker_executor::make_resources(std::vector<resource_order> orders) {
  std::lock_guard lock{mutex_};
  if (!session_)
    return;
  // before every closure that waits, behind resources that were ordered earlier
  auto at =
    std::find_if(jobs_.begin(), jobs_.end(), [](const worker_job& j) { return !j.is_resource; });
  for (auto& order : orders) {
    at = jobs_.insert(at,
                      {.of = session_, .order = {}, .make = std::move(order), .is_resource = true});
    ++at;
  }
  work_->notify_all();
}

void worker_executor::drop_resources(const std::vector<resource_id>& ids) {
  std::lock_guard lock{mutex_};
  if (!session_)
    return;
  std::lock_guard inner{session_->mutex};
  for (auto id : ids)
    session_->resources.erase(id);
}

void worker_executor::push(std::vector<closure_order> orders) {
  std::lock_guard lock{mutex_};
  if (!session_)
    return;
  for (auto& order : orders)
    jobs_.push_back({.of = session_, .order = std::move(order), .make = {}, .is_resource = false});
  if (orders.size() > 1 && threads_.running() > 1)
    work_->notify_all();
  else
    work_->notify_one();
}

void worker_executor::recall(std::uint32_t count) {
  std::unique_lock lock{mutex_};
  if (!session_)
    return;
  std::vector<attempt_ended> ends;
  for (; count > 0 && !jobs_.empty() && !jobs_.back().is_resource; --count) {
    auto& order = jobs_.back().order;
    ends.push_back(
      {.id = order.id, .attempt = order.attempt, .outcome = attempt_outcome::recalled});
    jobs_.pop_back();
  }
  for (; count > 0; --count)
    ends.push_back({.outcome = attempt_outcome::recalled});
  const bool wakes = reports_.add_ends(std::move(ends), queue());
  lock.unlock();
  if (wakes)
    progress_();
}

void worker_executor::cancel(const std::vector<closure_id>& ids, std::uint64_t grace_ms) {
  std::unique_lock lock{mutex_};
  if (!session_)
    return;
  const std::set<closure_id> wanted{ids.begin(), ids.end()};
  std::vector<attempt_ended> ends;
  std::erase_if(jobs_, [&](const worker_job& job) {
    if (job.is_resource || !wanted.contains(job.order.id))
      return false;
    ends.push_back(step_runner::not_begun(job));
    return true;
  });
  const auto now = env_.clock.now();
  for (auto& step : running_)
    if (step && wanted.contains(step->closure))
      step->ask_to_end(now, std::chrono::milliseconds{grace_ms});
  work_->notify_all(); // a step that waits to begin
  const bool wakes =
    (!ends.empty() || reports_.has_ends()) && reports_.add_ends(std::move(ends), queue());
  lock.unlock();
  if (wakes)
    progress_();
}

std::optional<failure> worker_executor::give_up_hung() {
  std::unique_lock lock{mutex_};
  std::optional<failure> first;
  if (threads_.closed()) // whoever joins them gives them up
    return first;
  const auto now = env_.clock.now();
  for (std::uint32_t i = 0; i < threads_.places(); ++i) {
    if (!running_[i] || !running_[i]->hung.passed(now, running_[i]->waited(now)))
      continue;
    const auto step = std::exchange(running_[i], nullptr);
    step->abandoned = true;
    step->interrupt();
    auto why = report_given_up(*step);
    if (!first)
      first = std::move(why);
    threads_.give_up(i);
    if (threads_.may_replace())
      start_thread(i);
    else
      trace(env_, "worker.lanes_exhausted",
            {{"task", to_string(options_.task)}, {"lost", threads_.given_up()}});
  }
  lock.unlock();
  if (first)
    progress_();
  return first;
}

/// Why it was given up. @pre the lock is held
failure worker_executor::report_given_up(const running_step& step) {
  if (step.builds)
    building_ = false;
  work_->notify_all(); // those that wait for what it builds, or itself
  auto why = step.of->failure_here(errc::deadline, step.what_hung());
  if (step.of->dead)
    return why;
  mark(env_, "worker.hung_step_given_up");
  if (!step.builds) {
    reports_.add_given_up({.id = step.closure,
                           .attempt = step.attempt,
                           .outcome = attempt_outcome::given_up,
                           .why = why});
    return why;
  }
  std::lock_guard inner{step.of->mutex};
  step.of->resources[*step.builds] = {.made = {}, .why = why};
  reports_.add_given_up(resource_made{.id = *step.builds, .why = why});
  return why;
}

bool worker_executor::exhausted() const {
  std::lock_guard lock{mutex_};
  return threads_.running() == 0 && !threads_.may_replace();
}

worker_outbox worker_executor::drain() {
  std::lock_guard lock{mutex_};
  return reports_.take();
}

void worker_executor::let_begin(const std::vector<attempt_begun>& which) {
  if (which.empty())
    return;
  std::lock_guard lock{mutex_};
  for (auto& step : running_)
    if (step && std::any_of(which.begin(), which.end(), [&](const attempt_begun& x) {
          return x.id == step->closure && x.attempt == step->attempt;
        }))
      step->may_begin = true;
  work_->notify_all();
}

bool worker_executor::wait_for_more_ends() {
  std::lock_guard lock{mutex_};
  return reports_.waits_for_more(queue());
}

report_coalescer::queue_state worker_executor::queue() const {
  report_coalescer::queue_state out{.length = jobs_.size(), .next = {}};
  if (!jobs_.empty() && !jobs_.front().is_resource)
    out.next = jobs_.front().order.function;
  return out;
}

std::vector<thread_status> worker_executor::status() const {
  std::lock_guard lock{mutex_};
  std::vector<thread_status> out;
  if (threads_.closed())
    return out;
  const auto now = env_.clock.now();
  for (std::uint32_t i = 0; i < threads_.places(); ++i) {
    if (!threads_.has_thread(i))
      continue;
    thread_status line;
    if (const auto& step = running_[i]; step && step->may_begin) {
      line.closure = step->closure;
      line.attempt = step->attempt;
      line.running_ms = static_cast<std::uint64_t>(to_ms(now - step->started));
      line.silent_ms = static_cast<std::uint64_t>(to_ms(now - step->last_entry()));
    }
    out.push_back(line);
  }
  return out;
}

// --- the runtime
// ------------------------------------------------------------------------------------------------

void worker_executor::stop() {
  std::lock_guard lock{mutex_};
  end_session_locked();
  threads_.close();
  work_->notify_all();
}

bool worker_executor::join(time_point deadline) {
  stop();
  std::unique_lock lock{mutex_};
  return threads_.join(lock, env_.clock, deadline, [&] {
    lock.unlock();
    env_.threads.yield();
    lock.lock();
  });
}

} // namespace troupe
