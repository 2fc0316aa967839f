#include <troupe/sim/caf017/node.hpp>

#include <caf/detail/sync_request_bouncer.hpp>
#include <caf/exit_reason.hpp>
#include <caf/monitorable_actor.hpp>

// Explicit instantiation may name private members: the only door to `actor_system::node_`.
namespace troupe::sim::caf017 {

namespace {

template <class Tag, auto Member>
struct open_member {
  friend auto steal(Tag) { return Member; }
};
struct node_tag {
  friend auto steal(node_tag);
};
template struct open_member<node_tag, &caf::actor_system::node_>;

const sim_config& config_of(caf::actor_system& system) {
  return static_cast<const sim_config&>(system.config());
}

/// Takes what actors print: nothing in this tree prints, so it is an unhandled exception or
/// message.
class sim_printer final : public caf::monitorable_actor {
public:
  sim_printer(caf::actor_config& config, actor_host_owner& owner)
    : monitorable_actor{config}, owner_{owner} {}
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    if (what->content().match_elements<caf::add_atom, caf::actor_id, std::string>())
      owner_.complain("printed: " + what->content().get_as<std::string>(2));
  }

private:
  actor_host_owner& owner_;
};

} // namespace

void set_node_id(caf::actor_system& system, const caf::node_id& id) {
  system.*steal(node_tag{}) = id;
}

caf::node_id node_id_of(const process_id& instance) {
  caf::node_id::default_data::host_id_type host{};
  host[0] = 1;
  host[18] = static_cast<std::uint8_t>(instance.machine >> 8);
  host[19] = static_cast<std::uint8_t>(instance.machine);
  return caf::make_node_id(instance.number, host);
}

process_id instance_of(const caf::node_id& id) {
  const auto& data = static_cast<const caf::node_id::default_data&>(*id);
  const auto& host = data.host_id();
  return {.machine = static_cast<std::uint32_t>(host[18]) << 8 | host[19],
          .number = data.process_id()};
}

void sim_clock::fire_one() {
  auto at = schedule_.begin();
  auto what = std::move(at->second);
  schedule_.erase(at);
  if (what->backlink != actor_lookup_.end())
    actor_lookup_.erase(what->backlink);
  ship(*what);
}

sim_scheduler::sim_scheduler(caf::actor_system& system)
  : abstract_coordinator{system},
    owner_{*config_of(system).owner},
    instance_{config_of(system).instance},
    unit_{*this},
    clock_{owner_} {}

void sim_scheduler::init(caf::actor_system_config& config) {
  abstract_coordinator::init(config);
  set_node_id(system(), node_id_of(instance_)); // before anything is spawned
}

void sim_scheduler::start() {
  caf::actor_config config{&unit_};
  utility_actors_[printer_id] = caf::make_actor<sim_printer, caf::actor>(
    system().next_actor_id(), system().node(), &system(), config, owner_);
}

void sim_scheduler::stop() {
  kill_all();
  for (auto& actor : utility_actors_)
    actor = nullptr;
}

void sim_scheduler::remember(caf::scheduled_actor& actor) {
  if (&actor.home_system() != &system())
    owner_.complain(std::string{"a raw handle crossed processes: "} + actor.name());
  auto id = actor.id();
  if (id >= live_.size())
    live_.resize(id + 64);
  if (live_[id])
    return;
  live_[id] = &actor;
  actor.attach_functor([this, id](const caf::error&) { live_[id] = nullptr; });
}

void sim_scheduler::enqueue(caf::resumable* job) {
  if (job->subtype() == caf::resumable::scheduled_actor)
    remember(*static_cast<caf::scheduled_actor*>(job));
  if (closed_)
    kept_.push_back(job);
  else
    owner_.job_ready(job);
}

caf::actor_id sim_scheduler::number_of(caf::resumable* job) {
  return job->subtype() == caf::resumable::scheduled_actor
           ? static_cast<caf::scheduled_actor*>(job)->id()
           : 0;
}

caf::actor_id sim_scheduler::run(caf::resumable* job) {
  auto id = number_of(job);
  switch (job->resume(&unit_, 1)) {
    case caf::resumable::resume_later: enqueue(job); break; // fair: behind the others
    case caf::resumable::shutdown_execution_unit: break;
    default: caf::intrusive_ptr_release(job);
  }
  return id;
}

void sim_scheduler::kill_all() {
  for (std::size_t i = 0; i < live_.size(); ++i) // ending one may add others
    if (auto* actor = live_[i]) {
      caf::strong_actor_ptr keep{actor->ctrl()};
      actor->on_exit();
      actor->cleanup(caf::make_error(caf::exit_reason::kill), nullptr);
    }
  while (!kept_.empty()) {
    auto* job = kept_.back();
    kept_.pop_back();
    caf::intrusive_ptr_release(job);
  }
  clock_.cancel_all();
}

} // namespace troupe::sim::caf017
