#pragma once

#include <memory>
#include <string>

#include <troupe/actors/coordinator/coordinator.hpp>
#include <troupe/strategies/runtime/detail/actor_ends.hpp>
#include <troupe/strategies/runtime/detail/process_devices.hpp>
#include <troupe/strategies/runtime/detail/process_host.hpp>
#include <troupe/strategies/runtime/detail/runtime_services.hpp>

namespace troupe {
class coordinator_client;
}

namespace troupe::detail {

/// What a role is made of. All of it outlives the role.
struct process_context {
  const runtime_options& options;
  const process_host& host;
  actor_ends& ends; ///< follows every actor that the role starts
};

/// What a process is in its cluster: it starts the role's actors and threads, and ends them. There
/// are five: the whole cluster in one process, its coordinator (chief), a worker, a parameter
/// server, and one of peer workers. Used on the program's thread, in the order `needs`, `start`,
/// perhaps `serve`, `end`, `close`, `release`; the last three also after a start that failed
/// halfway.
class process_role {
public:
  virtual ~process_role() = default;

  virtual step_needs needs() const = 0;
  /// Starts everything and waits until the role can do its work. Throws what hinders it.
  virtual void start(process_devices& devices, runtime_services& services) = 0;
  /// True where the program runs; else the process serves.
  virtual bool runs_program() const { return true; }
  /// Waits until this member has ended; the failure says why when its cluster did not end as its
  /// program meant. Throws `wrong_state` where the program runs.
  virtual result<bool> serve();

  /// Ends the cluster that this role coordinates, or leaves the one it is a member of, and waits
  /// for it and for the threads of steps. False when a thread was abandoned at `deadline`.
  virtual bool end(time_point deadline, const cluster_end& how) = 0;
  /// Closes the process's connections, after all that used them.
  virtual void close() {}
  /// Lets go of the actors that only their handles keep alive.
  virtual void release() {}

  /// Whether members outlive this coordinator when it steps down.
  virtual bool members_can_stay() const { return false; }
  /// The program's way to the cluster; null where there is none.
  virtual std::shared_ptr<coordinator_client> owner() const { return nullptr; }
  /// The coordinator's "host:port"; empty elsewhere and within one process.
  virtual const std::string& address() const;
};

} // namespace troupe::detail
