#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <troupe/core/environment.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/core/limits.hpp>
#include <troupe/device/context.hpp>
#include <troupe/strategies/runtime/fwd.hpp>

namespace troupe {

class cluster_resolver;

namespace detail {
struct runtime_services;
}

/// The user's names for the addresses of a runtime, for errors.
struct address_names {
  std::string coordinator = "coordinator_address"; ///< "TF_CONFIG chief[0]", "--troupe-coordinator"
  std::string listen = "listen_address";
  std::string data_listen = "data_listen_address";
};

/// How a runtime is made. Addresses are "host:port"; `duration` counts nanoseconds, names that end
/// in `_ms` or `_ms_max` milliseconds.
struct runtime_options {
  // within one process
  std::uint32_t workers = 2;
  std::uint32_t servers = 2;
  /// Indices of the server tasks, ascending; empty: 0 to servers - 1.
  std::vector<std::uint32_t> server_tasks{};
  /// Indices of the worker tasks, ascending; empty: 0 to workers - 1.
  std::vector<std::uint32_t> worker_tasks{};
  /// Compute lanes of a worker: closures that it runs at once.
  std::uint32_t lanes_per_worker = 1;

  /// Devices that steps run on, "cpu:0" or "gpu:1"; the lanes of all workers here take turns over
  /// them. Empty: cpu:0, cpu:1, ... for the lanes, opened when a step first asks. Named ones are
  /// opened at start: `device_unavailable` says what there is. Flag: `--troupe-device`, once each.
  std::vector<std::string> devices{};
  /// CPU devices of this process; 0: one for each lane.
  std::uint32_t cpu_devices = 0;
  /// Work on a device that is not done after this long counts as hung: the device is given up, and
  /// its worker with it.
  duration device_hang_after{limits::device_hang};

  // over processes
  /// The task that this process is; none: the whole cluster is in this process.
  std::optional<task_id> task{};
  /// The coordinator's "host:port". For the coordinator itself: where it listens, port 0 for the
  /// system's choice.
  std::string coordinator_address = "127.0.0.1:0";
  /// Addresses at which a worker or server listens for control messages, and a server or the
  /// coordinator for data.
  std::string listen_address = "127.0.0.1:0";
  std::string data_listen_address = "127.0.0.1:0";
  address_names names{};
  /// Tensors between processes of one host go through shared memory; off: over TCP as between
  /// hosts. Where memory can't be shared they go over TCP anyway, and the trace says why.
  bool shared_memory = true;
  std::string cluster_name = "troupe";
  /// Secret shared by all processes of a cluster. Needed to listen anywhere but on this machine.
  std::string token{};
  /// Addresses of the tasks as the description of the cluster has them, for messages that name
  /// them.
  std::map<task_id, std::string> task_addresses{};

  // processes of equals, which all run the same program
  /// "host:port" of every worker, in order of their ids; empty: this is none of them. Such a
  /// runtime has devices and no parameter-server cluster: for synchronous strategies.
  std::vector<std::string> peers{};
  std::uint32_t peer = 0; ///< place of this process among them
  /// The peers' tasks, "chief", "worker:0", for errors; empty: "worker:" and the place.
  std::vector<std::string> peer_tasks{};
  /// The source of the list of peers, for errors: "TF_CONFIG", "--cluster FILE"; empty: the program
  /// gave it.
  std::string described_by{};
  /// The resolver that described the peers; null: the program gave them.
  std::shared_ptr<const cluster_resolver> resolver{};

  // limits; the defaults stand in core/limits.hpp, docs/limits.md explains them
  /// Start waits for all servers and this many workers. Every five seconds a notice names the
  /// missing ones by task and address; so does the error. Flags: `--troupe-start-workers`,
  /// `--troupe-start-timeout SECONDS`.
  std::uint32_t start_workers = 1;
  duration start_timeout{limits::start};
  /// A server or the coordinator that owes an answer and shows no progress for this long (no byte
  /// taken or sent, no row made) counts as not answering. A request that progresses may take
  /// longer. At least 1 ms.
  duration request_timeout{limits::request};
  /// Closures that may wait in the queue; `schedule` waits at this bound.
  std::size_t queue_len_max = 1024;
  /// Workers that may die while they run a closure before it fails as `poisoned`; 0: any number.
  std::uint32_t max_strikes = 5;
  /// How long a step may go on after its closure was cancelled, before it is given up.
  std::uint64_t cancel_grace_ms = static_cast<std::uint64_t>(to_ms(limits::cancel_grace));
  /// A save waits for running closures, and fails once one of them has shown no progress (no call
  /// of Troupe from its step) for this long.
  std::uint64_t quiesce_ms_max = static_cast<std::uint64_t>(to_ms(limits::quiesce));
  /// Calls that wait raise `unavailable` after this long without any live worker.
  std::uint64_t no_worker_ms_max = static_cast<std::uint64_t>(to_ms(limits::no_worker));
  /// Workers and servers end, with code 69, after this long without a sign of life of a
  /// coordinator. Flag: `--troupe-coordinator-lost SECONDS`.
  std::uint64_t coordinator_lost_ms_max =
    static_cast<std::uint64_t>(to_ms(limits::coordinator_lost));
  std::uint64_t suspect_ms_min = 1'000; ///< silence that is never suspicion
  /// Servers apply an operation of a closure once, however often it is sent. Off: one that is sent
  /// again is applied again.
  bool effect_once = true;

  /// Takes trace events and marks; outlives the runtime.
  tracer* trace = nullptr;
  /// Called once the coordinator listens, with its "host:port", before start waits for the others:
  /// a launcher starts them from here. On the constructing thread.
  std::function<void(const std::string& address)> on_listening{};
  /// Called for every member that comes and goes, for launchers and status pages. On an actor's
  /// thread: must not wait.
  std::function<void(const task_id& task, std::uint32_t incarnation, bool joined)> on_member{};
  /// Takes a line about a problem that may lead to an error or to the end of this process: a step
  /// that ends its workers, or one that hangs past its deadline. Null: the line goes to stderr, and
  /// nowhere for a host that brings its own environment. On an actor's thread: must not wait.
  std::function<void(const std::string& line)> on_notice{};
  /// SIGINT and SIGTERM end `serve` cleanly. Off in a host application.
  bool handle_signals = false;
};

/// Makes a host's configuration fit for Troupe, before its actor system is built: message types and
/// scheduler settings, with `network` also CAF's network layer and a random node id. Without it a
/// host's system works within one process only; over processes `runtime` refuses a system without
/// the network layer, but cannot see whether the message types are registered.
void configure(caf::actor_system_config& config, bool network = false);

/// Ports and network that a host brings: a simulator, or a program with a network of its own. All
/// of it outlives the runtime.
struct runtime_host {
  /// Made from a configuration that went through `configure`.
  caf::actor_system& system;
  /// Ports of the host. The tracer of this environment is used, `runtime_options::trace` is not.
  const environment& env;
  /// An actor that speaks the protocol of CAF's middleman (publish, connect). Used only over
  /// processes.
  caf::actor network;
};

/// One process of a cluster, or a whole cluster in one process. Owns the actors and threads that it
/// starts; `shutdown` or the destructor ends them. Made and used on the program's threads, never
/// inside an actor or a step.
///
/// Every constructor throws `bad_config` for an option that cannot be used (it names the field and
/// the value), `deadline` when the servers or `start_workers` workers are missing after
/// `start_timeout` (it names them), and `device_unavailable` when a device of
/// `runtime_options::devices` is not there. A process of a cluster also throws `address_in_use`
/// when it cannot listen.
class runtime {
public:
  /// A cluster in this process: two workers, two servers.
  runtime();
  /// A runtime with its own actor system.
  explicit runtime(runtime_options options);
  /// A runtime on the host's actor system, which outlives the runtime.
  runtime(runtime_options options, caf::actor_system& host);
  /// A runtime on the host's system, ports and network. Addresses are what that network
  /// understands: the rule that reaching other machines takes a token is the host's to keep.
  runtime(runtime_options options, const runtime_host& host);
  /// Moved-from runtimes can only be destroyed or assigned to.
  runtime(runtime&&) noexcept;
  runtime& operator=(runtime&&) noexcept;
  /// Ends the cluster: see `shutdown`.
  ~runtime();

  /// Reads `--cluster FILE`, flags that begin with `--troupe-`, and TF_CONFIG; leaves every other
  /// flag to the program. Embedded when none of them names a cluster. Half a description, of which
  /// a task or the addresses are missing, is refused. Throws `bad_config` naming the flag or field
  /// and the value. `--troupe-help` prints `flags_help()` and ends the program with 0.
  static runtime from_args(int argc, char** argv);
  /// The options that `from_args` makes a runtime of. Throws as `from_args`.
  static runtime_options options_from_args(int argc, char** argv);
  /// A runtime for programs of synchronous strategies, which run in every process: `--cluster FILE`
  /// with `--task worker:1` (or `--troupe-task`), or TF_CONFIG, with the jobs chief, worker and
  /// evaluator. Id 0 is the chief, or worker 0 without one. Without a cluster this process is the
  /// only worker. An evaluator is no member of the training group: it is the only worker of its
  /// runtime. Throws `bad_config`, `invalid_argument`.
  static runtime synchronous_from_args(int argc, char** argv);
  /// The options that `synchronous_from_args` makes a runtime of. Throws as
  /// `synchronous_from_args`.
  static runtime_options synchronous_options_from_args(int argc, char** argv);
  /// Every `--troupe-` flag, a line each, for a program's own help.
  static std::string flags_help();
  /// `options` with the peers that a resolver describes. Throws `invalid_argument` when the
  /// resolver does not know this process's type or id, or when they are not in the cluster, and as
  /// `validate_addresses`.
  static runtime_options synchronous_options(std::shared_ptr<const cluster_resolver> resolver,
                                             runtime_options options);

  /// True where the program runs: embedded, or as `chief`.
  bool is_coordinator() const;
  /// Runs a worker or server until the cluster ends. Returns the process's exit code
  /// (core/exit_code.hpp): 0 only when the cluster ended as its program meant. Says why on stderr
  /// when it is not 0, and not to a host that brings its own environment. Throws `wrong_state` in
  /// the coordinator's process.
  int serve();
  /// Ends the whole cluster: every process ends with code 0. Idempotent. Steps that still run are
  /// cancelled and, past `timeout`, abandoned.
  ///
  /// The destructor does the same, unless an exception that leaves the program destroys the
  /// runtime, or a server that held variables was lost: then the other processes end with code 69
  /// and say so.
  void shutdown(duration timeout = std::chrono::seconds{10});
  /// Ends the whole cluster because of `why`: every other process says it and ends with the exit
  /// code of `why`. `why` without a code stands for `unavailable`. Idempotent.
  void fail(const failure& why, duration timeout = std::chrono::seconds{10});
  /// Ends this coordinator alone. Workers and servers drop what they hold for it and wait for
  /// another one at the same address, `coordinator_lost_ms_max` at most: a new `runtime`, here or
  /// elsewhere, makes the cluster anew with the same processes, and its program continues from a
  /// checkpoint. For a program that lost a server. Within one process the same as `shutdown`.
  void step_down(duration timeout = std::chrono::seconds{10});

  /// The devices of this process: cpu:0 to n - 1, then gpu:0 and on.
  std::vector<device_info> devices() const;
  /// A device for the program's own use, on the calling thread; `name`: "gpu:0". Throws
  /// `invalid_argument` for a text that names no device, `device_unavailable` naming the devices of
  /// this process.
  std::shared_ptr<device_context> device(const std::string& name) const;

  /// The coordinator's "host:port", in the coordinator's process; empty within one process.
  const std::string& address() const;
  /// The options that the runtime was made with.
  const runtime_options& options() const;
  /// The ports of this process: clock, random numbers, files, threads. They live as long as the
  /// runtime.
  const environment& env() const;
  /// The coordinator's process and the services of the runtime, for the strategies.
  std::shared_ptr<cluster> owner() const;
  const std::shared_ptr<detail::runtime_services>& services() const;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
