#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>

#include <troupe/core/caf_compat.hpp>
#include <troupe/core/function_registry.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/core/payload.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/messages/packed.hpp>

/// Every message between actors, one struct each. Commands are imperative, events past tense,
/// answers nouns. What crosses processes carries a `message_header` and stays under
/// `message_bytes_max`; bytes are std::string (CAF 0.17 checks its length before it allocates, and
/// a vector's not).
namespace troupe {

/// Adds the types of all these messages to the configuration of an actor system.
void init_messages(caf::actor_system_config& config);

inline constexpr std::uint16_t protocol_version = 3;
/// Closure arguments and results up to this travel in the message; larger ones are blobs of the
/// data plane.
inline constexpr std::size_t inline_bytes_max = 16 * 1024;
inline constexpr std::size_t message_bytes_max = 64 * 1024;

/// The header of every message between processes. The receiver refuses a fenced sender, another
/// incarnation of itself and an older term; an older epoch is no reason to refuse.
struct message_header {
  term_no term{};
  epoch_no epoch{};
  task_id from{};
  incarnation sender{};
  incarnation receiver{};
  request_no request{};
  TROUPE_FIELDS(message_header, term, epoch, from, sender, receiver, request)
};

/// A mark that does not survive the network, for orders that only this process may give.
inline local_only<bool> made_here() { return {std::make_shared<bool>(true)}; }

// --- membership
// -------------------------------------------------------------------------------------------------

struct member {
  task_id task{};
  incarnation inc{};
  std::string data_address{}; ///< of the server's data plane; empty for workers
  TROUPE_FIELDS(member, task, inc, data_address)
};

/// All counters of `task` up to `counter` are fenced.
struct fence {
  task_id task{};
  std::uint32_t counter = 0;
  TROUPE_FIELDS(fence, task, counter)
};

/// The members of the cluster. Written by one author; numbers only grow.
struct view {
  term_no term{};
  epoch_no epoch{};
  std::vector<member> members{};
  std::vector<fence> fences{};
  TROUPE_FIELDS(view, term, epoch, members, fences)
};

/// The first message of a process, before any other is heard.
struct hello {
  std::uint16_t version = protocol_version;
  std::string cluster{};
  task_id task{};
  std::uint64_t nonce = 0;
  std::uint64_t functions_hash = 0;
  std::vector<function_line> functions{}; ///< empty when it would be too long for a message
  std::string data_address{};             ///< where its data plane listens; empty when it has none
  std::string control_address{}; ///< where its actor is published; empty within one process
  std::string token_mac{}; ///< HMAC-SHA256 of (cluster, task, nonce) under the shared token; empty
                           ///< without one
  TROUPE_FIELDS(hello, version, cluster, task, nonce, functions_hash, functions, data_address,
                control_address, token_mac)
};

/// The text that `token_mac` covers.
inline std::string hello_text(const hello& x) {
  return x.cluster + "\n" + to_string(x.task) + "\n" + std::to_string(x.nonce) + "\n"
         + x.data_address;
}

/// The answer to a hello. `why.code` none: admitted as `inc`.
struct hello_answer {
  failure why{};
  incarnation inc{};
  view current{};
  std::string link_address{}; ///< where the coordinator takes a worker's link; empty: it takes none
  bool ending = false; ///< nobody is admitted any more: end, as `end_member` with this `why` says
  TROUPE_FIELDS(hello_answer, why, inc, current, link_address, ending)
};

/// The work of a lane, told with every heartbeat.
struct lane_status {
  closure_id closure{}; ///< seq 0: idle, or building a resource when `running_ms` is not 0
  attempt_no attempt{};
  std::uint64_t silent_ms = 0;  ///< since the step last entered Troupe
  std::uint64_t running_ms = 0; ///< since the step began
  TROUPE_FIELDS(lane_status, closure, attempt, silent_ms, running_ms)
};

struct heartbeat {
  message_header header{};
  std::vector<lane_status> lanes{};
  TROUPE_FIELDS(heartbeat, header, lanes)
};

/// Order to a member whose incarnation is fenced: drop everything, rejoin with a new nonce.
struct fenced_notice {
  message_header header{};
  TROUPE_FIELDS(fenced_notice, header)
};

struct view_changed {
  message_header header{};
  view current{};
  TROUPE_FIELDS(view_changed, header, current)
};

/// "Are you there?": the answer is a heartbeat at once.
struct probe_member {
  message_header header{};
  TROUPE_FIELDS(probe_member, header)
};

/// A member goes on its own will: no loss, no strike.
struct leave {
  message_header header{};
  TROUPE_FIELDS(leave, header)
};

/// The process that holds a member, to its actor: leave the cluster and end.
struct leave_cluster {
  local_only<bool> here = made_here(); ///< as in end_cluster
  TROUPE_FIELDS(leave_cluster, here)
};

/// End: the cluster has. `why` is what it ended with; none: as its program meant, so with code 0.
struct end_member {
  message_header header{};
  failure why{};
  TROUPE_FIELDS(end_member, header, why)
};

/// Membership to the coordinator, in one process.
struct member_joined {
  member who{};
  view current{};
  caf::strong_actor_ptr handle{};
  TROUPE_FIELDS(member_joined, who, current, handle)
};

struct member_lost {
  member who{};
  view current{};
  std::string reason{};
  bool clean = false;
  TROUPE_FIELDS(member_lost, who, current, reason, clean)
};

/// A process's own links to its coordinator: the worker can be spoken to through `handle`.
struct worker_linked {
  task_id task{};
  incarnation inc{};
  caf::strong_actor_ptr handle{};
  local_only<bool> here = made_here(); ///< as in end_cluster
  TROUPE_FIELDS(worker_linked, task, inc, handle, here)
};

/// A process's own links to its coordinator or worker: that life's link is gone, or did not come
/// about. `clean`: one of its ends has said goodbye.
struct link_ended {
  task_id task{};
  incarnation inc{};
  bool clean = false;
  std::string reason{};
  local_only<bool> here = made_here(); ///< as in end_cluster
  TROUPE_FIELDS(link_ended, task, inc, clean, reason, here)
};

/// The lanes of a worker, passed on from its heartbeat.
struct lanes_seen {
  task_id task{};
  incarnation inc{};
  std::vector<lane_status> lanes{};
  TROUPE_FIELDS(lanes_seen, task, inc, lanes)
};

/// Coordinator to membership: tell me of every member, those that are there already included.
struct follow_members {
  std::uint32_t reserved = 0;
  TROUPE_FIELDS(follow_members, reserved)
};

/// Coordinator to membership: its incarnation of that task is given up.
struct fence_member {
  task_id task{};
  incarnation inc{};
  std::string reason{};
  TROUPE_FIELDS(fence_member, task, inc, reason)
};

/// Coordinator to membership: end every member, then yourself.
struct end_cluster {
  std::uint64_t deadline_ms = 5000;
  failure why{};                       ///< as in end_member
  bool members_stay = false;           ///< end yourself alone: they look for the next coordinator
  local_only<bool> here = made_here(); ///< null when it came over the network: nobody there may ask
  TROUPE_FIELDS(end_cluster, deadline_ms, why, members_stay, here)
};

/// A timer of the receiving actor. `what` is the actor's own enum.
struct tick {
  std::uint8_t what = 0;
  std::uint64_t number = 0;
  TROUPE_FIELDS(tick, what, number)
};

// --- coordinator and workers
// ------------------------------------------------------------------------------------

/// A closure to run. Arguments are inline, handed over within a process, or a blob of the
/// coordinator's data plane.
struct closure_order {
  closure_id id{};
  attempt_no attempt{};
  function_index function{};
  bool wants_result = true;
  bool announce = false;         ///< the worker reports it as begun before it runs it
  std::uint64_t deadline_ms = 0; ///< 0: none
  std::string arguments{};       ///< flat payload when not handed over and small
  std::uint64_t blob_bytes = 0;  ///< not 0: get blob (closure, argument) of that size
  local_only<const payload> handed{};
  TROUPE_FIELDS(closure_order, id, attempt, function, wants_result, announce, deadline_ms,
                arguments, blob_bytes, handed)
};

struct resource_order {
  resource_id id{};
  function_index function{};
  std::string arguments{};
  TROUPE_FIELDS(resource_order, id, function, arguments)
};

/// First message of a coordinator to a worker that joined.
struct admit_worker {
  message_header header{};
  std::string data_address{}; ///< of the coordinator's blobs; empty within one process
  std::vector<variable_spec> variables{};
  std::vector<resource_order> resources{};
  TROUPE_FIELDS(admit_worker, header, data_address, variables, resources)
};

struct run_closures {
  message_header header{};
  std::vector<closure_order> orders{};
  TROUPE_PACKED_FIELDS(run_closures, orders, header)
};

/// Give back up to `count` closures that have not started, youngest first.
struct recall_closures {
  message_header header{};
  std::uint32_t count = 0;
  TROUPE_FIELDS(recall_closures, header, count)
};

/// Order to end attempts of closures; one that still runs after `grace_ms` is given up.
struct cancel_closures {
  message_header header{};
  std::vector<closure_id> ids{};
  std::uint64_t grace_ms = 10'000;
  TROUPE_FIELDS(cancel_closures, header, ids, grace_ms)
};

struct add_variables {
  message_header header{};
  std::vector<variable_spec> variables{};
  TROUPE_FIELDS(add_variables, header, variables)
};

/// A step asks for a variable by name: the first specification wins.
struct request_variable {
  message_header header{};
  variable_spec wanted{}; ///< without id and shards: the coordinator gives them
  TROUPE_FIELDS(request_variable, header, wanted)
};

struct variable_answer {
  failure why{};
  variable_spec made{};
  TROUPE_FIELDS(variable_answer, why, made)
};

/// A lane to its own worker actor: ask the coordinator on my behalf.
struct variable_wanted {
  variable_spec wanted{};
  local_only<promise_slot<variable_spec>> reply{};
  TROUPE_FIELDS(variable_wanted, wanted, reply)
};

struct make_resources {
  message_header header{};
  std::vector<resource_order> orders{};
  TROUPE_FIELDS(make_resources, header, orders)
};

struct drop_resources {
  message_header header{};
  std::vector<resource_id> ids{};
  TROUPE_FIELDS(drop_resources, header, ids)
};

enum class attempt_outcome : std::uint8_t {
  finished = 0,
  failed = 1,
  recalled = 2, ///< never started
  given_up = 3, ///< hung past its deadline or a cancel's grace; the lane is lost
};

struct attempt_ended {
  closure_id id{};
  attempt_no attempt{};
  attempt_outcome outcome = attempt_outcome::finished;
  std::uint64_t run_ns = 0;
  failure why{};
  std::string result{};         ///< flat payload when not handed over and small
  std::uint64_t blob_bytes = 0; ///< not 0: the worker has put blob (closure, result) of that size
  bool acknowledged = true;     ///< false: operations of it may still be on their way to servers
  local_only<payload> handed{};
  TROUPE_FIELDS(attempt_ended, id, attempt, outcome, run_ns, why, result, blob_bytes, acknowledged,
                handed)
};

struct resource_made {
  resource_id id{};
  failure why{}; ///< code none: ready
  TROUPE_FIELDS(resource_made, id, why)
};

/// A lane will run nothing else before that attempt.
struct attempt_begun {
  closure_id id{};
  attempt_no attempt{};
  TROUPE_FIELDS(attempt_begun, id, attempt)
};

/// Everything that ended since the last report, in one message, and what begins after those ends.
struct worker_report {
  message_header header{};
  std::vector<attempt_ended> ended{};
  std::vector<resource_made> resources{};
  std::vector<attempt_begun> begun{};
  TROUPE_PACKED_FIELDS(worker_report, ended, header, resources, begun)
};

/// A lane to its own worker actor: the outbox has something.
struct lane_progress {
  std::uint32_t lane = 0;
  TROUPE_FIELDS(lane_progress, lane)
};

// --- coordinator and servers
// ------------------------------------------------------------------------------------

/// First message of a coordinator to a server that joined.
struct grant_term {
  message_header header{};
  TROUPE_FIELDS(grant_term, header)
};

struct term_answer {
  failure why{};
  term_no highest{};
  TROUPE_FIELDS(term_answer, why, highest)
};

/// Make the shards of these variables that belong to the receiver. Idempotent. Asked again with the
/// same number, it waits on for what is being made already.
struct create_shards {
  message_header header{};
  std::uint64_t creation = 0;  ///< the coordinator's number for it
  std::uint64_t report_ms = 0; ///< answered after so long at the latest, with how far it is
  std::vector<variable_spec> variables{};
  TROUPE_FIELDS(create_shards, header, creation, report_ms, variables)
};

/// `why.code` none and not `working`: the shards are there. `working`: ask again.
struct creation_answer {
  failure why{};
  bool working = false;
  std::uint64_t made_bytes = 0; ///< by this server, of all shards so far: grows while it works
  TROUPE_FIELDS(creation_answer, why, working, made_bytes)
};

struct drop_shards {
  message_header header{};
  std::vector<variable_id> variables{};
  TROUPE_FIELDS(drop_shards, header, variables)
};

/// `why.code` none: done.
struct done_answer {
  failure why{};
  TROUPE_FIELDS(done_answer, why)
};

/// Tells servers what is settled: of `term`, every closure up to `highest` that is not in
/// `unsettled`.
struct settle_closures {
  message_header header{};
  std::uint64_t list_no = 0;
  std::uint64_t highest = 0;
  std::vector<std::uint64_t> unsettled{};
  TROUPE_FIELDS(settle_closures, header, list_no, highest, unsettled)
};

struct closures_settled {
  message_header header{};
  std::uint64_t list_no = 0;
  TROUPE_FIELDS(closures_settled, header, list_no)
};

struct take_cut {
  message_header header{};
  cut_id cut{};
  TROUPE_FIELDS(take_cut, header, cut)
};

struct drop_cut {
  message_header header{};
  cut_id cut{};
  TROUPE_FIELDS(drop_cut, header, cut)
};

struct query_server {
  message_header header{};
  TROUPE_FIELDS(query_server, header)
};

struct server_statistics {
  failure why{};
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pushes_applied = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t refused = 0;
  TROUPE_FIELDS(server_statistics, why, shards, bytes, pushes_applied, duplicates, refused)
};

// --- devices, in one process
// ------------------------------------------------------------------------------------------------

/// An event that somebody asked to hear of has passed, or never will.
struct device_event {
  std::uint64_t number = 0; ///< as the asker chose it
  failure why{};            ///< `none`: passed
  TROUPE_FIELDS(device_event, number, why)
};

/// A device has failed for good. From the device to its actor, and from the actor to who watches.
struct device_failed {
  std::string device{}; ///< "gpu:0"
  failure why{};        ///< names the device, the stream and the operation
  local_only<bool> here{};
  TROUPE_FIELDS(device_failed, device, why, here)
};

/// The function that hears of the device's end: called at once when it has failed already. On the
/// actor's thread.
struct device_watcher {
  virtual ~device_watcher() = default;
  virtual void on_device_failed(const device_failed& msg) = 0;
};

struct watch_device {
  local_only<device_watcher> by{};
  TROUPE_FIELDS(watch_device, by)
};

struct query_device {
  std::uint32_t reserved = 0;
  TROUPE_FIELDS(query_device, reserved)
};

struct device_report {
  std::string device{};
  failure why{}; ///< `none`: it is well
  std::uint64_t memory_bytes = 0;
  std::uint64_t bytes_in_use = 0; ///< of its pool
  std::uint64_t bytes_cached = 0;
  std::uint64_t operations = 0; ///< submitted so far
  std::uint64_t events_open = 0;
  std::uint32_t streams = 0;
  TROUPE_FIELDS(device_report, device, why, memory_bytes, bytes_in_use, bytes_cached, operations,
                events_open, streams)
};

/// Ends the device: what runs may finish within the deadline.
struct close_device {
  std::uint64_t deadline_ms = 0;
  local_only<bool> here{};
  TROUPE_FIELDS(close_device, deadline_ms, here)
};

// --- replicas, in one process
// -----------------------------------------------------------------------------------------------

struct query_replica {
  std::uint32_t reserved = 0;
  TROUPE_FIELDS(query_replica, reserved)
};

struct replica_report {
  std::uint32_t id = 0;
  std::string device{};
  std::string waits{}; ///< "op 12 all_reduce sum f32[2] waits for {1}"; empty: nobody waits
  failure why{};       ///< `none`: well
  TROUPE_FIELDS(replica_report, id, device, waits, why)
};

struct close_replica {
  local_only<bool> here{};
  TROUPE_FIELDS(close_replica, here)
};

// --- the program and its coordinator, in one process
// ------------------------------------------------------------

/// The closure queue went from empty to not empty.
struct work_waiting {
  std::uint32_t reserved = 0;
  TROUPE_FIELDS(work_waiting, reserved)
};

/// An error is being raised: whatever runs shall end.
struct cancel_requested {
  std::uint64_t generation = 0; ///< of the queue: a request that comes late cancels nothing
  TROUPE_FIELDS(cancel_requested, generation)
};

class coordinator_call;

/// A blocking public call's request to the coordinator, which answers through a promise of the
/// call's own.
struct run_call {
  local_only<coordinator_call> call{};
  TROUPE_FIELDS(run_call, call)
};

} // namespace troupe
