#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/ids.hpp>
#include <troupe/core/payload.hpp>
#include <troupe/messages/message_header.hpp>
#include <troupe/messages/resources.hpp>

/// Coordinator and workers: closures and what became of them.
namespace troupe {

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

enum class attempt_outcome : std::uint8_t {
  finished = 0,
  failed = 1,
  recalled = 2, ///< never started
  given_up = 3, ///< hung past its deadline or a cancel's grace; the thread is lost
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

/// A thread will run nothing else before that attempt.
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

/// A compute thread to its own worker actor: the outbox has something.
struct thread_progress {
  std::uint32_t thread = 0;
  TROUPE_FIELDS(thread_progress, thread)
};

} // namespace troupe
