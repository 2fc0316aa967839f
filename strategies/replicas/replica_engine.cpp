#include <troupe/strategies/replicas/detail/replica_engine.hpp>

#include <utility>

#include <troupe/actors/replicas/worker_meeting.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/device/context.hpp>
#include <troupe/messages/devices.hpp>
#include <troupe/messages/replicas.hpp>
#include <troupe/strategies/replicas/detail/context_stack.hpp>

namespace troupe::detail {

namespace {

/// Tells a replica of its device's end, without keeping it.
class replica_watcher final : public device_watcher {
public:
  explicit replica_watcher(const replica_actor& actor)
    : actor_{caf::actor_cast<caf::weak_actor_ptr>(actor)} {}
  void on_device_failed(const device_failed& msg) override {
    if (auto strong = actor_.lock())
      tell_from_outside(caf::actor_cast<replica_actor>(strong), msg);
  }

private:
  caf::weak_actor_ptr actor_;
};

/// Who hears whom a step waits for.
wait_listener of_a_step(const wait_listener& to) {
  if (!to)
    return to;
  return [to](const std::string& missing) { to("a step waits for " + missing); };
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& each : names)
    out += (out.empty() ? "" : ", ") + each;
  return out;
}

} // namespace

replica_engine::replica_engine(sync_options options) : options_{std::move(options)}, devices_(1) {}

replica_engine::replica_engine(std::shared_ptr<runtime_services> services, sync_options options)
  : options_{std::move(options)},
    services_{std::move(services)},
    devices_(std::size_t{local_count()} * logical_count()) {
  start();
}

replica_engine::~replica_engine() {
  if (services_ && !services_->closed())
    (void)close(after(services_->env.clock.now(), std::chrono::seconds{10}));
}

std::string replica_engine::text() const {
  if (policy().variables_on_servers)
    return options_.name + "(" + std::to_string(options_.server_devices.size()) + " servers)";
  return options_.name + "(" + joined(options_.devices) + ")";
}

const environment& replica_engine::env() const {
  if (!services_ || services_->closed())
    throw_failure(errc::wrong_state, text() + ": its runtime has ended");
  return services_->env;
}

void replica_engine::start() {
  if (policy().variables_on_servers)
    return; // opens its device when it is asked for
  const auto& env = services_->env;
  for (const auto& id : hardware_in_use()) { // a wrong name ends the construction, not a run
    bool there = false;
    if (id.kind == device_kind::cpu)
      for (const auto& each : services_->devices->list())
        there = there || each.id == id;
    if (!there)
      (void)services_->devices->open(id).value_or_throw();
  }
  if (is_inline())
    return;
  group_ = std::make_shared<replica_group>(
    env, replica_group_options{.name = "replicas",
                               .first_id = first_id(),
                               .local = local_count(),
                               .total = count(),
                               .timeout = options_.collective_timeout,
                               .links = options_.links,
                               .on_wait = of_a_step(options_.on_wait)});
  comms_ = std::make_shared<replica_comms>(
    env, replica_comms_options{
           .first_id = first_id(), .local = local_count(), .one_process = !options_.links});
  executor_ = std::make_shared<replica_executor>(
    env, replica_executor_options{
           .name = "replica",
           .first_id = first_id(),
           .replicas = local_count(),
           .grace_ms = options_.grace_ms,
           .call_timeout = options_.collective_timeout,
           // As in the group's own waits, but in a simulation, where looking takes virtual time.
           .spin = env.transport.shares_memory() ? std::chrono::microseconds{200} : duration{},
           .prepare = [group = group_] { return group->prepare(); },
           .before = [group = group_](std::uint32_t local) { group->join(local).value_or_throw(); },
           .replaced = [group = group_](std::uint32_t local) { group->renew(local); },
           .interrupt =
             [group = group_, comms = comms_, self = own_origin()](std::uint32_t local,
                                                                   const failure& why) {
               // no run goes on in this epoch
               comms->revoke(local, group->epoch(local), why.text);
               group->interrupt(local, from(self, why));
             }});
  for (std::uint32_t i = 0; i < local_count(); ++i) {
    actors_.push_back(spawn_replica(
      services_->system, env,
      {.local = i, .id = first_id() + i, .device = options_.devices[i], .executor = executor_}));
    for (std::uint32_t k = 0; k < logical_count(); ++k)
      services_->devices->watch(hardware(i, k), std::make_shared<replica_watcher>(actors_.back()));
  }
}

void replica_engine::follow_runtime() {
  services_->at_shutdown([weak = weak_from_this()](time_point deadline) {
    auto self = weak.lock();
    return !self || self->close(deadline);
  });
}

bool replica_engine::keep_track(const std::shared_ptr<strategy_part>& part) {
  std::lock_guard lock{parts_mutex_};
  if (parts_closed_)
    return false;
  std::erase_if(parts_, [](const auto& each) { return each.expired(); });
  parts_.push_back(part);
  return true;
}

bool replica_engine::close_parts(time_point deadline) {
  std::vector<std::weak_ptr<strategy_part>> all;
  {
    std::lock_guard lock{parts_mutex_};
    all.swap(parts_);
    parts_closed_ = true;
  }
  bool clean = true;
  for (const auto& each : all)
    if (auto part = each.lock())
      clean = part->close(deadline) && clean;
  return clean;
}

bool replica_engine::close(time_point deadline) {
  const destructor_waits here;
  bool clean = close_parts(deadline);
  clean = (!executor_ || executor_->close(deadline)) && clean;
  {
    std::lock_guard lock{device_mutex_};
    devices_.assign(devices_.size(), {});
  }
  if (comms_)
    comms_->close();
  for (auto& actor : std::exchange(actors_, {})) {
    auto gone = std::make_shared<promise_slot<bool>>(services_->env);
    actor->attach_functor([gone] { gone->set(true); });
    tell_from_outside(actor, close_replica{.here = made_here()});
    actor = nullptr;
    clean = bool(gone->poll_until(deadline, "close")) && clean;
  }
  if (clean && group_) // the ports may go before this
    group_->close(deadline);
  return clean;
}

// --- runs

void replica_engine::run(const std::function<void(std::uint32_t)>& body) {
  require_cross_replica("run");
  if (is_inline())
    return body(0);
  (void)env();
  executor_->run(body, replica_executor::merging());
}

std::shared_ptr<void> replica_engine::merge(std::uint32_t local, std::string what,
                                            std::shared_ptr<void> arguments,
                                            const merge_body& body) {
  if (is_inline()) {
    auto out = body({std::move(arguments)});
    return out.empty() ? nullptr : out[0];
  }
  return executor_->merge(local, {.kind = "merge_call", .how = std::move(what)},
                          std::move(arguments), body);
}

void replica_engine::collective(std::uint32_t local, replica_call call,
                                const std::function<result<void>(collective_group&)>& drive) {
  const bool on_devices = call.on_devices;
  // Before the call begins: a thread that is left behind must not get its successor's.
  const auto member = group_->member(local);
  executor_->begin_call(local, std::move(call));
  auto done = drive(*member);
  if (done)
    return executor_->end_call(local);
  const bool is_over = on_devices || member->why_ended();
  // First, or the others' calls, which end with this one, would be taken for what went wrong.
  auto told = executor_->call_failed(local, std::move(done.error()));
  if (on_devices) // the others may wait for this one in the group itself, which knows of nothing
    member->revoke(from(own_origin(), told));
  if (is_over)
    group_->broke(local, member);
  throw_failure(std::move(told));
}

const std::string& replica_engine::logical_device(std::uint32_t local,
                                                  std::uint32_t logical) const {
  const auto& all = options_.logical_devices;
  return all.empty() ? options_.devices.at(local) : all.at(local).at(logical);
}

device_id replica_engine::hardware(std::uint32_t local, std::uint32_t logical) const {
  return parse_device(options_.hardware.empty() ? options_.devices.at(local)
                                                : options_.hardware.at(local).at(logical))
    .value_or_throw();
}

std::vector<device_id> replica_engine::hardware_in_use() const {
  std::vector<device_id> out;
  for (std::uint32_t i = 0; i < local_count(); ++i)
    for (std::uint32_t k = 0; k < logical_count(); ++k)
      out.push_back(hardware(i, k));
  if (!options_.parameter_device.empty())
    out.push_back(parse_device(options_.parameter_device).value_or_throw());
  return out;
}

std::shared_ptr<device_context> replica_engine::device_of(std::uint32_t local,
                                                          std::uint32_t logical) {
  if (is_standard())
    throw_failure(errc::device_unavailable, "the default strategy has no device for its replica");
  (void)env();
  std::lock_guard lock{device_mutex_};
  const auto generation = executor_ ? executor_->generation(local) : 0;
  if (auto why = why_not_in_place(local)) // else `generation` was this thread's until here
    throw_failure(std::move(*why));
  auto& at = devices_.at(std::size_t{local} * logical_count() + logical);
  if (!at.context || at.generation != generation) {
    auto opened = services_->devices->open(hardware(local, logical)).value_or_throw();
    at.context =
      device_context::make(std::move(opened), "replica." + std::to_string(first_id() + local))
        .value_or_throw();
    at.generation = generation;
  }
  return at.context;
}

void replica_engine::interrupt(const failure& why) {
  for (std::uint32_t i = 0; options_.links && i < local_count(); ++i) {
    comms_->revoke(i, group_->epoch(i), why.text);
    group_->interrupt(i, from(own_origin(), why));
  }
}

origin replica_engine::own_origin() const {
  return options_.links ? origin{.task = {.job = job_kind::worker, .index = options_.worker}}
                        : origin{};
}

failure replica_engine::from(const origin& self, failure why) {
  if (!is_known(why.where))
    why.where = self;
  return why;
}

std::string replica_engine::status() const {
  return executor_ ? executor_->status() : std::string{};
}

// --- who may call what

void replica_engine::require_cross_replica(const char* what) const {
  auto* mode = innermost_mode();
  if (!mode)
    return;
  if (mode->strategy.get() != this) {
    if (mode->kind == context_kind::replica && mode->strategy->is_standard() && !is_standard())
      return; // a function that the default strategy runs is nobody's replica
    if (is_standard() && mode->kind != context_kind::replica)
      throw_failure(
        errc::wrong_state,
        std::string{what} + ": the default strategy inside a scope of " + mode->strategy->text());
    throw_failure(errc::wrong_state, std::string{what}
                                       + ": two strategies are mixed: " + mode->strategy->text()
                                       + " is active, the call is of " + text());
  }
  if (mode->kind == context_kind::replica && !is_standard())
    throw_failure(errc::wrong_state,
                  std::string{what} + ": called inside a replica of " + text()
                    + (std::string_view{what} == "gather" ? "; use the replica context's all_gather"
                                                          : "; use merge_call"));
}

void replica_engine::require_scope(const char* what) const {
  auto* mode = innermost_mode();
  if (!mode || mode->strategy.get() != this)
    throw_failure(errc::wrong_state,
                  std::string{what} + ": must be called inside the scope of " + text()
                    + (mode ? ", not of " + mode->strategy->text() : std::string{}));
}

const std::shared_ptr<replica_engine>& standard_state() {
  static const auto& one =
    *new std::shared_ptr<replica_engine>{std::make_shared<replica_engine>(sync_options{
      .kind = strategy_kind::standard, .name = "default strategy", .devices = {"cpu:0"}})};
  return one;
}

} // namespace troupe::detail
