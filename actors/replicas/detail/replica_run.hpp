#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/replicas/lockstep.hpp>
#include <troupe/actors/replicas/merge_rendezvous.hpp>
#include <troupe/actors/support/supervised_threads.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/lane_context.hpp>

namespace troupe {

class replica_lanes;

} // namespace troupe

namespace troupe::detail {

/// One run, shared by its caller and the lanes. Under the lanes' lock.
struct replica_run {
  replica_run(const replica_lanes& whose, std::uint32_t first_id, std::uint32_t replicas)
    : of{&whose}, calls{first_id, replicas}, errors(replicas), merges{replicas} {}

  const replica_lanes* const of;
  std::function<void(std::uint32_t)> body{};
  std::shared_ptr<replica_run> inside{}; ///< whose merge function asked for this one
  lockstep calls;
  std::optional<failure> aborted{};
  bool calls_differ = false; ///< why it was aborted, whatever the code: all replicas are told
  hang_limit hung{};         ///< of those that have not ended, once it was aborted
  std::vector<std::exception_ptr> errors; ///< that replicas threw of themselves
  std::exception_ptr merge_error{};
  merge_rendezvous merges;       ///< by the calls' number
  std::uint32_t standing_in = 0; ///< replicas that wait for what the others call
  std::uint32_t ready = 0;       ///< lanes that have joined the group
  int interrupting = 0;          ///< who ends others' calls right now: the next run must not begin
  bool owes_interrupt = false;   ///< whoever asked for the run has to end them
};

/// What a replica's lane is at: lane-local.
struct replica_place {
  std::shared_ptr<replica_run> run{};
  supervised_threads::post lane{};
};
/// @pre on a lane, in a run
inline std::shared_ptr<replica_run> run_here() { return lane_local<replica_place>()->run; }

/// The run whose merge function runs here: lane-local.
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
