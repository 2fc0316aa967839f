#include <troupe/sim/caf017/actor_host.hpp>

#include <caf/actor_cast.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/detail/sync_request_bouncer.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scoped_execution_unit.hpp>
#include <caf/send.hpp>

#include <troupe/core/caf_compat.hpp>
#include <troupe/messages/registration.hpp>
#include <troupe/sim/caf017/node.hpp>

namespace troupe::sim {

using namespace caf017;

struct actor_host::node final : caf::proxy_registry::backend {
  node(actor_host_owner& o, process_id l);
  void close();
  caf::strong_actor_ptr make_proxy(caf::node_id peer, caf::actor_id actor) override;
  void set_last_hop(caf::node_id*) override {}
  void send(outgoing& o);
  void bounce(const caf::strong_actor_ptr& to, caf::message_id mid) const;
  void take_message(packet& p);
  void take_link(packet& p);
  void watch(const process_id& peer, caf::actor_id actor);

  actor_host_owner& owner;
  const process_id instance;
  sim_config config{};
  std::optional<caf::actor_system> system{};
  sim_scheduler* scheduler = nullptr;
  std::optional<caf::proxy_registry> proxies{};
  outbox out{};
  caf::actor network{};
  sim_middleman* middleman = nullptr;
  bool is_cut = false;
};

namespace {

/// Handles inside messages become proxies with this.
class proxy_context {
public:
  proxy_context(caf::actor_system& system, caf::proxy_registry& proxies) : unit_{&system} {
    unit_.proxy_registry_ptr(&proxies);
  }
  caf::execution_unit* get() { return &unit_; }

private:
  caf::scoped_execution_unit unit_;
};

} // namespace

actor_host::node::node(actor_host_owner& o, process_id l) : owner{o}, instance{l} {
  config.owner = &owner;
  config.instance = instance;
  config.load<sim_scheduler>();
  init_messages(config);
  system.emplace(config);
  system->await_actors_before_shutdown(false);
  scheduler = &static_cast<sim_scheduler&>(system->scheduler());
  proxies.emplace(*system, *this);
  scheduler->unit().proxy_registry_ptr(&*proxies);
  network =
    system->spawn<sim_middleman, caf::hidden>(owner, instance); // hidden: never an actor left
  middleman = static_cast<sim_middleman*>(caf::actor_cast<caf::abstract_actor*>(network));
}

// Called under the registry's lock.
caf::strong_actor_ptr actor_host::node::make_proxy(caf::node_id peer, caf::actor_id actor) {
  if (!peer || actor == caf::invalid_actor_id) // no handle, as of an anonymous sender
    return nullptr;
  caf::actor_config config_of_proxy;
  auto peer_instance = instance_of(peer);
  auto made = caf::make_actor<sim_proxy, caf::strong_actor_ptr>(
    actor, peer, &*system, config_of_proxy, &out, peer_instance);
  outgoing o;
  o.p.kind = packet::monitor;
  o.p.to_instance = peer_instance;
  o.p.to = actor;
  out.push_back(std::move(o));
  return made;
}

void actor_host::node::bounce(const caf::strong_actor_ptr& to, caf::message_id mid) const {
  if (mid.is_request())
    caf::detail::sync_request_bouncer{caf::exit_reason::remote_link_unreachable}(to, mid);
}

void actor_host::node::send(outgoing& o) {
  auto& p = o.p;
  p.from = instance;
  p.epoch = owner.route_to(p.to_instance);
  if (p.epoch == 0) { // as BASP does: requests come back, the rest is lost
    if (p.kind == packet::message)
      bounce(o.sender, caf::make_message_id(p.message_id));
    return;
  }
  if (p.kind == packet::message || p.kind == packet::link || p.kind == packet::unlink) {
    proxy_context context{*system, *proxies};
    caf::binary_serializer sink{context.get(), p.bytes};
    // `sink(message)` loses the message's own error in 0.17: a truncated packet would leave.
    auto failed = sink(o.sender, o.stages);
    if (!failed)
      failed = o.content.save(sink);
    if (failed)
      return owner.complain("cannot serialise " + caf::to_string(o.content));
  }
  owner.send(std::move(p));
}

void actor_host::node::take_message(packet& p) {
  caf::strong_actor_ptr from;
  std::vector<caf::strong_actor_ptr> stages;
  caf::message content;
  auto mid = caf::make_message_id(p.message_id);
  auto to = system->registry().get(p.to);
  proxy_context context{*system, *proxies};
  caf::binary_deserializer source{context.get(), p.bytes};
  auto failed = source(from, stages);
  if (!failed)
    failed = content.load(source);
  if (failed)
    return owner.complain("cannot deserialise a message for actor " + std::to_string(p.to));
  if (!to)
    return bounce(from, mid);
  to->enqueue( // no execution unit: the message comes from outside
    caf::make_mailbox_element(std::move(from), mid, std::move(stages), std::move(content)),
    nullptr);
}

void actor_host::node::take_link(packet& p) {
  caf::strong_actor_ptr from;
  std::vector<caf::strong_actor_ptr> stages;
  auto to = system->registry().get(p.to);
  proxy_context context{*system, *proxies};
  caf::binary_deserializer source{context.get(), p.bytes};
  if (source(from, stages) || !from || !to)
    return;
  auto* proxy = static_cast<caf::actor_proxy*>(from->get());
  if (p.kind == packet::link)
    proxy->add_link(to->get());
  else
    proxy->remove_link(to->get());
}

/// Tells `peer` when the actor ends; at once if it isn't there any more.
void actor_host::node::watch(const process_id& peer, caf::actor_id actor) {
  auto tell = [this, peer, actor](const caf::error& why) {
    if (is_cut)
      return;
    outgoing o;
    o.p.kind = packet::down;
    o.p.to_instance = peer;
    o.p.to = actor;
    caf::binary_serializer sink{*system, o.p.bytes};
    auto copy = why;
    if (!sink(copy))
      out.push_back(std::move(o));
  };
  if (auto found = system->registry().get(actor))
    found->get()->attach_functor(tell);
  else
    tell(caf::exit_reason::unknown);
}

// The order matters: proxies while the system exists, actors before and after them.
void actor_host::node::close() {
  is_cut = true;
  scheduler->close();
  out.clear();
  middleman = nullptr;
  network = nullptr;
  scheduler->kill_all();
  proxies->clear();
  scheduler->kill_all(); // what the proxies' end sent
  out.clear();
  scheduler->unit().proxy_registry_ptr(nullptr);
  proxies.reset();
  system.reset();
}

actor_host::actor_host(actor_host_owner& owner, process_id instance)
  : node_{std::make_unique<node>(owner, instance)} {}

actor_host::~actor_host() = default;

caf::actor_system& actor_host::system() { return *node_->system; }

const caf::actor& actor_host::network() const { return node_->network; }

std::uint64_t actor_host::run_job(void* job) {
  return node_->scheduler->run(static_cast<caf::resumable*>(job));
}

std::uint64_t actor_host::number_of(void* job) const {
  return node_->scheduler->number_of(static_cast<caf::resumable*>(job));
}

time_point actor_host::next_timer() const {
  auto& clock = node_->scheduler->clock();
  return clock.is_empty() ? never : clock.due();
}

void actor_host::fire_timer() { node_->scheduler->clock().fire_one(); }

bool actor_host::has_outgoing() const { return !node_->out.empty(); }

void actor_host::flush() {
  auto& out = node_->out;
  if (node_->is_cut)
    out.clear();
  for (std::size_t i = 0; i < out.size(); ++i) { // serialising a new handle may add packets
    auto o = std::move(out[i]);
    node_->send(o);
  }
  out.clear();
}

void actor_host::deliver(packet& p) {
  switch (p.kind) {
    case packet::message: return node_->take_message(p);
    case packet::link:
    case packet::unlink: return node_->take_link(p);
    case packet::monitor: return node_->watch(p.from, p.to);
    case packet::down: {
      caf::error why;
      caf::binary_deserializer source{*node_->system, p.bytes};
      if (!source(why))
        node_->proxies->erase(node_id_of(p.from), p.to, why);
      return;
    }
    default: return;
  }
}

std::uint64_t actor_host::published_at(std::uint16_t port) {
  if (!node_->middleman)
    return 0;
  auto found = node_->middleman->published_at(port);
  if (!found)
    return 0;
  node_->system->registry().put(found->id(), found);
  return found->id();
}

void actor_host::dialed(std::uint64_t token, const process_id& peer, std::uint64_t actor) {
  caf::strong_actor_ptr found;
  auto id = node_id_of(peer);
  if (actor != 0)
    found = node_->proxies->get_or_put(id, actor);
  caf::anon_send(node_->network, caf::put_atom_v, token, std::move(found), std::move(id));
}

void actor_host::lose_peer(const process_id& peer) { node_->proxies->erase(node_id_of(peer)); }

std::size_t actor_host::actors_left() const { return node_->system->registry().running(); }

void actor_host::cut() {
  node_->is_cut = true;
  node_->out.clear();
}

void actor_host::give_back(void* job) { node_->scheduler->keep(static_cast<caf::resumable*>(job)); }

void actor_host::close() { node_->close(); }

} // namespace troupe::sim
