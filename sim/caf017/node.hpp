#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <caf/actor_proxy.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/detail/simple_actor_clock.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/execution_unit.hpp>
#include <caf/proxy_registry.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <troupe/sim/caf017/actor_host.hpp>

/// The classes behind `actor_host`: CAF 0.17's scheduler module, clock, proxies and middleman.
/// Names don't repeat CAF's own, which member functions of its classes would find first.
namespace troupe::sim::caf017 {

struct sim_config final : caf::actor_system_config {
  actor_host_owner* owner = nullptr; ///< modules are made inside the system's constructor and see
                                     ///< only the configuration
  process_id instance{};
};

/// The time of one process.
class sim_clock final : public caf::detail::simple_actor_clock {
public:
  explicit sim_clock(actor_host_owner& owner) : owner_{owner} {}
  time_point now() const noexcept override {
    return time_point{duration_type{owner_.local_now().time_since_epoch().count()}};
  }
  bool is_empty() const { return schedule_.empty(); }
  troupe::time_point due() const {
    return troupe::time_point{schedule_.begin()->first.time_since_epoch()};
  }
  /// Fires the first timer without moving the time, as CAF's own test clock does.
  void fire_one();

private:
  actor_host_owner& owner_;
};

/// The scheduler module: hands jobs to the world, which decides what runs when. Remembers all
/// actors, since CAF keeps no list of them.
class sim_scheduler final : public caf::scheduler::abstract_coordinator {
public:
  explicit sim_scheduler(caf::actor_system& system);
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new sim_scheduler{system};
  }
  void init(caf::actor_system_config& config) override;
  /// Replaces the printer, which would be a thread: what is printed is a complaint.
  void start() override;
  void stop() override;
  bool detaches_utility_actors() const override { return false; }
  sim_clock& clock() noexcept override { return clock_; }
  void enqueue(caf::resumable* job) override;

  caf::actor_id run(caf::resumable* job);
  static caf::actor_id number_of(caf::resumable* job);
  /// Jobs are kept and never run from now on.
  void close() { closed_ = true; }
  void keep(caf::resumable* job) { kept_.push_back(job); }
  /// Ends all actors: `on_exit` first, which `cleanup` alone would not call, and releases kept
  /// jobs.
  void kill_all();
  caf::execution_unit& unit() { return unit_; }

private:
  class sim_unit final : public caf::execution_unit {
  public:
    explicit sim_unit(sim_scheduler& s) : execution_unit{&s.system()}, scheduler_{s} {}
    void exec_later(caf::resumable* job) override { scheduler_.enqueue(job); }

  private:
    sim_scheduler& scheduler_;
  };

  void remember(caf::scheduled_actor& actor);

  actor_host_owner& owner_;
  const process_id instance_;
  sim_unit unit_;
  sim_clock clock_;
  std::vector<caf::scheduled_actor*> live_{}; ///< by actor id
  std::vector<caf::resumable*> kept_{};
  bool closed_ = false;
};

/// A packet before it is serialised.
struct outgoing {
  packet p{};
  caf::strong_actor_ptr sender{};
  std::vector<caf::strong_actor_ptr> stages{};
  caf::message content{};
};
using outbox = std::vector<outgoing>;

/// A proxy for an actor of another process. Only records what it is sent: `add_backlink` runs with
/// two actors' locks held, under which nothing can be serialised.
class sim_proxy final : public caf::actor_proxy {
public:
  sim_proxy(caf::actor_config& config, outbox* out, process_id peer)
    : actor_proxy{config}, out_{out}, peer_{peer} {}
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override;
  bool add_backlink(caf::abstract_actor* other) override;
  bool remove_backlink(caf::abstract_actor* other) override;
  void kill_proxy(caf::execution_unit* ctx, caf::error reason) override;

private:
  void record(packet::kind_t kind, caf::abstract_actor* other);
  outbox* out_; ///< null: killed, drops in silence
  process_id peer_;
};

/// Speaks the protocol of `caf::io::middleman_actor`: publish, unpublish, connect.
class sim_middleman final : public caf::event_based_actor {
public:
  sim_middleman(caf::actor_config& config, actor_host_owner& owner, process_id instance)
    : event_based_actor{config}, owner_{owner}, instance_{instance} {}
  const char* name() const override { return "sim-middleman"; }
  caf::behavior make_behavior() override;
  void on_exit() override {
    asked_.clear();
    published_.clear();
  }
  caf::strong_actor_ptr published_at(std::uint16_t port) const;

private:
  using answer = caf::result<caf::node_id, caf::strong_actor_ptr, std::set<std::string>>;
  caf::result<std::uint16_t> publish(std::uint16_t port, const caf::strong_actor_ptr& whom);
  answer connect(const std::string& host, std::uint16_t port);

  actor_host_owner& owner_;
  const process_id instance_;
  std::uint64_t tokens_ = 0;
  std::map<std::uint64_t, caf::response_promise> asked_{};
  std::map<std::uint16_t, caf::strong_actor_ptr> published_{};
};

/// Deterministic: no pid, no hardware address.
caf::node_id node_id_of(const process_id& instance);
process_id instance_of(const caf::node_id& id);

/// Lets the world set the id of a system, which only the middleman may.
void set_node_id(caf::actor_system& system, const caf::node_id& id);

} // namespace troupe::sim::caf017
