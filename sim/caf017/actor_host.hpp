#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <troupe/core/time.hpp>
#include <troupe/sim/packet.hpp>

/// The actor system of one simulated process, without threads, clock or network of its own. The
/// only part of the simulator that knows CAF's insides.
namespace troupe::sim {

/// The world's functions for the actor system. Called on the world's thread.
class actor_host_owner {
public:
  virtual ~actor_host_owner() = default;
  virtual time_point local_now() const noexcept = 0;
  /// Told that `job` wants to run: give it to `run_job` once.
  virtual void job_ready(void* job) = 0;
  /// Told of something that must not happen: an unhandled exception, a message that cannot be
  /// serialised.
  virtual void complain(const std::string& what) = 0;
  /// A port to listen on, `wanted` or a free one for 0; 0 when it is taken.
  virtual std::uint16_t bind(std::uint16_t wanted) = 0;
  virtual void unbind(std::uint16_t port) = 0;
  /// Number of a machine by its name in addresses; false when there is none.
  virtual bool find_machine(const std::string& host, std::uint32_t& machine) = 0;
  /// The connection for packets to that process; 0 when there is none.
  virtual std::uint64_t route_to(const process_id& peer) = 0;
  virtual void send(packet&& p) = 0;
};

class actor_host {
public:
  actor_host(actor_host_owner& owner, process_id instance);
  /// @pre closed.
  ~actor_host();
  actor_host(const actor_host&) = delete;
  actor_host& operator=(const actor_host&) = delete;

  caf::actor_system& system();
  /// The actor that speaks the protocol of CAF's middleman.
  const caf::actor& network() const;

  /// Lets the actor behind `job` handle one message; its id.
  std::uint64_t run_job(void* job);
  /// Id of the actor behind `job`.
  std::uint64_t number_of(void* job) const;
  /// The time when the first timer is due, in local time; `never` without one.
  time_point next_timer() const;
  /// Fires the first timer, whatever the time.
  void fire_timer();
  /// Serialises what was sent since the last flush and gives it to the owner.
  void flush();
  bool has_outgoing() const;

  /// A packet of the control plane arrived inside a valid connection.
  void deliver(packet& p);
  /// The actor that is published at `port`; 0 when there is none.
  std::uint64_t published_at(std::uint16_t port);
  /// The answer to a dial; `actor` 0: refused.
  void dialed(std::uint64_t token, const process_id& peer, std::uint64_t actor);
  /// The connection to that process has ended.
  void lose_peer(const process_id& peer);

  /// Actors that have not ended.
  std::size_t actors_left() const;
  /// Cuts the process off: what actors still send is dropped.
  void cut();
  /// Takes back a job that never will run.
  void give_back(void* job);
  /// Ends every actor without telling it, then the system.
  void close();

private:
  struct node;
  std::unique_ptr<node> node_;
};

} // namespace troupe::sim
