#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/support/blob_table.hpp>
#include <troupe/actors/worker/parameter_client.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/lane_context.hpp>
#include <troupe/core/limits.hpp>
#include <troupe/core/step_host.hpp>
#include <troupe/messages/closures.hpp>
#include <troupe/messages/fwd.hpp>
#include <troupe/messages/resources.hpp>

namespace troupe {

struct worker_lanes_options {
  task_id task{.job = job_kind::worker, .index = 0};
  std::uint32_t lanes = 1;
  std::uint32_t lanes_lost_max =
    4; ///< hung lanes that are replaced; one more and the worker is `unavailable`
  bool effect_once = true;         ///< off: the servers' ledgers let a repeated operation through
  std::uint64_t grace_ms = 10'000; ///< for a step of a life that ended
  /// A server that owes this worker an answer and does nothing for longer is given up.
  duration request_max = limits::request;
  /// Ends that make a report worth its message. Fewer wait for more while at least
  /// `report_queue_min` closures are queued here, or the next one calls the same function and that
  /// was very short just now: a message to another process costs as much as ten of those. 1: none
  /// waits.
  std::size_t report_batch = 1;
  std::size_t report_queue_min = 8;
  /// Ends of steps shorter than a millisecond that a lane keeps to itself while two more closures
  /// wait for it: waking the actor costs the lane as much as a percent or two of such a step. The
  /// owner drains the outbox now and then, in case a long step follows. 1: none.
  std::size_t quiet_batch = 1;
  /// A resource's function that runs for longer is given up as a hung step is.
  std::uint64_t build_ms_max = 600'000;
  /// The device that the lane's steps run on; null: they have none. Called on the lane, once, when
  /// a step first asks; waits. `slot`: the lane's place, below `lanes`.
  std::function<result<std::shared_ptr<device_context>>(std::uint32_t slot)> device_of{};
};

/// A worker's connections during one life: links to servers and the coordinator's blobs.
struct worker_routes {
  /// A new link to the server of that index for a lane, under the life's incarnation.
  std::function<result<std::unique_ptr<server_link>>(std::uint32_t server, const origin& self,
                                                     term_no term)>
    connect{};
  /// Asks the coordinator for a variable by name. Waits; ends early with `cancelled` once
  /// `interrupted` holds.
  std::function<result<variable_spec>(const variable_spec& wanted,
                                      const std::function<bool()>& interrupted)>
    get_or_create{};
  /// Reads an argument blob; null within one process.
  std::function<result<std::string>(const blob_key& key, std::uint64_t size_bytes)> get_blob{};
  /// Stores a result blob; null within one process.
  std::function<result<void>(const blob_key& key, std::string bytes)> put_blob{};
};

/// The compute lanes of a worker and the objects that their steps reach. Steps run one at a time a
/// lane, in the order pushed. A *life* is the time under one incarnation: what an earlier life
/// still runs is cancelled, and what it produces is thrown away. Shared between the worker actor,
/// which calls everything here without waiting, and the lanes; the runtime joins them at the end.
/// Thread-safe.
class worker_lanes : public std::enable_shared_from_this<worker_lanes> {
public:
  /// `progress`: called on a lane when the outbox was empty and no longer is; must not wait.
  worker_lanes(const environment& env, worker_lanes_options options,
               std::function<void()> progress);
  ~worker_lanes();

  // -- the worker actor --

  /// Starts the lanes at the first call. Everything of the life before ends.
  void begin_life(const origin& self, term_no term, worker_routes routes);
  /// Drops what is queued, cancels what runs. Nothing of this life is reported any more.
  void end_life();
  void add_variables(const std::vector<variable_spec>& variables);
  /// Has a lane build resources, before any later closure.
  void make_resources(std::vector<resource_order> orders);
  void drop_resources(const std::vector<resource_id>& ids);
  void push(std::vector<closure_order> orders);
  /// Gives back up to `count` closures that have not started, youngest first; they go to the outbox
  /// as recalled. At least one entry is reported for each asked, so that the coordinator's count
  /// comes out even.
  void recall(std::uint32_t count);
  void cancel(const std::vector<closure_id>& ids, std::uint64_t grace_ms);
  /// Gives up lanes whose step is past its deadline or a cancel's grace: reports them and replaces
  /// the lane. Why the first of them was given up; none when none was.
  std::optional<failure> give_up_hung();
  /// Whether no lane is left: all that could be replaced were, and hung as well.
  bool exhausted() const;
  struct outbox {
    std::vector<attempt_ended> ended{};
    std::vector<resource_made> resources{};
    std::vector<attempt_begun> begun{}; ///< these wait for `let_begin`
    bool empty() const { return ended.empty() && resources.empty() && begun.empty(); }
  };
  outbox drain();
  /// Lets attempts begin, once the coordinator will hear of them whatever becomes of this process.
  void let_begin(const std::vector<attempt_begun>& which);
  /// Whether what is in the outbox shall wait for more (`report_batch`). If so, `progress` is
  /// called again when it no longer shall; the caller sees to it that it doesn't wait for a long
  /// step.
  bool hold();
  std::vector<lane_status> status() const;

  // -- the runtime --

  /// Takes no more work; running steps are cancelled.
  void stop();
  /// Waits for the lanes until `deadline`, then abandons those that still run. False when one was
  /// abandoned.
  bool join(time_point deadline);

private:
  friend class lane_step;
  struct running_step;
  struct life;
  struct job;
  struct lane_slot {
    std::unique_ptr<lane> thread{};
    std::shared_ptr<running_step> step{}; ///< null: idle
    std::shared_ptr<bool> gone{};         ///< set: this lane was given up and must leave
    std::uint32_t number = 0;
  };
  struct job {
    std::shared_ptr<life> of{};
    closure_order order{};
    resource_order make{};
    bool is_resource = false;
  };

  void start_lane(std::size_t at);
  void lane_body(std::uint32_t at, std::uint32_t number, const std::shared_ptr<bool>& gone);
  lane_slot* slot_of(std::uint32_t number);
  std::unique_ptr<parameter_client> make_client(const std::shared_ptr<life>& of,
                                                std::uint32_t number,
                                                const std::shared_ptr<running_step>& step);
  attempt_ended run_step_with_memory(const job& what, parameter_client& client, running_step& step);
  static attempt_ended not_begun(const job& what);
  attempt_ended run_step(const job& what, parameter_client& client, running_step& step);
  result<void> finish_result(const job& what, payload value, attempt_ended& end);
  result<payload> arguments_of(const job& what);
  void build_resource(const job& what, parameter_client& client, running_step& step);
  void report(const running_step& step, attempt_ended end, function_index function);
  failure report_given_up(const running_step& step);
  bool announce(std::unique_lock<std::mutex>& lock, running_step& step, const bool& gone);
  bool may_wait() const;
  bool more_alike() const;
  bool is_news(bool was_empty);
  bool keeps_quiet() const;

  const environment& env_;
  const worker_lanes_options options_;
  const std::function<void()> progress_;

  mutable std::mutex mutex_;
  std::unique_ptr<wait_point> work_;
  std::deque<job> jobs_{};
  std::vector<lane_slot> lanes_{};
  std::vector<std::unique_ptr<lane>> abandoned_{};
  std::uint32_t lanes_lost_ = 0;
  std::uint32_t next_lane_number_ = 0;
  std::shared_ptr<life> life_{};
  outbox out_{};
  function_index last_function_{}; ///< of the step that ended last
  bool quiet_ = false;             ///< the actor has not heard of what is in the outbox
  bool held_ = false;              ///< the actor waits for more in the outbox
  bool building_ = false;          ///< a lane makes a resource
  bool stopped_ = false;
};

} // namespace troupe
