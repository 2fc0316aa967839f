#include <troupe/sim/caf017/node.hpp>

#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

namespace troupe::sim::caf017 {

void sim_proxy::enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) {
  if (!out_)
    return;
  outgoing o;
  o.p.to_instance = peer_;
  o.p.to = id();
  o.p.message_id = what->mid.integer_value();
  o.sender = std::move(what->sender);
  o.stages = std::move(what->stages);
  o.content = what->move_content_to_message();
  if (o.content.match_elements<caf::exit_msg>())
    unlink_from(o.content.get_as<caf::exit_msg>(0).source);
  out_->push_back(std::move(o));
}

void sim_proxy::record(packet::kind_t kind, caf::abstract_actor* other) {
  if (!out_)
    return;
  outgoing o;
  o.p.kind = kind;
  o.p.to_instance = peer_;
  o.p.to = id();
  o.sender = other->ctrl();
  out_->push_back(std::move(o));
}

bool sim_proxy::add_backlink(caf::abstract_actor* other) {
  if (!monitorable_actor::add_backlink(other))
    return false;
  record(packet::link, other);
  return true;
}

bool sim_proxy::remove_backlink(caf::abstract_actor* other) {
  if (!monitorable_actor::remove_backlink(other))
    return false;
  record(packet::unlink, other);
  return true;
}

void sim_proxy::kill_proxy(caf::execution_unit* ctx, caf::error reason) {
  out_ = nullptr;
  cleanup(std::move(reason), ctx);
}

// --- the middleman
// ------------------------------------------------------------------------------------------------

caf::behavior sim_middleman::make_behavior() {
  set_default_handler(caf::drop);
  set_error_handler([](caf::scheduled_actor*, caf::error&) {});
  return {
    [this](caf::publish_atom, std::uint16_t port, const caf::strong_actor_ptr& whom,
           const std::set<std::string>&, const std::string&, bool) { return publish(port, whom); },
    [this](caf::unpublish_atom, const caf::actor_addr&, std::uint16_t port) {
      if (published_.erase(port) > 0)
        owner_.unbind(port);
    },
    [this](caf::connect_atom, const std::string& host, std::uint16_t port) {
      return connect(host, port);
    },
    [this](caf::put_atom, std::uint64_t token, const caf::strong_actor_ptr& found,
           const caf::node_id& peer) {
      auto at = asked_.find(token);
      if (at == asked_.end())
        return;
      if (found)
        at->second.deliver(peer, found, std::set<std::string>{});
      else
        at->second.deliver(caf::make_error(caf::sec::cannot_connect_to_node));
      asked_.erase(at);
    },
  };
}

caf::result<std::uint16_t> sim_middleman::publish(std::uint16_t port,
                                                  const caf::strong_actor_ptr& whom) {
  auto bound = owner_.bind(port);
  if (bound == 0)
    return caf::make_error(caf::sec::cannot_open_port);
  published_[bound] = whom;
  return bound;
}

auto sim_middleman::connect(const std::string& host, std::uint16_t port) -> answer {
  std::uint32_t machine = 0;
  if (!owner_.find_machine(host, machine))
    return caf::make_error(caf::sec::cannot_connect_to_node);
  auto promise =
    make_response_promise<caf::node_id, caf::strong_actor_ptr, std::set<std::string>>();
  asked_.emplace(++tokens_, promise);
  packet p;
  p.kind = packet::dial;
  p.to_instance = {.machine = machine};
  p.port = port;
  p.token = tokens_;
  owner_.send(std::move(p));
  return promise;
}

caf::strong_actor_ptr sim_middleman::published_at(std::uint16_t port) const {
  auto at = published_.find(port);
  return at == published_.end() ? nullptr : at->second;
}

} // namespace troupe::sim::caf017
