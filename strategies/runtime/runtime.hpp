#pragma once

#include <memory>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <troupe/core/environment.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/device/context.hpp>
#include <troupe/strategies/runtime/fwd.hpp>
#include <troupe/strategies/runtime/runtime_host.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

namespace troupe {

class cluster_resolver;

namespace detail {
class runtime_process;
struct runtime_services;
} // namespace detail

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
  std::shared_ptr<coordinator_client> owner() const;
  const std::shared_ptr<detail::runtime_services>& services() const;

private:
  std::unique_ptr<detail::runtime_process> process_;
};

} // namespace troupe
