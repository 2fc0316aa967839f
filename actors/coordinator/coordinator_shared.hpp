#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/coordinator/closure_queue.hpp>
#include <troupe/actors/support/blob_table.hpp>
#include <troupe/actors/support/failure_classifier.hpp>
#include <troupe/core/limits.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/messages/server_statistics.hpp>

/// What the coordinator actor and the program share: options, state, reports.
namespace troupe {

struct coordinator_options {
  std::vector<std::uint32_t> server_tasks{}; ///< that must be there; empty: 0 to servers - 1
  std::uint32_t servers = 1;                 ///< tasks ps:0 .. ps:N-1 that must be there
  std::uint32_t start_workers = 1;           ///< that must be there to start
  std::uint32_t threads = 1;                 ///< compute threads of a worker
  std::string data_address{};                ///< of the blobs; empty within one process
  /// A server that owes an answer and shows no progress for longer does not answer.
  std::uint64_t request_ms = static_cast<std::uint64_t>(to_ms(limits::request));
  std::uint64_t grant_ms = 5'000; ///< after that a server is asked again for its term
  /// A snapshot waits for running closures; one that has shown no progress for longer ends it.
  std::uint64_t quiesce_ms_max = static_cast<std::uint64_t>(to_ms(limits::quiesce));
  std::uint64_t cancel_grace_ms = 10'000;
  std::uint64_t settle_every = 256; ///< ends between two completion watermarks, at least
  std::uint64_t settle_ms = 50;     ///< the latest that ends wait for a completion watermark
  std::uint64_t recall_ms = 2;      ///< a waiting closure may be asked back after that
  /// A worker's loss is known by one connection, what it said last comes on another, its link: so
  /// long the loss waits for the link's end.
  std::uint64_t last_words_ms = 100;
  std::uint32_t max_failed_attempts = closure_queue_options{}.max_failed_attempts;
  /// Called for every member that comes and goes; must not wait.
  std::function<void(const task_id& task, std::uint32_t incarnation, bool joined)> on_member{};
  /// Takes a line for whoever looks after this cluster: what goes wrong and may come to an error.
  /// Must not wait; may be null.
  std::function<void(const std::string& line)> say{};
  /// Ends a lost worker's link once its last words have come; set where workers in other processes
  /// are spoken to on links.
  std::function<void(const task_id& task, const incarnation& inc)> end_link{};
  closure_queue_options queue{};
  failure_classifier::options faults{};
};

/// The state that the coordinator actor shares with the program's threads. Made by the runtime,
/// outlives the actor.
struct coordinator_shared {
  explicit coordinator_shared(const environment& e)
    : env{e}, board{e}, started{std::make_shared<promise_slot<term_no>>(e)} {}
  ~coordinator_shared() { blobs->take_results_if({}); } // a thread that still has them asks nobody
  const environment& env;
  completion_board board;
  /// Set once a term is granted by all servers and a worker is there; the queue exists from then
  /// on.
  std::shared_ptr<promise_slot<term_no>> started;
  std::unique_ptr<closure_queue> queue{};
  std::shared_ptr<blob_table> blobs{std::make_shared<blob_table>()};
  /// Gives a variable that a step asks for its id and shards, or finds the one of that name. Set by
  /// the strategy; must not wait. Null: steps can't make variables.
  std::function<result<variable_spec>(const variable_spec& wanted)> plan_variable{};
  /// Told of a variable that was planned and could not be made. Must not wait.
  std::function<void(variable_id id)> forget_variable{};
  std::mutex plan_mutex{};               ///< of the two above
  std::atomic<std::uint64_t> fenced{0};  ///< incarnations that were lost without leaving
  std::atomic<std::uint64_t> retried{0}; ///< attempts that were lost and made again
};

/// How a cluster ends.
struct cluster_end {
  failure why{};     ///< none: as the program meant
  bool meant = true; ///< false: nobody said so, and a server that is lost by then is why
  /// Only the coordinator ends; workers and servers look for the next one at its address.
  bool members_stay = false;
};

/// The tasks that are there while a cluster starts, by index.
struct start_state {
  std::set<std::uint32_t> servers{};       ///< members
  std::set<std::uint32_t> ready_servers{}; ///< of these, those that have granted the term
  std::set<std::uint32_t> workers{};       ///< that can be given work
  std::set<std::uint32_t> linking{};       ///< members whose link isn't there yet
};

/// Totals of a server, for the program.
struct server_report {
  std::uint32_t server = 0;
  server_statistics stats{};
};

/// A worker as the coordinator sees it, for status and tests.
struct worker_report_line {
  std::uint32_t worker = 0;
  incarnation inc{};
  std::size_t in_flight = 0;
  std::vector<thread_status> threads{};
  bool stuck = false; ///< a thread silent for longer than max(30 s, 20 x the function's median)
};

} // namespace troupe
