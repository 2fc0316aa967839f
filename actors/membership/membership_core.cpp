#include <troupe/actors/membership/membership_core.hpp>

#include <algorithm>
#include <utility>

#include <troupe/core/mac.hpp>

namespace troupe {

namespace {

namespace act = membership_action;

/// A late copy of a hello must not bring a fenced process back; older ones than these would be
/// admitted anew.
constexpr std::size_t fenced_nonces_max = 64;

constexpr duration ms(std::int64_t n) { return std::chrono::milliseconds{n}; }

} // namespace

membership_core::membership_core(membership_options options, time_point now)
  : options_{std::move(options)}, due_{after(now, ms(options_.tick_ms))} {
  view_.term = options_.term;
}

// -- hello ---------------------------------------------------------------------------------------

failure membership_core::check(const hello& msg) const {
  const std::string who = "hello of " + to_string(msg.task) + ": ";
  if (msg.version != options_.version)
    return make_failure(errc::wrong_peer, who + "protocol version " + std::to_string(msg.version)
                                            + ", expected " + std::to_string(options_.version));
  if (msg.cluster != options_.cluster)
    return make_failure(errc::wrong_peer, who + "cluster \"" + msg.cluster.substr(0, 100)
                                            + "\", expected \"" + options_.cluster + "\"");
  if (failure why = check_token(msg); why.code != errc::none)
    return why;
  if (msg.nonce == 0)
    return make_failure(errc::wrong_peer, who + "nonce 0");
  if (failure why = check_task(msg.task); why.code != errc::none)
    return why;
  return check_functions(msg);
}

failure membership_core::check_token(const hello& msg) const {
  const auto refused = [&](const char* how) {
    return make_failure(errc::wrong_peer, "hello of " + to_string(msg.task) + ": " + how + ": "
                                            + std::string{token_advice});
  };
  if (!options_.token_holds)
    return msg.token_mac.empty() ? failure{}
                                 : refused("it has a token, but the coordinator has none");
  if (msg.token_mac.empty())
    return refused("it has no token, but the coordinator requires one");
  return options_.token_holds(msg) ? failure{} : refused("its token is not the coordinator's");
}

failure membership_core::check_functions(const hello& msg) const {
  if (msg.functions_hash == options_.functions_hash)
    return {};
  std::string difference;
  if (!msg.functions.empty() || options_.functions.empty())
    difference = first_difference(options_.functions, msg.functions, "the coordinator's",
                                  to_string(msg.task) + "'s");
  if (difference.empty())
    difference = "the builds differ: function table " + std::to_string(msg.functions_hash)
                 + ", the coordinator's " + std::to_string(options_.functions_hash);
  return make_failure(errc::wrong_peer, "hello of " + to_string(msg.task) + ": " + difference);
}

failure membership_core::check_task(const task_id& task) const {
  const std::string who = "hello of " + to_string(task) + ": ";
  switch (task.job) {
    case job_kind::chief:
      return make_failure(errc::task_taken, who + "the coordinator itself is the chief");
    case job_kind::evaluator:
      return make_failure(errc::bad_config,
                          who + "an evaluator does not join the training cluster");
    case job_kind::worker:
      if (task.index < options_.workers
          || (options_.worker_index_max > 0 && task.index <= options_.worker_index_max))
        return {};
      return make_failure(errc::bad_config,
                          who + "the cluster has " + std::to_string(options_.workers) + " workers");
    case job_kind::ps:
      if (task.index < options_.servers)
        return {};
      return make_failure(errc::bad_config,
                          who + "the cluster has " + std::to_string(options_.servers) + " servers");
  }
  return make_failure(errc::bad_config, who + "unknown job");
}

membership_actions membership_core::on_hello(const hello& msg, hello_no request, time_point now) {
  membership_actions to;
  notice_lateness(now);
  if (failure why = check(msg); why.code != errc::none) {
    to.push_back(act::refuse{request, std::move(why)});
    return to;
  }
  seat& s = seats_[msg.task];
  const auto& old = s.fenced_nonces;
  if (s.live && s.inc.nonce == msg.nonce) {
    to.push_back(act::welcome{request, msg.task, s.inc}); // its answer was lost
  } else if (std::find(old.begin(), old.end(), msg.nonce) != old.end()) {
    to.push_back(act::refuse{
      request,
      make_failure(errc::fenced,
                   to_string(msg.task)
                     + ": the incarnation with this nonce is fenced; rejoin with a new nonce")});
  } else if (s.live) {
    contest(s, msg, request, now, to);
  } else {
    admit(msg, request, now, to);
  }
  publish(to);
  return to;
}

/// Another process wants a live member's task.
void membership_core::contest(seat& s, const hello& msg, hello_no request, time_point now,
                              membership_actions& to) {
  if (s.waiting && s.waiting->msg.nonce == msg.nonce) {
    to.push_back(act::refuse{
      s.waiting->request,
      make_failure(errc::try_again,
                   to_string(msg.task) + ": the request was superseded by a newer one")});
    s.waiting->request = request;
    return;
  }
  if (s.waiting) {
    to.push_back(act::refuse{
      request,
      make_failure(errc::try_again,
                   to_string(msg.task) + ": another process is already requesting this task")});
    return;
  }
  s.waiting = newcomer{.msg = msg,
                       .request = request,
                       .second_probe = after(now, ms(options_.probe_ms / 2)),
                       .decision = after(now, ms(options_.probe_ms))};
  to.push_back(act::probe{msg.task, s.inc});
}

/// @pre the task is free.
void membership_core::admit(const hello& msg, hello_no request, time_point now,
                            membership_actions& to) {
  seat& s = seats_[msg.task];
  TROUPE_ASSERT(!s.live, "INV-M1 a task is admitted once");
  s.live = true;
  s.inc = {s.inc.counter + 1, msg.nonce};
  TROUPE_ASSERT(s.inc.counter > s.fenced_counter, "INV-M3 what is fenced is never admitted");
  s.data_address = msg.data_address;
  s.control_address = msg.control_address;
  s.detector = phi_accrual{options_.detector, now};
  changed_ = true;
  to.push_back(act::welcome{request, msg.task, s.inc});
  to.push_back(act::joined{member_of(msg.task, s)});
}

membership_actions membership_core::on_hello_gone(hello_no request, time_point now) {
  notice_lateness(now);
  for (auto& [task, s] : seats_)
    if (s.waiting && s.waiting->request == request)
      s.waiting.reset();
  return {};
}

// -- life and death ------------------------------------------------------------------------------

/// The judge was away: nobody's silence counts for that long. Called with every input, because what
/// waited in the mailbox may come before the late tick.
void membership_core::notice_lateness(time_point now) {
  if (now <= due_)
    return;
  const duration late = now - std::exchange(due_, now);
  for (auto& [task, s] : seats_) {
    s.detector.note_delay(late, now);
    if (s.waiting) {
      s.waiting->second_probe += late;
      s.waiting->decision += late;
    }
  }
}

membership_core::seat* membership_core::live_seat(const task_id& task, const incarnation& who) {
  const auto it = seats_.find(task);
  return it != seats_.end() && it->second.live && it->second.inc == who ? &it->second : nullptr;
}

membership_actions membership_core::on_heartbeat(const task_id& task, const incarnation& from,
                                                 time_point now) {
  membership_actions to;
  notice_lateness(now);
  seat* s = live_seat(task, from);
  if (!s) {
    if (check_task(task).code == errc::none) // a stranger hears nothing
      to.push_back(act::fence{task, from});
    return to;
  }
  s->detector.heartbeat(now);
  if (s->waiting && s->waiting->probed_twice) {
    to.push_back(
      act::refuse{s->waiting->request,
                  make_failure(errc::task_taken, to_string(task)
                                                   + " is held by a live process with incarnation "
                                                   + std::to_string(s->inc.counter))});
    s->waiting.reset();
  }
  return to;
}

void membership_core::remove(const task_id& task, seat& s, std::string reason, bool clean,
                             time_point now, membership_actions& to) {
  s.live = false;
  s.fenced_counter = s.inc.counter;
  s.fenced_nonces.push_back(s.inc.nonce);
  if (s.fenced_nonces.size() > fenced_nonces_max)
    s.fenced_nonces.pop_front();
  changed_ = true;
  to.push_back(act::lost{member_of(task, s), std::move(reason), clean});
  if (auto next = std::exchange(s.waiting, std::nullopt))
    admit(next->msg, next->request, now, to);
}

membership_actions membership_core::on_lost_socket(const task_id& task, const incarnation& of,
                                                   time_point now) {
  membership_actions to;
  notice_lateness(now);
  if (seat* s = live_seat(task, of))
    remove(task, *s, "its connection ended", false, now, to);
  publish(to);
  return to;
}

membership_actions membership_core::on_left(const task_id& task, const incarnation& who,
                                            time_point now) {
  membership_actions to;
  notice_lateness(now);
  if (seat* s = live_seat(task, who))
    remove(task, *s, "it left", true, now, to);
  publish(to);
  return to;
}

membership_actions membership_core::on_launcher_says_dead(const task_id& task, time_point now) {
  membership_actions to;
  notice_lateness(now);
  if (const auto it = seats_.find(task); it != seats_.end() && it->second.live)
    remove(task, it->second, "reported dead by its launcher", false, now, to);
  publish(to);
  return to;
}

membership_actions membership_core::on_fence(const task_id& task, const incarnation& who,
                                             std::string reason, time_point now) {
  membership_actions to;
  notice_lateness(now);
  if (seat* s = live_seat(task, who)) {
    to.push_back(act::fence{task, who});
    remove(task, *s, std::move(reason), false, now, to);
  }
  publish(to);
  return to;
}

membership_actions membership_core::on_tick(time_point now) {
  membership_actions to;
  notice_lateness(now);
  due_ = after(now, ms(options_.tick_ms));
  for (auto& [task, s] : seats_)
    if (s.live)
      decide(task, s, now, to);
  publish(to);
  return to;
}

void membership_core::decide(const task_id& task, seat& s, time_point now, membership_actions& to) {
  if (s.waiting && s.waiting->probed_twice && now >= s.waiting->decision) {
    to.push_back(act::fence{task, s.inc});
    remove(task, s,
           "it was silent for " + std::to_string(options_.probe_ms)
             + " ms while another process asked for its task",
           false, now, to);
    return;
  }
  if (s.waiting && !s.waiting->probed_twice && now >= s.waiting->second_probe) {
    s.waiting->probed_twice = true;
    // The second probe has its time too when the first tick after it comes late.
    s.waiting->decision = std::max(s.waiting->decision, after(now, ms(options_.probe_ms / 2)));
    to.push_back(act::probe{task, s.inc});
  }
  if (s.detector.suspicious(now)) {
    to.push_back(act::fence{task, s.inc});
    remove(task, s, "it was silent for " + std::to_string(to_ms(s.detector.silence(now))) + " ms",
           false, now, to);
  }
}

// -- views ---------------------------------------------------------------------------------------

member membership_core::member_of(const task_id& task, const seat& s) const {
  return {.task = task, .inc = s.inc, .data_address = s.data_address};
}

void membership_core::publish(membership_actions& to) {
  if (!std::exchange(changed_, false))
    return;
  view_.epoch = next(view_.epoch);
  view_.members.clear();
  view_.fences.clear();
  for (const auto& [task, s] : seats_) {
    if (s.live)
      view_.members.push_back(member_of(task, s));
    if (s.fenced_counter > 0)
      view_.fences.push_back({.task = task, .counter = s.fenced_counter});
  }
  to.push_back(act::new_view{});
}

bool membership_core::is_live(const task_id& task, const incarnation& who) const {
  const auto it = seats_.find(task);
  return it != seats_.end() && it->second.live && it->second.inc == who;
}

std::string membership_core::control_address(const task_id& task) const {
  const auto it = seats_.find(task);
  return it != seats_.end() && it->second.live ? it->second.control_address : std::string{};
}

std::vector<member_status> membership_core::statuses(time_point now) const {
  std::map<task_id, member_status> all;
  for (std::uint32_t i = 0; i < options_.workers; ++i)
    all[{job_kind::worker, i}] = {};
  for (std::uint32_t i = 0; i < options_.servers; ++i)
    all[{job_kind::ps, i}] = {};
  for (const auto& [task, s] : seats_)
    all[task] = {.inc = s.inc,
                 .live = s.live,
                 .phi = s.live ? s.detector.phi(now) : 0.0,
                 .silent_ms = s.live ? to_ms(s.detector.silence(now)) : 0};
  std::vector<member_status> list;
  for (auto& [task, status] : all) {
    status.task = task;
    list.push_back(status);
  }
  return list;
}

std::size_t membership_core::live_count(job_kind job) const {
  return static_cast<std::size_t>(std::count_if(
    seats_.begin(), seats_.end(),
    [job](const auto& entry) { return entry.first.job == job && entry.second.live; }));
}

} // namespace troupe
