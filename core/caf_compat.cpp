#include <troupe/core/caf_compat.hpp>

#include <random>

#include <troupe/core/caf_relay.hpp>

#include <caf/io/middleman.hpp>

// Explicit instantiation may name private members: the only door to `actor_system::node_`, which
// CAF sets from MACs and the pid and lets nobody else set.
namespace troupe::detail {

template <class Tag, auto Member>
struct open_member {
  friend auto steal(Tag) { return Member; }
};
struct node_tag {
  friend auto steal(node_tag);
};
template struct open_member<node_tag, &caf::actor_system::node_>;

/// Gives the system a random node id. Modules are initialised in the order of their ids, all before
/// any is started, so this one comes after the middleman, which sets the id that we replace.
class node_id_module final : public caf::actor_system::module {
public:
  explicit node_id_module(caf::actor_system& system) : system_{system} {}
  void start() override {}
  void stop() override {}
  void init(caf::actor_system_config&) override {
    std::random_device bits;
    caf::node_id::default_data::host_id_type host{};
    for (auto& byte : host)
      byte = static_cast<std::uint8_t>(bits());
    system_.*steal(node_tag{}) = caf::make_node_id(static_cast<std::uint32_t>(bits()), host);
  }
  id_t id() const override {
    return caf::actor_system::module::opencl_manager;
  } // CAF's list is closed: an unused one
  void* subtype_ptr() override { return this; }
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new node_id_module{system};
  }

private:
  caf::actor_system& system_;
};

} // namespace troupe::detail

namespace troupe {

void configure_system(caf::actor_system_config& config, message_registrar messages) {
  messages(config);
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", std::size_t{2});
  config.load<detail::node_id_module>();
}

bool is_ours(const caf::actor_system& system) { return system.has_opencl_manager(); }

void load_network(caf::actor_system_config& config) {
  config.load<caf::io::middleman>();
  config.set("middleman.workers", std::size_t{0});
}

caf::actor network_of(caf::actor_system& system) {
  if (!system.has_middleman())
    return {};
  return caf::actor_cast<caf::actor>(system.middleman().actor_handle());
}

} // namespace troupe
