#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <troupe/actors/membership/member_client.hpp>
#include <troupe/actors/worker/worker_executor.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/core/specs.hpp>
#include <troupe/messages/interfaces.hpp>
#include <troupe/messages/membership.hpp>

namespace troupe {

struct worker_actor_options {
  member_options member{};
  worker_executor_options executor{};
  /// Ways to servers and blobs for one session. `current` tells where the servers are, now and
  /// after every change; `data_address` is the coordinator's, empty within one process.
  std::function<worker_routes(std::shared_ptr<const std::function<view()>> current,
                              const std::string& data_address)>
    routes{};
  /// Makes a link to the coordinator for one session, and ends it; null where actors reach each
  /// other.
  std::function<void(const incarnation& self, term_no term, const std::string& address)> dial{};
  std::function<void(const incarnation& self)> hang_up{};
  /// Ends the process when a step hangs past its limit; within one process only the thread is given
  /// up.
  bool own_process = false;
  /// Takes a line for whoever looks after this process, before it ends by itself; may be null.
  std::function<void(const std::string& line)> say{};
  std::uint64_t check_ms = 50; ///< how often threads are checked for hung steps
  /// Set to the executor, for whoever joins its threads at the end.
  std::shared_ptr<std::shared_ptr<worker_executor>> executor_out{};
};

/// A worker: a member that owns compute threads and the resources that steps use there. Turns
/// orders into jobs of `worker_executor` and what they put out into reports.
class worker_state {
public:
  using interface = worker_actor;
  static constexpr const char* name = "troupe.worker";

  worker_state(interface::pointer self, const environment& env, worker_actor_options options);
  ~worker_state();
  interface::behavior_type make_behavior();
  void on_down(const caf::down_msg& msg) { member_.on_down(msg); }

private:
  enum timer : std::uint8_t { check_timer = 1, leave_timer = 2, report_timer = 3 };

  void on_admitted(const incarnation& inc, const view& current);
  void on_link_ended(const link_ended& msg);
  void on_admit(admit_worker& msg);
  void on_run(run_closures& msg);
  void on_recall(recall_closures& msg);
  void on_cancel(cancel_closures& msg);
  void on_variables(add_variables& msg);
  void on_make(make_resources& msg);
  void on_drop(drop_resources& msg);
  void on_progress();
  void send_report();
  void on_variable_wanted(variable_wanted& msg);
  void ask_variable(variable_spec wanted, std::shared_ptr<promise_slot<variable_spec>> reply);
  void on_device_failed(const device_failed& msg);
  worker_routes routes_for(const std::string& data_address);
  void on_tick(tick& msg);
  void keep_view(const view& current);
  void end_session();

  interface::pointer self_;
  const environment& env_;
  worker_actor_options options_;
  std::shared_ptr<worker_executor> executor_;
  coordinator_actor coordinator_{};
  /// The servers' addresses, for the threads.
  struct seen_view {
    std::mutex mutex{};
    view current{};
  };
  std::shared_ptr<seen_view> seen_{std::make_shared<seen_view>()};
  member_client<interface> member_;
  incarnation dialled_{}; ///< whose link was made
  bool leaving_ = false;
  bool report_timer_set_ = false;
};

worker_actor spawn_worker(caf::actor_system& system, const environment& env,
                          worker_actor_options options);

} // namespace troupe
