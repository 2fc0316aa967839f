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

#include <troupe/actors/coordinator/coordinator_shared.hpp>
#include <troupe/actors/coordinator/dispatch_core.hpp>
#include <troupe/actors/coordinator/function_times.hpp>
#include <troupe/actors/coordinator/link_rendezvous.hpp>
#include <troupe/actors/coordinator/settlement.hpp>
#include <troupe/actors/coordinator/snapshot_barrier.hpp>
#include <troupe/actors/coordinator/term_election.hpp>
#include <troupe/actors/coordinator/variable_catalogue.hpp>
#include <troupe/messages/interfaces.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/messages/message_header.hpp>
#include <troupe/messages/resources.hpp>

namespace troupe {

class coordinator_state;

/// A blocking public call on its way to the actor.
class coordinator_call {
public:
  virtual ~coordinator_call() = default;
  virtual void run(coordinator_state& state) = 0;
};

/// Dispatches closures to workers and follows them to their end. Decides nothing: messages become
/// calls of the plain classes below, and what these return becomes messages. What is on which
/// worker is in `dispatch_core`, what waits and retries in `closure_queue`, what an error means in
/// `failure_classifier`, which ends the servers know of in `settlement`, how a save goes on in
/// `snapshot_barrier`, who can be spoken to in `link_rendezvous`, which variables there are in
/// `variable_catalogue`, and whose term it is in `term_election`.
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
  /// Takes a snapshot on all servers: quiesces, copies, goes on. The running closures that didn't
  /// end in time are named.
  void take_snapshot(std::shared_ptr<promise_slot<snapshot_id>> done);
  void drop_snapshot(snapshot_id snapshot);
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
    last_words_timer = 4
  };

  struct server {
    member who{};
    parameter_server_actor handle{};
  };
  struct worker_link {
    worker_actor handle{};
    bool local = false;
    bool over = false; ///< all that it said has come
    std::vector<thread_status> threads{};
  };

  // messages, in interface order
  void on_joined(member_joined& msg);
  void on_lost(member_lost& msg);
  void on_threads(threads_seen& msg);
  void on_linked(worker_linked& msg);
  void on_link_ended(const link_ended& msg);
  void on_report(worker_report& msg);
  caf::result<variable_answer> on_create(request_variable& msg);
  void on_settled(closures_settled& msg);
  void on_cancel(const cancel_requested& msg);
  void on_tick(tick& msg);

  // members (coordinator_members.cpp)
  void meet(std::uint32_t index);
  void worker_joined(const member_joined& msg);
  void admit(const worker_actor& worker, const incarnation& inc);
  void await_last_words(std::uint32_t index, member_lost& msg);
  void last_words_came(std::uint32_t index);
  void worker_lost(std::uint32_t index, const member_lost& msg);
  void give_up_worker(std::uint32_t index, const std::string& reason);
  bool is_stuck(std::uint32_t index) const;
  void server_joined(const member_joined& msg);
  void server_lost(std::uint32_t index, const member_lost& msg);
  void grant(std::uint32_t index);
  void on_grant(std::uint32_t index, const incarnation& inc, term_no asked,
                const term_answer& answer);
  void ask_for_raised_term();

  // closures on their way out (coordinator_dispatch.cpp)
  void dispatch();
  void send_to(std::uint32_t index, std::vector<closure_ptr> batch);
  closure_order order_of(const closure& what, bool local);
  void recall_low();
  void maybe_recall();
  void send_recall(const dispatch_core::recall& plan);

  // attempts on their way back (coordinator_attempts.cpp)
  void end_attempt(std::uint32_t index, attempt_ended& end, std::vector<closure_end>& ends);
  std::optional<payload> result_of(attempt_ended& end, failure& why);
  void fail_attempt(std::uint32_t index, const flight& what, failure why, bool acknowledged,
                    std::vector<closure_end>& ends);
  void lost_flight(const flight& what, put_back_reason reason, attempt_loss from);
  void put_back(const flight& what, put_back_reason reason, attempt_loss from);
  void say_failed_attempt(const flight& what, const attempt_loss& from);
  void forget_blobs(const closure& c);

  // ends (coordinator_settlement.cpp)
  void confirm_later(closure_end end);
  void ask_to_confirm();
  void send_completion_watermark();
  void confirm_settled();

  // saves (coordinator_snapshot.cpp)
  void check_quiet();
  void watch_quiesce();
  void set_quiesce_timer(std::uint64_t ms);
  void ask_for_snapshot();
  void snapshot_answered(snapshot_id snapshot, std::uint32_t server, std::optional<failure> why);
  void snapshot_over(result<snapshot_id> how);

  // variables (coordinator_variables.cpp)
  void create_shards_on_servers(std::vector<variable_spec> specs, bool of_step,
                                std::function<void(const failure&)> done);
  void ask_creation(std::uint64_t number, std::uint32_t index);
  void creation_answered(std::uint64_t number, std::uint32_t index, const creation_answer& answer);
  void end_creation(std::optional<variable_catalogue::ended> over, const failure& why);
  void announce(const std::vector<variable_spec>& specs);

  void check_started();
  void start_queue();
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
  bool ending_ = false;

  std::map<std::uint32_t, server> servers_{};
  std::map<std::uint32_t, worker_link> links_{};
  link_rendezvous<member_joined, caf::strong_actor_ptr> rendezvous_{};
  awaited_losses<member_lost> losing_{}; ///< of workers whose link has not ended
  std::set<std::uint32_t> given_up_{};   ///< workers that we fenced ourselves

  variable_catalogue catalogue_{};
  std::map<resource_id, resource_order> resources_{};

  dispatch_core core_{};
  function_times times_{};
  failure_classifier classifier_{};
  function_index last_function_{};
  bool recall_timer_set_ = false;
  bool cancelling_ = false;

  settlement settlement_{};
  snapshot_barrier barrier_{options_.quiesce_ms_max};
  std::shared_ptr<promise_slot<snapshot_id>>
    snapshot_done_{}; ///< of the save that the barrier leads
};

coordinator_actor spawn_coordinator(caf::actor_system& system, const environment& env,
                                    std::shared_ptr<coordinator_shared> shared,
                                    membership_actor membership, coordinator_options options);

} // namespace troupe
