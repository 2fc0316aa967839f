#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/strategies/cluster/cluster_resolver.hpp>
#include <troupe/strategies/replicas/strategy.hpp>
#include <troupe/strategies/runtime/runtime.hpp>

/// Synchronous training of one program that runs in several processes.
namespace troupe {

/// Devices and waits of one worker.
struct multi_worker_options {
  /// Devices of this worker's replicas; all workers need the same number. None: the runtime's named
  /// devices, else all GPUs, else `cpu:0`.
  std::optional<std::vector<std::string>> devices{};
  /// How long a call waits for workers that do not come.
  duration collective_timeout = limits::replica_call;
  /// How long the construction waits for all workers; as long as a lost one needs to be started
  /// anew.
  duration start_timeout = std::chrono::seconds{60};
  /// Time that the others' functions have to end once a replica has failed; then their threads are
  /// left behind, four at most.
  std::uint64_t grace_ms = 10'000;
  /// Called every five seconds while a call here, or the construction, waits for other workers,
  /// with a text that names them, the operation and the outcome of the tries so far. Called on the
  /// thread that waits: must not wait itself. None: the text is written to stderr, unless a host
  /// brought the runtime's environment.
  std::function<void(const std::string& text)> on_wait{};
};

/// One replica on each device of each worker, every variable with a copy at each. Every worker runs
/// the same program and makes the same calls in the same order: construction, variables, `run`,
/// reductions, gathers, reads of `on_read` variables, saves and `barrier` wait for all of them.
/// `run` and `local_results` give this worker's replicas; ids are those of the whole group: the
/// worker's number times the local replicas, plus the local replica's.
///
/// The workers are fixed. A worker that is lost, or silent for `collective_timeout`, ends the
/// others' calls with `peer_lost` or `deadline`, naming the worker and the operation. After a loss
/// drop the strategy, make another with the same runtime, which waits for the replacement, and
/// continue from a checkpoint. Variables belong to the strategy that made them. If the worker was
/// only slow, the strategy can still be used: the next call forms the group anew.
class multi_worker_mirrored_strategy : public strategy {
public:
  /// Waits for all workers to make theirs. `deadline` names the missing workers; `mismatch` names
  /// two workers with different numbers of devices, and both numbers; `bad_config` for a runtime
  /// without peers; `invalid_argument` for duplicates and an empty list; `device_unavailable` for a
  /// device that this process does not have. `cluster_resolver` is the runtime's, or one that names
  /// its peers.
  explicit multi_worker_mirrored_strategy(runtime& rt, multi_worker_options options = {});
  /// Takes the workers as a resolver describes them: the runtime's own peers. `invalid_argument`
  /// with devices beside it, or when it does not know this worker; `bad_config` when the runtime
  /// has other peers.
  multi_worker_mirrored_strategy(runtime& rt,
                                 std::shared_ptr<const class cluster_resolver> resolver,
                                 multi_worker_options options = {});

  /// Number of workers.
  std::uint32_t num_workers() const;
  /// This worker's number; the chief's is 0.
  std::uint32_t worker_index() const;
  /// Whether this worker does what one does for all: true for worker 0 and evaluators.
  bool is_chief() const { return worker_index() == 0; }
  /// Whether this worker's checkpoint is the one that is kept; all of them have to save.
  bool should_checkpoint() const { return is_chief(); }
  bool should_save_summary() const { return is_chief(); }

  /// Returns once all workers have called `barrier`. `deadline`, `peer_lost`.
  void barrier() const;
  /// Makes a failure of one worker that of all: every worker brings how its own part ended, and the
  /// first failure is thrown on all of them, with its code, retry class and origin; `what` names
  /// the part.
  void agree(const std::optional<failure>& why, const std::string& what = "agree") const;
  /// The text of each worker, in the order of their numbers. All workers call it. `deadline`,
  /// `peer_lost`; `mismatch` for workers that are in another call.
  std::vector<std::string> exchange(const std::string& mine,
                                    const std::string& what = "exchange") const;
};

} // namespace troupe
