#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/coordinator/closure_queue.hpp>
#include <troupe/actors/coordinator/dispatch_core.hpp>
#include <troupe/actors/coordinator/function_times.hpp>
#include <troupe/actors/coordinator/link_rendezvous.hpp>
#include <troupe/actors/coordinator/settlement.hpp>
#include <troupe/actors/coordinator/snapshot_barrier.hpp>
#include <troupe/actors/coordinator/term_election.hpp>
#include <troupe/actors/coordinator/variable_catalogue.hpp>
#include <troupe/actors/support/blob_table.hpp>
#include <troupe/actors/support/failure_classifier.hpp>
#include <troupe/core/limits.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/messages/interfaces.hpp>

namespace troupe {

struct coordinator_options {
  std::vector<std::uint32_t> server_tasks{}; ///< that must be there; empty: 0 to servers - 1
  std::uint32_t servers = 1;                 ///< tasks ps:0 .. ps:N-1 that must be there
  std::uint32_t start_workers = 1;           ///< that must be there to start
  std::uint32_t lanes = 1;                   ///< compute lanes of a worker
  std::string data_address{};                ///< of the blobs; empty within one process
  /// A server that owes an answer and shows no progress for longer does not answer.
  std::uint64_t request_ms = static_cast<std::uint64_t>(to_ms(limits::request));
  std::uint64_t grant_ms = 5'000; ///< after that a server is asked again for its term
  /// A cut waits for running closures; one that has shown no progress for longer ends it.
  std::uint64_t quiesce_ms_max = static_cast<std::uint64_t>(to_ms(limits::quiesce));
  std::uint64_t cancel_grace_ms = 10'000;
  std::uint64_t settle_every = 256; ///< ends between two settle lists, at least
  std::uint64_t settle_ms = 50;     ///< the latest that ends wait for a settle list
  std::uint64_t recall_ms = 2;      ///< a waiting closure may be asked back after that
  /// A worker's loss is known by one connection, what it said last comes on another, its link: so
  /// long the loss waits for the link's end.
  std::uint64_t last_words_ms = 100;
  std::uint32_t max_strikes = closure_queue_options{}.max_strikes;
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
  ~coordinator_shared() { blobs->take_results_if({}); } // a lane that still has them asks nobody
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
  std::vector<lane_status> lanes{};
  bool stuck = false; ///< a lane silent for longer than max(30 s, 20 x the function's median)
};

class coordinator_state;

/// A blocking public call on its way to the actor.
class coordinator_call {
public:
  virtual ~coordinator_call() = default;
  virtual void run(coordinator_state& state) = 0;
};

/// Dispatches closures to workers and follows them to their end. Decisions are in `dispatch_core`,
/// `closure_queue` and `failure_classifier`; this is the shell that turns messages into calls on
/// them.
class coordinator_state {
public:
  using interface = coordinator_actor;
  static constexpr const char* name = "troupe.coordinator";

  coordinator_state(interface::pointer self, const environment& env,
                    std::shared_ptr<coordinator_shared> shared, membership_actor membership,
                    coordinator_options options);
  ~coordinator_state();
  interface::behavior_type make_behavior();

  // -- program calls; each answers through its promise, within `request_ms` where servers
  // are asked --

  /// Makes the variables on their servers, then tells the workers. Waits for as long as every
  /// server makes progress; where one can't, the variables are nowhere.
  void create_variables(std::vector<variable_spec> specs, std::shared_ptr<promise_slot<bool>> done);
  void drop_variable(variable_id id);
  /// Has every worker, also one that joins later, build the resource.
  void make_resource(resource_order order);
  void drop_resource(resource_id id);
  /// Takes a cut on all servers: quiesces, cuts, goes on. The running closures that didn't end in
  /// time are named.
  void take_cut(std::shared_ptr<promise_slot<cut_id>> done);
  void drop_cut(cut_id cut);
  void statistics(std::shared_ptr<promise_slot<std::vector<server_report>>> done);
  void worker_lines(std::shared_ptr<promise_slot<std::vector<worker_report_line>>> done);
  /// Ends every member, then itself and the membership.
  void end_cluster_now(cluster_end how);
  void tell_start(std::shared_ptr<promise_slot<start_state>> done) const;
  /// Ends the queue, or the start, with `why`: whoever waits need wait no longer.
  void no_worker_will_come(failure why);
  /// The members that are servers, by index.
  void server_members(std::shared_ptr<promise_slot<std::map<std::uint32_t, member>>> done);

private:
  enum timer : std::uint8_t {
    settle_timer = 1,
    quiesce_timer = 2,
    recall_timer = 3,
    work_timer = 4,
    last_words_timer = 5
  };

  struct server {
    member who{};
    parameter_server_actor handle{};
  };
  struct worker_link {
    worker_actor handle{};
    bool local = false;
    bool over = false; ///< all that it said has come
    std::vector<lane_status> lanes{};
  };
  // messages, in interface order
  void on_joined(member_joined& msg);
  void on_lost(member_lost& msg);
  void on_lanes(lanes_seen& msg);
  void on_linked(worker_linked& msg);
  void on_link_ended(const link_ended& msg);
  void on_report(worker_report& msg);
  caf::result<variable_answer> on_create(request_variable& msg);
  void on_settled(closures_settled& msg);
  void on_cancel(const cancel_requested& msg);
  void on_tick(tick& msg);

  void create_shards_on_servers(std::vector<variable_spec> specs, bool of_step,
                                std::function<void(const failure&)> done);
  void ask_creation(std::uint64_t number, std::uint32_t index);
  void creation_answered(std::uint64_t number, std::uint32_t index, const creation_answer& answer);
  void end_creation(std::optional<variable_catalogue::ended> over, const failure& why);
  void announce(const std::vector<variable_spec>& specs);
  void meet(std::uint32_t index);
  void worker_joined(const member_joined& msg);
  void admit(const worker_actor& worker, const incarnation& inc);
  void server_joined(const member_joined& msg);
  void grant(std::uint32_t index);
  void on_grant(std::uint32_t index, const incarnation& inc, term_no asked,
                const term_answer& answer);
  void ask_for_raised_term();
  void check_started();
  void await_last_words(std::uint32_t index, member_lost& msg);
  void last_words_came(std::uint32_t index);
  void worker_lost(std::uint32_t index, const member_lost& msg);
  void server_lost(std::uint32_t index, const member_lost& msg);
  void give_up_worker(std::uint32_t index, const std::string& reason);

  void dispatch();
  void send_to(std::uint32_t index, std::vector<closure_ptr> batch);
  closure_order order_of(const closure& what, bool local);
  void end_attempt(std::uint32_t index, attempt_ended& end, std::vector<closure_end>& ends);
  void fail_attempt(std::uint32_t index, const flight& what, failure why, bool acknowledged,
                    std::vector<closure_end>& ends);
  std::optional<payload> result_of(attempt_ended& end, failure& why);
  void lost_flight(const flight& what, put_back_reason reason, attempt_loss from);
  void put_back(const flight& what, put_back_reason reason, attempt_loss from);
  void say_struck(const flight& what, const attempt_loss& from);
  void forget_blobs(const closure& c);
  void confirm_later(closure_end end);
  void ask_to_confirm();
  void send_settle_list();
  void confirm_settled();
  void maybe_recall();
  void recall_low();
  void send_recall(const dispatch_core::recall& plan);
  bool is_stuck(std::uint32_t index) const;
  void watch_quiesce();
  void set_quiesce_timer(std::uint64_t ms);
  void check_quiet();
  void ask_for_cut();
  void cut_answered(cut_id cut, std::uint32_t server, std::optional<failure> why);
  void cut_over(result<cut_id> how);

  static failure answer_failure(const std::string& text, std::uint32_t server);
  message_header header_for(const incarnation& receiver);
  std::chrono::milliseconds request_timeout() const {
    return std::chrono::milliseconds{options_.request_ms};
  }
  closure_queue* queue() { return shared_->queue.get(); }

  interface::pointer self_;
  const environment& env_;
  std::shared_ptr<coordinator_shared> shared_;
  membership_actor membership_;
  coordinator_options options_;

  const std::uint64_t nonce_; ///< tells this coordinator from another that asks for the same term
  term_election election_{};
  epoch_no epoch_{};
  std::uint64_t next_request_ = 0;
  std::map<std::uint32_t, server> servers_{};
  std::map<std::uint32_t, worker_link> links_{};
  link_rendezvous<member_joined, caf::strong_actor_ptr> rendezvous_{};
  awaited_losses<member_lost> losing_{}; ///< of workers whose link has not ended
  variable_catalogue catalogue_{};
  std::map<resource_id, resource_order> resources_{};
  dispatch_core core_{};
  function_times times_{};
  failure_classifier classifier_{};
  function_index last_function_{};
  bool cancelling_ = false;
  bool ending_ = false;

  settlement settlement_{};
  bool recall_timer_set_ = false;
  std::set<std::uint32_t> given_up_{}; ///< workers that we fenced ourselves

  snapshot_barrier barrier_{options_.quiesce_ms_max};
  std::shared_ptr<promise_slot<cut_id>> cut_done_{};
};

coordinator_actor spawn_coordinator(caf::actor_system& system, const environment& env,
                                    std::shared_ptr<coordinator_shared> shared,
                                    membership_actor membership, coordinator_options options);

} // namespace troupe
