#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>

#include <troupe/core/function_registry.hpp>
#include <troupe/core/ids.hpp>
#include <troupe/messages/message_header.hpp>

/// Membership and its members, the process that holds a member, and the coordinator, which follows
/// the members.
namespace troupe {

/// Of the whole protocol between processes: told in a hello, which refuses another one.
inline constexpr std::uint16_t protocol_version = 3;

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

/// The work of a thread, told with every heartbeat.
struct thread_status {
  closure_id closure{}; ///< seq 0: idle, or building a resource when `running_ms` is not 0
  attempt_no attempt{};
  std::uint64_t silent_ms = 0;  ///< since the step last entered Troupe
  std::uint64_t running_ms = 0; ///< since the step began
  TROUPE_FIELDS(thread_status, closure, attempt, silent_ms, running_ms)
};

struct heartbeat {
  message_header header{};
  std::vector<thread_status> threads{};
  TROUPE_FIELDS(heartbeat, header, threads)
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

/// A member goes on its own will: no loss, no failed attempt.
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

/// The threads of a worker, passed on from its heartbeat.
struct threads_seen {
  task_id task{};
  incarnation inc{};
  std::vector<thread_status> threads{};
  TROUPE_FIELDS(threads_seen, task, inc, threads)
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

} // namespace troupe
