#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <troupe/actors/support/supervised_threads.hpp>
#include <troupe/actors/worker/report_coalescer.hpp>
#include <troupe/actors/worker/worker_job.hpp>
#include <troupe/actors/worker/worker_routes.hpp>
#include <troupe/core/environment.hpp>
#include <troupe/core/limits.hpp>
#include <troupe/messages/closures.hpp>
#include <troupe/messages/fwd.hpp>
#include <troupe/messages/resources.hpp>

namespace troupe {

class device_context; // device/context.hpp
struct running_step;  // actors/worker/detail/running_step.hpp

struct worker_executor_options {
  task_id task{.job = job_kind::worker, .index = 0};
  std::uint32_t threads = 1;
  std::uint32_t threads_lost_max =
    4;                             ///< replaced when hung; one more and the worker is `unavailable`
  bool effect_once = true;         ///< off: the servers' ledgers let a repeated operation through
  std::uint64_t grace_ms = 10'000; ///< for a step of a session that ended
  /// A server that owes this worker an answer and does nothing for longer is given up.
  duration request_max = limits::request;
  /// Which ends of steps are reported together: see `report_limits`. The owner drains the outbox
  /// now and then, in case a long step follows what a thread left unreported.
  std::size_t report_batch = 1;
  std::size_t report_queue_min = 8;
  std::size_t quiet_batch = 1;
  /// A resource's function that runs for longer is given up as a hung step is.
  std::uint64_t build_ms_max = 600'000;
  /// The device that the thread's steps run on; null: they have none. Called on the thread, once,
  /// when a step first asks; waits. `slot`: the thread's place, below `threads`.
  std::function<result<std::shared_ptr<device_context>>(std::uint32_t slot)> device_of{};
};

/// The compute threads of a worker and what waits for them. Steps run one at a time a thread, in
/// the order pushed. A *session* is the time under one incarnation: what an earlier one still runs
/// is cancelled, and what it produces is thrown away. Shared between the worker actor, which calls
/// everything here without waiting, and the threads; the runtime joins them at the end.
/// Thread-safe.
class worker_executor : public std::enable_shared_from_this<worker_executor> {
public:
  using outbox = worker_outbox;

  /// `progress`: called on a thread when the outbox was empty and no longer is; must not wait.
  worker_executor(const environment& env, worker_executor_options options,
                  std::function<void()> progress);
  ~worker_executor();

  // -- the worker actor --

  /// Starts the threads at the first call. Everything of the session before ends.
  void begin_session(const origin& self, term_no term, worker_routes routes);
  /// Drops what is queued, cancels what runs. Nothing of this session is reported any more.
  void end_session();
  void add_variables(const std::vector<variable_spec>& variables);
  /// Has a thread build resources, before any later closure.
  void make_resources(std::vector<resource_order> orders);
  void drop_resources(const std::vector<resource_id>& ids);
  void push(std::vector<closure_order> orders);
  /// Gives back up to `count` closures that have not started, youngest first; they go to the outbox
  /// as recalled. At least one entry is reported for each asked, so that the coordinator's count
  /// comes out even.
  void recall(std::uint32_t count);
  void cancel(const std::vector<closure_id>& ids, std::uint64_t grace_ms);
  /// Gives up threads whose step is past its deadline or a cancel's grace: reports them and
  /// replaces the thread. Why the first of them was given up; none when none was, and none
  /// once closed: `join` gives them up then.
  std::optional<failure> give_up_hung();
  /// Whether no thread is left: all that could be replaced were, and hung as well.
  bool exhausted() const;
  outbox drain();
  /// Lets attempts begin, once the coordinator will hear of them whatever becomes of this process.
  void let_begin(const std::vector<attempt_begun>& which);
  /// Whether what is in the outbox shall wait for more. If so, `progress` is called again when it
  /// no longer shall; the caller sees to it that it doesn't wait for a long step.
  bool wait_for_more_ends();
  /// What the threads are at; empty once closed.
  std::vector<thread_status> status() const;

  // -- the runtime --

  /// Takes no more work; running steps are cancelled.
  void stop();
  /// Waits for the threads until `deadline`, then abandons those that still run. False when one was
  /// abandoned.
  bool join(time_point deadline);

private:
  using post = supervised_threads::post;
  struct thread_state;

  void end_session_locked();
  void start_thread(std::uint32_t place);
  void serve(const post& mine);
  std::optional<worker_job> take_job();
  void run_job(const worker_job& what, thread_state& here, std::unique_lock<std::mutex>& lock);
  void begin_job(const worker_job& what, thread_state& here);
  void end_job(const worker_job& what, const std::shared_ptr<running_step>& step);
  bool announce(std::unique_lock<std::mutex>& lock, running_step& step);
  void report(const running_step& step, attempt_ended end);
  void report_built(const worker_job& what, const running_step& step, resource made, failure why);
  failure report_given_up(const running_step& step);
  report_coalescer::queue_state queue() const;

  const environment& env_;
  const worker_executor_options options_;
  const std::function<void()> progress_;

  mutable std::mutex mutex_;
  std::unique_ptr<wait_point> work_;
  std::deque<worker_job> jobs_;
  supervised_threads threads_;
  std::vector<std::shared_ptr<running_step>> running_; ///< by place; null: idle
  std::shared_ptr<worker_session> session_{};
  report_coalescer reports_;
  bool started_ = false;
  bool building_ = false; ///< a thread makes a resource
};

} // namespace troupe
