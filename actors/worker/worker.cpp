#include <troupe/actors/worker/worker.hpp>

#include <troupe/core/caf_relay.hpp>
#include <troupe/core/exit_code.hpp>
#include <troupe/messages/admission.hpp>
#include <troupe/messages/closures.hpp>
#include <troupe/messages/devices.hpp>
#include <troupe/messages/links.hpp>
#include <troupe/messages/resources.hpp>
#include <troupe/messages/tick.hpp>
#include <troupe/messages/variables.hpp>

namespace troupe {

namespace {
constexpr int hung_step_exit_code = static_cast<int>(exit_code::step_deadline);
constexpr std::uint64_t leave_ms = 1'000;
/// The longest that an end waits for others to be reported with.
constexpr std::uint64_t report_ms_max = 1;
/// Results in one report, so that it stays a small message.
constexpr std::size_t report_bytes_max = message_bytes_max - 8 * 1024;
} // namespace

worker_state::worker_state(interface::pointer self, const environment& env,
                           worker_actor_options options)
  : self_{self},
    env_{env},
    options_{std::move(options)},
    member_{self,
            env,
            options_.member,
            {.on_admitted = [this](const incarnation& inc,
                                   const view& current) { on_admitted(inc, current); },
             .on_view = [this](const view& current) { keep_view(current); },
             .on_fenced = [this] { end_session(); },
             .threads = [this] { return executor_->status(); }}} {
  // the threads must not keep the actor alive: they would hold each other
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(self_handle<worker_actor>(self_));
  executor_ = std::make_shared<worker_executor>(env_, options_.executor, [weak] {
    if (auto strong = weak.lock())
      tell_here(caf::actor_cast<worker_actor>(strong), thread_progress{});
  });
  if (options_.executor_out)
    *options_.executor_out = executor_;
}

worker_state::~worker_state() { executor_->stop(); }

auto worker_state::make_behavior() -> interface::behavior_type {
  member_.start();
  tell_after(self_, self_handle<worker_actor>(self_), std::chrono::milliseconds{options_.check_ms},
             tick{.what = check_timer});
  return {
    [this](view_changed& msg) { member_.on_view(msg); },
    [this](probe_member& msg) { member_.on_probe(msg); },
    [this](fenced_notice& msg) {
      if (leaving_ && options_.own_process)
        env_.threads.leave_now(hung_step_exit_code);
      member_.on_fenced(msg);
    },
    [this](end_member& msg) { member_.on_end(msg); },
    [this](leave_cluster& msg) {
      if (msg.here.value)
        member_.leave_now();
    },
    [this](link_ended& msg) { on_link_ended(msg); },
    [this](admit_worker& msg) { on_admit(msg); },
    [this](run_closures& msg) { on_run(msg); },
    [this](recall_closures& msg) { on_recall(msg); },
    [this](cancel_closures& msg) { on_cancel(msg); },
    [this](add_variables& msg) { on_variables(msg); },
    [this](make_resources& msg) { on_make(msg); },
    [this](drop_resources& msg) { on_drop(msg); },
    [this](thread_progress&) { on_progress(); },
    [this](variable_wanted& msg) { on_variable_wanted(msg); },
    [this](device_failed& msg) { on_device_failed(msg); },
    [this](tick& msg) { on_tick(msg); },
  };
}

void worker_state::keep_view(const view& current) {
  std::lock_guard lock{seen_->mutex};
  seen_->current = current;
}

void worker_state::end_session() {
  coordinator_ = nullptr;
  executor_->end_session();
  if (dialled_.counter != 0)
    options_.hang_up(std::exchange(dialled_, {}));
}

void worker_state::on_admitted(const incarnation& inc, const view& current) {
  keep_view(current);
  if (!options_.dial || member_.link_address().empty())
    return;
  dialled_ = inc;
  options_.dial(inc, current.term, member_.link_address());
}

void worker_state::on_link_ended(const link_ended& msg) {
  if (!msg.here.value || msg.clean || msg.inc != member_.inc())
    return mark(env_, "worker.old_link_ended");
  member_.on_link_lost(msg.reason);
}

void worker_state::on_admit(admit_worker& msg) {
  if (msg.header.receiver != member_.inc() || msg.header.term < member_.current().term)
    return;
  member_.learn_term(msg.header.term);
  coordinator_ = caf::actor_cast<coordinator_actor>(self_->current_sender());
  origin self{.task = options_.member.task, .inc = member_.inc(), .epoch = member_.current().epoch};
  executor_->begin_session(self, msg.header.term, routes_for(msg.data_address));
  executor_->add_variables(msg.variables);
  executor_->make_resources(std::move(msg.resources));
}

namespace {

/// Looks up from time to time, so that a step which is cancelled or given up doesn't wait on. The
/// coordinator answers once the servers have made the variable, or one of them makes no progress;
/// should it be lost, the worker's session ends.
result<variable_spec> await_variable(const environment& env, promise_slot<variable_spec>& reply,
                                     const std::string& name,
                                     const std::function<bool()>& interrupted) {
  constexpr std::chrono::milliseconds look_up{20};
  const auto what = "create variable '" + name + "'";
  for (;;) {
    auto made = reply.poll_until(after(env.clock.now(), look_up), what);
    if (made || made.error().code != errc::deadline)
      return made;
    if (interrupted())
      return make_failure(errc::cancelled, what + ": the step was interrupted");
  }
}

} // namespace

worker_routes worker_state::routes_for(const std::string& data_address) {
  auto current = std::make_shared<const std::function<view()>>([seen = seen_] {
    std::lock_guard lock{seen->mutex};
    return seen->current;
  });
  auto out = options_.routes(current, data_address);
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(self_handle<worker_actor>(self_));
  out.get_or_create = [weak, env = env_](
                        const variable_spec& wanted,
                        const std::function<bool()>& interrupted) -> result<variable_spec> {
    auto reply = std::make_shared<promise_slot<variable_spec>>(env);
    if (auto strong = weak.lock())
      tell_from_outside(caf::actor_cast<worker_actor>(strong),
                        variable_wanted{.wanted = wanted, .reply = {reply}});
    return await_variable(env, *reply, wanted.name, interrupted);
  };
  return out;
}

void worker_state::on_variable_wanted(variable_wanted& msg) {
  auto reply = msg.reply.value;
  if (!reply) // came over the network, where nobody may ask this
    return;
  ask_variable(std::move(msg.wanted), std::move(reply));
}

/// Asks again, of the coordinator that is there, when the answer takes longer than a request may:
/// it finds the same variable.
void worker_state::ask_variable(variable_spec wanted,
                                std::shared_ptr<promise_slot<variable_spec>> reply) {
  if (!coordinator_)
    return reply->set(make_failure(errc::cancelled, "the worker is no longer a member"));
  const auto limit =
    std::chrono::duration_cast<std::chrono::milliseconds>(options_.executor.request_max);
  const auto asked = env_.clock.now();
  ask(
    self_, coordinator_, limit, request_variable{.header = member_.header(), .wanted = wanted},
    [reply](variable_answer& answer) {
      if (answer.why.code != errc::none)
        reply->set(std::move(answer.why));
      else
        reply->set(std::move(answer.made));
    },
    [this, reply, wanted, asked, limit](const std::string& why) {
      if (env_.clock.now() - asked >= limit) // it may be at work on it
        return ask_variable(wanted, reply);
      reply->set(make_failure(errc::unavailable,
                              "create variable: the coordinator does not answer: " + why));
    });
}

/// What ran there cannot be trusted and nothing can run there any more: others shall get the work.
void worker_state::on_device_failed(const device_failed& msg) {
  if (!msg.here.value || leaving_)
    return;
  trace(env_, "worker.device_failed",
        {{"task", to_string(options_.member.task)}, {"device", msg.device}, {"why", msg.why.text}});
  mark(env_, "worker.device_failed");
  leaving_ = true;
  send_report();
  member_.leave_now(msg.why);
}

void worker_state::on_run(run_closures& msg) {
  if (member_.accepts(msg.header))
    executor_->push(std::move(msg.orders));
}

void worker_state::on_recall(recall_closures& msg) {
  if (member_.accepts(msg.header))
    executor_->recall(msg.count);
}

void worker_state::on_cancel(cancel_closures& msg) {
  if (member_.accepts(msg.header))
    executor_->cancel(msg.ids, msg.grace_ms);
}

void worker_state::on_variables(add_variables& msg) {
  if (member_.accepts(msg.header))
    executor_->add_variables(msg.variables);
}

void worker_state::on_make(make_resources& msg) {
  if (member_.accepts(msg.header))
    executor_->make_resources(std::move(msg.orders));
}

void worker_state::on_drop(drop_resources& msg) {
  if (member_.accepts(msg.header))
    executor_->drop_resources(msg.ids);
}

void worker_state::on_progress() {
  if (executor_->wait_for_more_ends()) {
    if (!std::exchange(report_timer_set_, true)) // a step behind these may run for long
      tell_after(self_, self_handle<worker_actor>(self_), std::chrono::milliseconds{report_ms_max},
                 tick{.what = report_timer});
    return;
  }
  send_report();
}

void worker_state::send_report() {
  auto out = executor_->drain();
  if (!coordinator_ || out.empty())
    return executor_->let_begin(out.begun);
  worker_report report{
    .header = member_.header(), .ended = {}, .resources = std::move(out.resources)};
  std::size_t bytes = 0;
  for (auto& end : out.ended) {
    if (end.why.text.size() > inline_bytes_max) // a user's exception may say anything
      end.why.text.resize(inline_bytes_max);
    bytes += end.result.size() + end.why.text.size() + 96;
    if (bytes > report_bytes_max && !report.ended.empty()) {
      tell(self_, coordinator_, std::exchange(report, worker_report{.header = member_.header()}));
      bytes = end.result.size() + end.why.text.size() + 96;
    }
    report.ended.push_back(std::move(end));
  }
  report.begun = out.begun; // behind the ends before them
  tell(self_, coordinator_, std::move(report));
  executor_->let_begin(out.begun);
  mark(env_, "worker.result_sent");
}

void worker_state::on_tick(tick& msg) {
  if (member_.on_tick(msg))
    return;
  if (msg.what == report_timer) {
    report_timer_set_ = false;
    return send_report();
  }
  if (msg.what == leave_timer)
    env_.threads.leave_now(hung_step_exit_code);
  send_report(); // what threads kept quiet about, should a long step have followed
  auto hung = executor_->give_up_hung();
  if (hung && options_.own_process && !leaving_) {
    if (options_.say)
      options_.say(to_string(options_.member.task) + ": " + hung->text
                   + "; a running step cannot be stopped, so this process exits with code "
                   + std::to_string(hung_step_exit_code) + " and may be restarted");
    leaving_ = true; // the report goes first; then the fence, or the timer, ends this process
    tell_after(self_, self_handle<worker_actor>(self_), std::chrono::milliseconds{leave_ms},
               tick{.what = leave_timer});
  } else if (executor_->exhausted() && !leaving_) {
    leaving_ = true; // nothing can run here any more: others shall get the work
    send_report();
    member_.leave_now(make_failure(errc::unavailable, "all its threads hang in steps"));
    return;
  }
  tell_after(self_, self_handle<worker_actor>(self_), std::chrono::milliseconds{options_.check_ms},
             tick{.what = check_timer});
}

worker_actor spawn_worker(caf::actor_system& system, const environment& env,
                          worker_actor_options options) {
  return spawn_state<worker_state>(system, std::cref(env), std::move(options));
}

} // namespace troupe
