// What a worker's executor runs on its compute threads.
#include <troupe/actors/worker/worker_executor.hpp>

#include <memory>
#include <string>
#include <utility>

#include <troupe/actors/worker/detail/step_runner.hpp>
#include <troupe/core/planted.hpp>

namespace troupe {

/// What a compute thread keeps from job to job.
struct worker_executor::thread_state {
  const post mine;
  step_runner runner;
  std::shared_ptr<worker_session> session{}; ///< of the client
  std::unique_ptr<parameter_client> client{};
  std::shared_ptr<device_context> device{};
  std::shared_ptr<running_step> step{}; ///< the client asks it whether it was interrupted
};

void worker_executor::start_thread(std::uint32_t place) {
  threads_.start(
    place,
    "worker." + std::to_string(options_.task.index) + "." + std::to_string(threads_.number(place)),
    [self = shared_from_this()](const post& mine) { self->serve(mine); });
}

void worker_executor::serve(const post& mine) {
  thread_state here{.mine = mine, .runner = {env_, options_.task, options_.device_of}};
  std::unique_lock lock{mutex_};
  while (auto what = threads_.next_work(
           mine, [&] { return take_job(); }, [&] { work_->wait_until(lock, never); }))
    run_job(*what, here, lock);
}

/// @pre the lock is held
std::optional<worker_job> worker_executor::take_job() {
  if (jobs_.empty() || building_) // what another thread builds may be what the next closure takes
    return std::nullopt;
  auto out = std::move(jobs_.front());
  jobs_.pop_front();
  return out;
}

/// @pre the lock is held, which it lets go of meanwhile
void worker_executor::run_job(const worker_job& what, thread_state& here,
                              std::unique_lock<std::mutex>& lock) {
  begin_job(what, here);
  auto& step = *here.step;
  const bool begins = announce(lock, step);
  lock.unlock();
  if (what.is_resource) {
    auto [made, why] = here.runner.build(what, *here.client, step);
    report_built(what, step, std::move(made), std::move(why));
  } else {
    report(step, begins ? here.runner.run(what, *here.client, step) : step_runner::not_begun(what));
  }
  lock.lock();
  end_job(what, here.step);
}

/// @pre the lock is held
void worker_executor::begin_job(const worker_job& what, thread_state& here) {
  if (what.of != here.session) {
    const auto of = here.session = what.of;
    here.client = std::make_unique<parameter_client>(
      env_, [of](variable_id id) { return of->find(id); },
      [of](std::uint32_t server) { return of->routes.connect(server, of->self, of->term); },
      parameter_client_options{
        .thread = options_.task.index + static_cast<std::uint32_t>(here.mine.number),
        .at_least_once = !options_.effect_once,
        .reply_max = options_.request_max,
        .interrupted = [&here] { return here.step && here.step->interrupted(); },
        .progressed =
          [this, &here] {
            if (here.step)
              here.step->entered_ns = env_.clock.now().time_since_epoch().count();
          }});
  }
  here.step = std::make_shared<running_step>(
    env_, what, here.client.get(),
    what.is_resource ? options_.build_ms_max : what.order.deadline_ms);
  here.step->thread = here.mine;
  here.step->device = &here.device;
  if (threads_.is_in_place(here.mine))
    running_[here.mine.place] = here.step;
  building_ = what.is_resource;
}

/// @pre the lock is held
void worker_executor::end_job(const worker_job& what, const std::shared_ptr<running_step>& step) {
  if (what.is_resource && !step->abandoned) {
    building_ = false;
    work_->notify_all();
  }
  step->client = nullptr;
  if (auto& at = running_[step->thread.place]; at == step)
    at = nullptr;
}

/// The coordinator hears that the step begins before it does, so that whoever dies of it is known.
/// False when the step is not to begin any more. @pre the lock is held, which it lets go of
/// meanwhile
bool worker_executor::announce(std::unique_lock<std::mutex>& lock, running_step& step) {
  if (step.may_begin)
    return true;
  trace(env_, "worker.closure_announced",
        {{"term", step.closure.term},
         {"closure", step.closure.seq},
         {"attempt", step.attempt},
         {"worker", options_.task.index}});
  if (reports_.add_begun({.id = step.closure, .attempt = step.attempt}, queue())) {
    lock.unlock();
    progress_();
    lock.lock();
  }
  const auto is_given_up = [&] { return !threads_.is_in_place(step.thread); };
  while (!step.may_begin && !step.interrupted() && !is_given_up() && !threads_.closed())
    work_->wait_until(lock, never);
  return step.may_begin && !step.interrupted() && !is_given_up();
}

void worker_executor::report_built(const worker_job& what, const running_step& step, resource made,
                                   failure why) {
  std::unique_lock lock{mutex_};
  if (step.abandoned) // its failure stands there already
    return;
  {
    std::lock_guard inner{what.of->mutex};
    what.of->resources[what.make.id] = {.made = std::move(made), .why = why};
  }
  if (what.of->dead)
    return;
  const bool wakes = reports_.add_resource({.id = what.make.id, .why = std::move(why)}, queue());
  lock.unlock();
  if (wakes)
    progress_();
}

void worker_executor::report(const running_step& step, attempt_ended end) {
  std::unique_lock lock{mutex_};
  reports_.note_function(step.function);
  trace(env_, "worker.closure_ended",
        {{"term", end.id.term},
         {"closure", end.id.seq},
         {"attempt", end.attempt},
         {"worker", options_.task.index},
         {"outcome", end.outcome},
         {"code", end.why.code}});
  if ((step.of->dead && !planted(planted_bug::stale_attempt)) || step.abandoned)
    return mark(env_, "worker.end_of_dead_life_dropped");
  const bool wakes = reports_.add_step_end(std::move(end), queue());
  lock.unlock();
  if (wakes)
    progress_();
}

} // namespace troupe
