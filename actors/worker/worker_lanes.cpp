#include <troupe/actors/worker/worker_lanes.hpp>

#include <algorithm>
#include <functional>
#include <new>
#include <set>
#include <utility>

#include <troupe/actors/worker/detail/lane_step.hpp>
#include <troupe/core/planted.hpp>
#include <troupe/messages/membership.hpp>

namespace troupe {

namespace {
/// An end of a step that took longer is worth a message of its own.
constexpr std::uint64_t short_ns = 1'000'000;
} // namespace

worker_lanes::worker_lanes(const environment& env, worker_lanes_options options,
                           std::function<void()> progress)
  : env_{env}, options_{options}, progress_{std::move(progress)}, work_{env.waits.make_point()} {}

worker_lanes::~worker_lanes() {
  TROUPE_ASSERT(lanes_.empty(), "lanes are joined before their owner goes");
}

// --- the worker actor
// -------------------------------------------------------------------------------------------

void worker_lanes::begin_life(const origin& self, term_no term, worker_routes routes) {
  end_life();
  std::lock_guard lock{mutex_};
  if (stopped_)
    return;
  life_ = std::make_shared<life>(env_);
  life_->self = self;
  life_->term = term;
  life_->routes = std::move(routes);
  if (lanes_.empty() && lanes_lost_ == 0) {
    lanes_.resize(options_.lanes);
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      start_lane(i);
  }
}

void worker_lanes::end_life() {
  std::lock_guard lock{mutex_};
  if (!life_)
    return;
  life_->dead = true;
  life_ = nullptr;
  jobs_.clear();
  out_ = {};
  auto until = after(env_.clock.now(), std::chrono::milliseconds{options_.grace_ms});
  for (auto& slot : lanes_)
    if (slot.step) { // it must not hold up the next life
      slot.step->give_up_at = std::min(slot.step->give_up_at, until);
      slot.step->interrupt();
    }
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

void worker_lanes::add_variables(const std::vector<variable_spec>& variables) {
  std::lock_guard lock{mutex_};
  if (!life_)
    return;
  std::lock_guard inner{life_->mutex};
  for (const auto& spec : variables)
    if (auto why = complaint(spec); !why.empty())
      trace(env_, "worker.variable_refused", {{"variable", spec.id}, {"why", why}});
    else
      life_->variables[spec.id] = std::make_shared<const variable_spec>(spec);
}

void worker_lanes::make_resources(std::vector<resource_order> orders) {
  std::lock_guard lock{mutex_};
  if (!life_)
    return;
  // before every closure that waits, behind resources that were ordered earlier
  auto at = std::find_if(jobs_.begin(), jobs_.end(), [](const job& j) { return !j.is_resource; });
  for (auto& order : orders) {
    at =
      jobs_.insert(at, {.of = life_, .order = {}, .make = std::move(order), .is_resource = true});
    ++at;
  }
  work_->notify_all();
}

void worker_lanes::drop_resources(const std::vector<resource_id>& ids) {
  std::lock_guard lock{mutex_};
  if (!life_)
    return;
  std::lock_guard inner{life_->mutex};
  for (auto id : ids)
    life_->resources.erase(id);
}

void worker_lanes::push(std::vector<closure_order> orders) {
  std::lock_guard lock{mutex_};
  if (!life_)
    return;
  for (auto& order : orders)
    jobs_.push_back({.of = life_, .order = std::move(order), .make = {}, .is_resource = false});
  if (orders.size() > 1 && lanes_.size() > 1)
    work_->notify_all();
  else
    work_->notify_one();
}

void worker_lanes::recall(std::uint32_t count) {
  std::unique_lock lock{mutex_};
  if (!life_)
    return;
  bool was_empty = out_.empty();
  for (; count > 0 && !jobs_.empty() && !jobs_.back().is_resource; --count) {
    auto& order = jobs_.back().order;
    out_.ended.push_back(
      {.id = order.id, .attempt = order.attempt, .outcome = attempt_outcome::recalled});
    jobs_.pop_back();
  }
  for (; count > 0; --count)
    out_.ended.push_back({.outcome = attempt_outcome::recalled});
  bool news = is_news(was_empty);
  lock.unlock();
  if (news)
    progress_();
}

void worker_lanes::cancel(const std::vector<closure_id>& ids, std::uint64_t grace_ms) {
  std::unique_lock lock{mutex_};
  if (!life_)
    return;
  bool was_empty = out_.empty();
  std::set<closure_id> wanted{ids.begin(), ids.end()};
  std::erase_if(jobs_, [&](const job& j) {
    if (j.is_resource || !wanted.contains(j.order.id))
      return false;
    out_.ended.push_back(
      {.id = j.order.id,
       .attempt = j.order.attempt,
       .outcome = attempt_outcome::failed,
       .why = life_->failure_here(errc::cancelled, "cancelled before it started")});
    return true;
  });
  auto until = after(env_.clock.now(), std::chrono::milliseconds{grace_ms});
  for (auto& slot : lanes_)
    if (slot.step && wanted.contains(slot.step->closure)) {
      slot.step->give_up_at = std::min(slot.step->give_up_at, until);
      slot.step->interrupt();
    }
  work_->notify_all(); // a step that waits to begin
  bool news = !out_.ended.empty() && is_news(was_empty);
  lock.unlock();
  if (news)
    progress_();
}

std::optional<failure> worker_lanes::give_up_hung() {
  std::unique_lock lock{mutex_};
  std::optional<failure> first;
  auto now = env_.clock.now();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    auto& slot = lanes_[i];
    if (!slot.step || now < after(slot.step->give_up_at, slot.step->waited(now)))
      continue;
    auto step = std::exchange(slot.step, nullptr);
    step->abandoned = true;
    step->interrupt();
    auto why = report_given_up(*step);
    if (!first)
      first = std::move(why);
    *slot.gone = true;
    slot.thread->abandon();
    abandoned_.push_back(std::move(slot.thread));
    if (++lanes_lost_ > options_.lanes_lost_max) {
      lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(i--));
      trace(env_, "worker.lanes_exhausted",
            {{"task", to_string(options_.task)}, {"lost", lanes_lost_}});
      continue;
    }
    start_lane(i);
  }
  lock.unlock();
  if (first)
    progress_();
  return first;
}

/// With the lock held. Why it was given up.
failure worker_lanes::report_given_up(const running_step& step) {
  if (step.builds)
    building_ = false;
  work_->notify_all(); // those that wait for what it builds, or itself
  auto why = step.of->failure_here(errc::deadline, step.what_hung());
  if (step.of->dead)
    return why;
  mark(env_, "worker.hung_step_given_up");
  if (!step.builds) {
    out_.ended.push_back({.id = step.closure,
                          .attempt = step.attempt,
                          .outcome = attempt_outcome::given_up,
                          .why = why});
    return why;
  }
  std::lock_guard inner{step.of->mutex};
  step.of->resources[*step.builds] = {.made = {}, .why = why};
  out_.resources.push_back({.id = *step.builds, .why = why});
  return why;
}

bool worker_lanes::exhausted() const {
  std::lock_guard lock{mutex_};
  return lanes_.empty() && lanes_lost_ > options_.lanes_lost_max;
}

worker_lanes::outbox worker_lanes::drain() {
  std::lock_guard lock{mutex_};
  held_ = false;
  quiet_ = false;
  return std::exchange(out_, {});
}

void worker_lanes::let_begin(const std::vector<attempt_begun>& which) {
  if (which.empty())
    return;
  std::lock_guard lock{mutex_};
  for (auto& slot : lanes_)
    if (slot.step && std::any_of(which.begin(), which.end(), [&](const attempt_begun& x) {
          return x.id == slot.step->closure && x.attempt == slot.step->attempt;
        }))
      slot.step->may_begin = true;
  work_->notify_all();
}

bool worker_lanes::hold() {
  std::lock_guard lock{mutex_};
  return held_ = may_wait();
}

/// Ends of steps, as far as they are no longer than a message is worth.
bool worker_lanes::may_wait() const {
  return !out_.ended.empty() && out_.ended.size() < options_.report_batch
         && (jobs_.size() >= options_.report_queue_min || more_alike()) && out_.resources.empty()
         && out_.begun.empty() && out_.ended.back().outcome == attempt_outcome::finished
         && out_.ended.back().run_ns < short_ns;
}

/// Whether what comes next will take no longer than what ended last, which took next to nothing.
bool worker_lanes::more_alike() const {
  constexpr std::uint64_t nothing_ns = 20'000;
  return !jobs_.empty() && !jobs_.front().is_resource
         && jobs_.front().order.function == last_function_ && out_.ended.back().run_ns < nothing_ns;
}

/// With the lock held, after something went to the outbox: whether the actor must hear of it.
bool worker_lanes::is_news(bool was_empty) {
  if (std::exchange(quiet_, false))
    return true;
  return was_empty || (held_ && !may_wait() && std::exchange(held_, false));
}

/// With the lock held, after a step's end went to the outbox.
bool worker_lanes::keeps_quiet() const {
  const auto& last = out_.ended.back();
  return out_.ended.size() < options_.quiet_batch && jobs_.size() >= 2 && out_.resources.empty()
         && out_.begun.empty() && last.outcome == attempt_outcome::finished
         && last.run_ns < short_ns;
}

std::vector<lane_status> worker_lanes::status() const {
  std::lock_guard lock{mutex_};
  auto now = env_.clock.now();
  std::vector<lane_status> out;
  for (const auto& slot : lanes_) {
    lane_status line;
    if (slot.step && slot.step->may_begin) {
      line.closure = slot.step->closure;
      line.attempt = slot.step->attempt;
      line.running_ms = static_cast<std::uint64_t>(to_ms(now - slot.step->started));
      line.silent_ms = static_cast<std::uint64_t>(to_ms(now - slot.step->last_entry()));
    }
    out.push_back(line);
  }
  return out;
}

// --- the runtime
// ------------------------------------------------------------------------------------------------

void worker_lanes::stop() {
  end_life();
  std::lock_guard lock{mutex_};
  stopped_ = true;
  work_->notify_all();
}

bool worker_lanes::join(time_point deadline) {
  stop();
  bool all = true;
  auto lanes = [this] {
    std::lock_guard lock{mutex_};
    return std::exchange(lanes_, {});
  }();
  for (auto& slot : lanes) {
    while (!slot.thread->ended() && env_.clock.now() < deadline)
      env_.lanes.yield();
    if (slot.thread->ended()) {
      slot.thread->join();
    } else {
      all = false;
      slot.thread->abandon();
    }
  }
  return all && abandoned_.empty();
}

// --- the lanes
// --------------------------------------------------------------------------------------------------

void worker_lanes::start_lane(std::size_t at) {
  auto& slot = lanes_[at];
  slot.number = next_lane_number_++;
  slot.gone = std::make_shared<bool>(false);
  slot.thread = env_.lanes.start(
    "lane." + std::to_string(options_.task.index) + "." + std::to_string(slot.number),
    [self = shared_from_this(), at, number = slot.number, gone = slot.gone] {
      self->lane_body(static_cast<std::uint32_t>(at), number, gone);
    });
}

void worker_lanes::lane_body(std::uint32_t at, std::uint32_t number,
                             const std::shared_ptr<bool>& gone) {
  std::shared_ptr<life> of;
  std::unique_ptr<parameter_client> client;
  std::shared_ptr<device_context> device;
  std::shared_ptr<running_step> step; // the client's `interrupted` looks at it
  std::unique_lock lock{mutex_};
  while (!stopped_ && !*gone) {
    if (jobs_.empty() || building_) { // what another lane builds may be what the next closure takes
      work_->wait_until(lock, never);
      continue;
    }
    auto what = std::move(jobs_.front());
    jobs_.pop_front();
    if (what.of != of) {
      of = what.of;
      client = make_client(of, number, step);
    }
    step = std::make_shared<running_step>(
      env_, what, client.get(), what.is_resource ? options_.build_ms_max : what.order.deadline_ms);
    if (auto* slot = slot_of(number))
      slot->step = step;
    step->device = &device;
    step->lane = number;
    step->slot = at;
    building_ = what.is_resource;
    const bool begins = announce(lock, *step, *gone);
    lock.unlock();
    if (what.is_resource)
      build_resource(what, *client, *step);
    else
      report(*step, begins ? run_step_with_memory(what, *client, *step) : not_begun(what),
             what.order.function);
    lock.lock();
    if (what.is_resource && !step->abandoned) {
      building_ = false;
      work_->notify_all();
    }
    step->client = nullptr;
    if (auto* slot = slot_of(number); slot && slot->step == step)
      slot->step = nullptr;
  }
}

/// With the lock held, which it lets go of meanwhile: the coordinator hears that the step begins
/// before it does, so that whoever dies of it is known. False when the step is not to begin any
/// more.
bool worker_lanes::announce(std::unique_lock<std::mutex>& lock, running_step& step,
                            const bool& gone) {
  if (step.may_begin)
    return true;
  trace(env_, "worker.closure_announced",
        {{"term", step.closure.term},
         {"closure", step.closure.seq},
         {"attempt", step.attempt},
         {"worker", options_.task.index}});
  const bool was_empty = out_.empty();
  out_.begun.push_back({.id = step.closure, .attempt = step.attempt});
  if (is_news(was_empty)) {
    lock.unlock();
    progress_();
    lock.lock();
  }
  while (!step.may_begin && !step.interrupted() && !gone && !stopped_)
    work_->wait_until(lock, never);
  return step.may_begin && !step.interrupted() && !gone;
}

/// Of a closure that was cancelled while it waited to begin.
attempt_ended worker_lanes::not_begun(const job& what) {
  return {.id = what.order.id,
          .attempt = what.order.attempt,
          .outcome = attempt_outcome::failed,
          .why = what.of->failure_here(errc::cancelled, "cancelled before it started")};
}

worker_lanes::lane_slot* worker_lanes::slot_of(std::uint32_t number) {
  auto at = std::find_if(lanes_.begin(), lanes_.end(),
                         [&](const lane_slot& s) { return s.number == number; });
  return at == lanes_.end() ? nullptr : &*at;
}

std::unique_ptr<parameter_client> worker_lanes::make_client(
  const std::shared_ptr<life>& of, std::uint32_t number,
  const std::shared_ptr<running_step>& step) {
  return std::make_unique<parameter_client>(
    env_, [of](variable_id id) { return of->find(id); },
    [of](std::uint32_t server) { return of->routes.connect(server, of->self, of->term); },
    parameter_client_options{.lane = options_.task.index + number,
                             .at_least_once = !options_.effect_once,
                             .reply_max = options_.request_max,
                             .interrupted = [&step] { return step && step->interrupted(); },
                             .progressed =
                               [this, &step] {
                                 if (step)
                                   step->entered_ns = env_.clock.now().time_since_epoch().count();
                               }});
}

result<payload> worker_lanes::arguments_of(const job& what) {
  const auto& order = what.order;
  if (order.handed.value)
    return *order.handed.value; // copies handles of tensors, not their elements
  if (order.blob_bytes == 0)
    return unflatten(order.arguments);
  if (!what.of->routes.get_blob)
    return what.of->failure_here(errc::unavailable, "no channel to the coordinator's blobs");
  auto bytes = what.of->routes.get_blob(
    {.closure = order.id, .attempt = {}, .role = blob_role::argument}, order.blob_bytes);
  return bytes ? unflatten(*bytes) : result<payload>{bytes.error()};
}

/// Whatever of it runs out of memory, the closure fails and the lane goes on.
attempt_ended worker_lanes::run_step_with_memory(const job& what, parameter_client& client,
                                                 running_step& step) {
  try {
    return run_step(what, client, step);
  } catch (const std::bad_alloc&) {
    mark(env_, "worker.out_of_memory");
    client.abandon();
    attempt_ended end{.id = what.order.id, .attempt = what.order.attempt};
    end.outcome = attempt_outcome::failed;
    end.acknowledged = false;
    end.why = what.of->failure_here(errc::out_of_memory,
                                    "out of memory for the arguments or the result of closure "
                                      + std::to_string(what.order.id.seq));
    return end;
  }
}

namespace {

failure not_here(function_index number) {
  auto& table = function_table::global();
  return make_failure(errc::not_registered, "function number " + std::to_string(value_of(number))
                                              + " is not registered in this process, which has "
                                              + std::to_string(table.size())
                                              + ": the builds differ");
}

} // namespace

attempt_ended worker_lanes::run_step(const job& what, parameter_client& client,
                                     running_step& step) {
  const auto& order = what.order;
  attempt_ended end{.id = order.id, .attempt = order.attempt};
  auto fail = [&](failure why) {
    if (why.where.task.job
        == job_kind::chief) { // without an origin: thrown by the user's own code,
                              // which is never a reason to give up a worker
      bool ours = why.code == errc::cancelled && step.interrupted();
      if (!ours && (why.retry != retry_class::no || why.code == errc::fenced))
        why = make_failure(errc::user_code, to_string(why));
      why.where = what.of->self;
    }
    if (why.code != errc::cancelled)
      why.text = step.words() + ": " + why.text;
    end.outcome = attempt_outcome::failed;
    end.why = std::move(why);
  };
  trace(env_, "worker.closure_started",
        {{"term", order.id.term},
         {"closure", order.id.seq},
         {"attempt", order.attempt},
         {"worker", options_.task.index},
         {"incarnation", what.of->self.inc.counter}});
  client.begin(order.id, order.attempt, what.of->self);
  payload value;
  std::optional<failure> why;
  auto* entry = function_table::global().at(order.function);
  auto arguments = arguments_of(what);
  auto body = [&] {
    lane_step host{env_, options_.task, client, step, *what.of, options_};
    value = host.run([&] { return entry->invoke(host, *arguments); });
  };
  if (!arguments)
    why = what.of->from_here(arguments.error());
  else if (!entry || !entry->invoke)
    why = what.of->from_here(not_here(order.function));
  else
    why =
      guarded(env_, std::ref(body)); // by reference: a std::function of the lambda would allocate
  auto ok = planted(planted_bug::push_not_awaited) ? result<void>{} : client.finish();
  if (!ok) {
    client.abandon(); // late answers are nobody's, least of all the next closure's
    end.acknowledged = false;
    if (!why)
      why = what.of->from_here(ok.error());
  }
  end.run_ns = static_cast<std::uint64_t>((env_.clock.now() - step.started).count());
  if (!why && step.told) // it ended early because it was asked to: what it gave is no result
    why = what.of->failure_here(errc::cancelled,
                                "closure " + std::to_string(order.id.seq) + " was cancelled");
  if (why)
    fail(std::move(*why));
  else if (auto made = finish_result(what, std::move(value), end); !made)
    fail(what.of->from_here(
      made.error())); // a result that got lost is the way's fault: the closure runs again
  return end;
}

result<void> worker_lanes::finish_result(const job& what, payload value, attempt_ended& end) {
  if (!what.order.wants_result)
    return {};
  if (!what.of->routes.put_blob) {
    end.handed.value = std::make_shared<payload>(std::move(value));
    return {};
  }
  auto flat = flatten(value);
  if (flat.size() <= inline_bytes_max) {
    end.result = std::move(flat);
    return {};
  }
  end.blob_bytes = flat.size();
  return what.of->routes.put_blob(
    {.closure = end.id, .attempt = end.attempt, .role = blob_role::result}, std::move(flat));
}

void worker_lanes::build_resource(const job& what, parameter_client& client, running_step& step) {
  auto* entry = function_table::global().at(what.make.function);
  resource made;
  std::optional<failure> why;
  auto arguments =
    what.make.arguments.empty() ? result<payload>{payload{}} : unflatten(what.make.arguments);
  if (!arguments)
    why = arguments.error();
  else if (!entry || !entry->make)
    why = what.of->from_here(not_here(what.make.function));
  else
    why = guarded(env_, [&] {
      lane_step host{env_, options_.task, client, step, *what.of, options_};
      host.run([&] {
        made = entry->make(host, *arguments);
        return payload{};
      });
    });
  if (why && why->where.inc.counter == 0)
    why->where = what.of->self;
  if (why)
    why->text = step.words() + ": " + why->text;
  std::unique_lock lock{mutex_};
  if (step.abandoned) // its failure stands there already
    return;
  {
    std::lock_guard inner{what.of->mutex};
    what.of->resources[what.make.id] = {.made = std::move(made), .why = why.value_or(failure{})};
  }
  if (what.of->dead)
    return;
  bool was_empty = out_.empty();
  out_.resources.push_back({.id = what.make.id, .why = why.value_or(failure{})});
  bool news = is_news(was_empty);
  lock.unlock();
  if (news)
    progress_();
}

void worker_lanes::report(const running_step& step, attempt_ended end, function_index function) {
  std::unique_lock lock{mutex_};
  last_function_ = function;
  trace(env_, "worker.closure_ended",
        {{"term", end.id.term},
         {"closure", end.id.seq},
         {"attempt", end.attempt},
         {"worker", options_.task.index},
         {"outcome", end.outcome},
         {"code", end.why.code}});
  if ((step.of->dead && !planted(planted_bug::stale_attempt)) || step.abandoned)
    return mark(env_, "worker.end_of_dead_life_dropped");
  bool was_empty = out_.empty();
  out_.ended.push_back(std::move(end));
  if (keeps_quiet()) {
    quiet_ = true;
    return;
  }
  bool news = is_news(was_empty);
  lock.unlock();
  if (news)
    progress_();
}

} // namespace troupe
