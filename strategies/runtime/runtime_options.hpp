#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/core/limits.hpp>

namespace troupe {

class cluster_resolver;

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
  /// Compute threads of a worker: closures that it runs at once.
  std::uint32_t threads_per_worker = 1;

  /// Devices that steps run on, "cpu:0" or "gpu:1"; the threads of all workers here take turns over
  /// them. Empty: cpu:0, cpu:1, ... for the threads, opened when a step first asks. Named ones are
  /// opened at start: `device_unavailable` says what there is. Flag: `--troupe-device`, once each.
  std::vector<std::string> devices{};
  /// CPU devices of this process; 0: one for each thread.
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

  // processes of peer workers, which all run the same program
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
  std::uint32_t max_failed_attempts = 5;
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

} // namespace troupe
