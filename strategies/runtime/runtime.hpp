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

/// A device that there is, opened or not.
struct device_info {
  device_id id{};
  device_facts facts{};
};

/// What the user calls the addresses of a runtime, for errors.
struct address_names {
  std::string coordinator = "coordinator_address"; ///< "TF_CONFIG chief[0]", "--troupe-coordinator"
  std::string listen = "listen_address";
  std::string data_listen = "data_listen_address";
};

struct runtime_options {
  // within one process
  std::uint32_t workers = 2;
  std::uint32_t servers = 2;
  /// Indices of the server tasks, ascending; empty: 0 to servers - 1.
  std::vector<std::uint32_t> server_tasks{};
  /// The same of the worker tasks.
  std::vector<std::uint32_t> worker_tasks{};
  /// Compute lanes of a worker: closures that it runs at once.
  std::uint32_t lanes_per_worker = 1;

  /// Devices that steps run on, "cpu:0" or "gpu:1"; the lanes of all workers here take turns over
  /// them. Empty: cpu:0, cpu:1, ... for the lanes, opened when a step first asks. Named ones are
  /// opened at start: `device_unavailable` says what there is. Flag: `--troupe-device`, once each.
  std::vector<std::string> devices{};
  /// CPU devices of this process; 0: one for each lane.
  std::uint32_t cpu_devices = 0;
  /// Work on a device that is not done after so long will never be: the device is given up, and its
  /// worker with it.
  duration device_hang_after{limits::device_hang};

  // over processes
  /// What this process is; none: everything in this process.
  std::optional<task_id> task{};
  /// The coordinator's "host:port". For the coordinator itself: where it listens, port 0 for the
  /// system's choice.
  std::string coordinator_address = "127.0.0.1:0";
  /// Where a worker or server listens for control messages, and a server or the coordinator for
  /// data.
  std::string listen_address = "127.0.0.1:0";
  std::string data_listen_address = "127.0.0.1:0";
  address_names names{};
  /// Tensors between processes of one host go through shared memory; off: over TCP as between
  /// hosts. Where memory can't be shared they go over TCP anyway, and the trace says why.
  bool shared_memory = true;
  std::string cluster_name = "troupe";
  /// Shared by all processes of a cluster. Needed to listen anywhere but on this machine.
  std::string token{};
  /// Where the description of the cluster says that its tasks are: for messages that name them.
  std::map<task_id, std::string> task_addresses{};

  // processes of equals, which all run the same program
  /// "host:port" of every worker, in order of their ids; empty: this is none of them. Such a
  /// runtime has devices and no parameter-server cluster: for synchronous strategies.
  std::vector<std::string> peers{};
  std::uint32_t peer = 0; ///< place of this process among them
  /// Their tasks, "chief", "worker:0", for errors; empty: "worker:" and the place.
  std::vector<std::string> peer_tasks{};
  /// What described them, for errors: "TF_CONFIG", "--cluster FILE"; empty: they were given by
  /// hand.
  std::string described_by{};
  /// What described these workers; null: they were given by hand.
  std::shared_ptr<const cluster_resolver> resolver{};

  // limits; the defaults stand in core/limits.hpp, docs/limits.md explains them
  /// Start waits for all servers and this many workers. It says every five seconds who is missing,
  /// by task and address, and names them in its error. Flags: `--troupe-start-workers`,
  /// `--troupe-start-timeout SECONDS`.
  std::uint32_t start_workers = 1;
  duration start_timeout{limits::start};
  /// Whoever owes an answer (a server, the coordinator) and shows no progress for so long does not
  /// answer any more: no byte taken or sent, no row made. However long all of it takes. At least a
  /// millisecond.
  duration request_timeout{limits::request};
  std::size_t queue_len_max = 1024;
  std::uint32_t max_strikes = 5;
  std::uint64_t cancel_grace_ms = static_cast<std::uint64_t>(to_ms(limits::cancel_grace));
  /// A save waits for running closures, and fails once one of them has shown no progress for so
  /// long: no call of Troupe from its step.
  std::uint64_t quiesce_ms_max = static_cast<std::uint64_t>(to_ms(limits::quiesce));
  std::uint64_t no_worker_ms_max = static_cast<std::uint64_t>(to_ms(limits::no_worker));
  /// Workers and servers without a sign of life of a coordinator for so long end, with code 69.
  /// Flag: `--troupe-coordinator-lost SECONDS`.
  std::uint64_t coordinator_lost_ms_max =
    static_cast<std::uint64_t>(to_ms(limits::coordinator_lost));
  std::uint64_t suspect_ms_min = 1'000; ///< silence that is never suspicion
  /// Off: an operation that is sent again is applied again.
  bool effect_once = true;

  /// Takes trace events and marks; outlives the runtime.
  tracer* trace = nullptr;
  /// Called once the coordinator listens, with its "host:port", before start waits for the others:
  /// a launcher starts them from here. On the constructing thread.
  std::function<void(const std::string& address)> on_listening{};
  /// Called for every member that comes and goes, for launchers and status pages. On an actor's
  /// thread: must not wait.
  std::function<void(const task_id& task, std::uint32_t incarnation, bool joined)> on_member{};
  /// Takes a line about what goes wrong and may come to an error or an end of this process: a step
  /// that takes its workers with it, one that hangs past its deadline. Null: it goes to stderr, and
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

/// A host that brings everything which a process of a cluster stands on: a simulator, or a program
/// with a network of its own. All of it outlives the runtime.
struct runtime_host {
  /// Made from a configuration that went through `configure`.
  caf::actor_system& system;
  /// Its tracer is used; `runtime_options::trace` is not.
  const environment& env;
  /// Speaks the protocol of CAF's middleman (publish, connect); used only over processes.
  caf::actor network;
};

/// One process of a cluster, or a whole cluster in one process. Owns the actors and lanes that it
/// starts; `shutdown` or the destructor ends them. Made and used on the program's threads.
class runtime {
public:
  /// Everything in this process: two workers, two servers.
  runtime();
  explicit runtime(runtime_options options);
  /// On the host's actor system, which outlives the runtime.
  runtime(runtime_options options, caf::actor_system& host);
  /// On the host's system, ports and network. Addresses are what that network understands: the rule
  /// that reaching other machines takes a token is the host's to keep.
  runtime(runtime_options options, const runtime_host& host);
  runtime(runtime&&) noexcept;
  runtime& operator=(runtime&&) noexcept;
  ~runtime();

  /// Reads `--cluster FILE`, flags that begin with `--troupe-`, and TF_CONFIG; leaves every other
  /// flag to the program. Embedded when none of them names a cluster. Half a description, of which
  /// a task or the addresses are missing, is refused. Throws `bad_config` naming the flag or field
  /// and the value. `--troupe-help` prints `flags_help()` and ends the program with 0.
  static runtime from_args(int argc, char** argv);
  static runtime_options options_from_args(int argc, char** argv);
  /// The same for programs of synchronous strategies, which run in every process: `--cluster FILE`
  /// with `--task worker:1` (or `--troupe-task`), or TF_CONFIG, with the jobs chief, worker and
  /// evaluator (rows SYNC-MWR-1 to 7). Without a cluster: the only worker. An evaluator is one by
  /// itself (row SYNC-MWR-15).
  static runtime synchronous_from_args(int argc, char** argv);
  static runtime_options synchronous_options_from_args(int argc, char** argv);
  /// Every flag of Troupe's, a line each, for a program's own help.
  static std::string flags_help();
  /// What a resolver says, on top of `options`. Throws `invalid_argument` when it does not know
  /// this process's type or id, or when they are not in the cluster, and as `validate_addresses`.
  static runtime_options synchronous_options(std::shared_ptr<const cluster_resolver> resolver,
                                             runtime_options options);

  /// True where the program runs: embedded, or as `chief`.
  bool is_coordinator() const;
  /// Workers and servers: until the cluster ends. Returns the process's exit code
  /// (core/exit_code.hpp): 0 only when the cluster ended as its program meant. Says why on stderr
  /// when it is not 0, and not to a host that brings its own environment.
  int serve();
  /// Ends the whole cluster, as the program means it: every process with code 0. Idempotent. Steps
  /// that still run are cancelled and, past `timeout`, abandoned.
  ///
  /// The destructor does the same, unless an exception that leaves the program destroys the
  /// runtime, or a server that held variables was lost: then the other processes end with code 69
  /// and say so.
  void shutdown(duration timeout = std::chrono::seconds{10});
  /// Ends the whole cluster because of `why`: every other process says it and ends with its code.
  void fail(const failure& why, duration timeout = std::chrono::seconds{10});
  /// Ends this coordinator alone. Workers and servers drop what they hold for it and wait for
  /// another one at the same address, `coordinator_lost_ms_max` at most: a new `runtime`, here or
  /// elsewhere, makes the cluster anew with the same processes, and its program goes on from a
  /// checkpoint. For a program that lost a server. Within one process the same as `shutdown`.
  void step_down(duration timeout = std::chrono::seconds{10});

  /// The devices of this process: cpu:0 to n - 1, then gpu:0 and on.
  std::vector<device_info> devices() const;
  /// A device for the program's own use, on the calling thread; "gpu:0". Throws
  /// `device_unavailable` saying what there is.
  std::shared_ptr<device_context> device(const std::string& name) const;

  /// The coordinator's "host:port"; empty within one process.
  const std::string& address() const;
  const runtime_options& options() const;
  const environment& env() const;
  /// For the strategies.
  std::shared_ptr<cluster> owner() const;
  const std::shared_ptr<detail::runtime_services>& services() const;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
