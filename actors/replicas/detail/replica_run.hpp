#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/replicas/collective_order_checker.hpp>
#include <troupe/actors/replicas/merge_rendezvous.hpp>
#include <troupe/actors/support/supervised_threads.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/execution_context.hpp>

namespace troupe {

class replica_executor;

} // namespace troupe

namespace troupe::detail {

/// One run, shared by its caller and the threads. Under the threads' lock.
struct replica_run {
  replica_run(const replica_executor& whose, std::uint32_t first_id, std::uint32_t replicas)
    : of{&whose}, calls{first_id, replicas}, errors(replicas), merges{replicas} {}

  const replica_executor* const of;
  std::function<void(std::uint32_t)> body{};
  std::shared_ptr<replica_run> inside{}; ///< whose merge function asked for this one
  collective_order_checker calls;
  std::optional<failure> aborted{};
  bool calls_differ = false; ///< why it was aborted, whatever the code: all replicas are told
  hang_limit hung{};         ///< of those that have not ended, once it was aborted
  std::vector<std::exception_ptr> errors; ///< that replicas threw of themselves
  std::exception_ptr merge_error{};
  merge_rendezvous merges;                  ///< by the calls' number
  std::uint32_t empty_replicas_waiting = 0; ///< replicas that wait for what the others call
  std::uint32_t ready = 0;                  ///< threads that have joined the group
  int interrupting = 0;        ///< who ends others' calls right now: the next run must not begin
  bool owes_interrupt = false; ///< whoever asked for the run has to end them
};

/// What a replica's thread is at: context-local.
struct replica_place {
  std::shared_ptr<replica_run> run{};
  supervised_threads::post thread{};
};
/// @pre on a thread, in a run
inline std::shared_ptr<replica_run> run_here() { return context_local<replica_place>()->run; }

/// The run whose merge function runs here: context-local.
struct merging_run {
  std::shared_ptr<replica_run> run{};
};

/// `who` threw it, "replica 3": for the others, who have to say whose it was.
failure failure_of(const std::exception_ptr& why, const std::string& who);

/// Whether a replica's exception only says that another one's was first.
bool is_consequence(const std::exception_ptr& why);

/// What calls of the other replicas fail with: what they did wrong together, or that they were
/// cancelled.
failure consequence(const std::string& call, const replica_run& run);

} // namespace troupe::detail
