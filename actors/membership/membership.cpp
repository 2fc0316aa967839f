#include <troupe/actors/membership/membership.hpp>

#include <algorithm>
#include <utility>

#include <troupe/core/mac.hpp>
#include <troupe/messages/tick.hpp>

namespace troupe {

namespace {

membership_options with_token(membership_actor_options& options) {
  auto core = std::move(options.core);
  if (!options.token.empty())
    core.token_holds = [token = options.token](const hello& msg) {
      return proves_token(msg.token_mac, token, hello_text(msg));
    };
  return core;
}

} // namespace

membership_state::membership_state(interface::pointer self, const environment& env,
                                   membership_actor_options options)
  : self_{self},
    env_{env},
    options_{std::move(options)},
    core_{with_token(options_), env.clock.now()},
    port_{self,
          {.network = options_.network,
           .who = "the coordinator",
           .host = options_.listen_host,
           .port = options_.listen_port,
           .request_ms = options_.publish_ms}} {}

membership_state::~membership_state() {
  if (options_.ended)
    options_.ended->set(true);
  if (options_.published)
    options_.published->set(make_failure(errc::unavailable, "the membership has ended"));
}

auto membership_state::make_behavior() -> interface::behavior_type {
  trace(env_, "membership.began", {{"cluster", options_.core.cluster}}); // after any other's end
  publish();
  later(check_timer, static_cast<std::uint64_t>(options_.core.tick_ms));
  return {
    [this](hello& msg) { return on_hello(msg); }, [this](heartbeat& msg) { on_heartbeat(msg); },
    [this](leave& msg) { on_leave(msg); },        [this](follow_members&) { on_follow(); },
    [this](fence_member& msg) { on_fence(msg); }, [this](end_cluster& msg) { on_end(msg); },
    [this](tick& msg) { on_tick(msg); },
  };
}

void membership_state::publish() {
  if (!options_.network)
    return;
  port_.open(
    caf::actor_cast<caf::strong_actor_ptr>(self_handle<interface>(self_)),
    [this](std::uint16_t port) {
      if (options_.published)
        options_.published->set(port);
    },
    [this](failure why) {
      if (options_.published)
        options_.published->set(std::move(why));
    },
    [this](std::uint64_t ms) { later(publish_timer, ms); });
}

message_header membership_state::header(const incarnation& receiver) {
  return {.term = core_.current().term,
          .epoch = core_.current().epoch,
          .from = {.job = job_kind::chief, .index = 0},
          .sender = {},
          .receiver = receiver,
          .request = static_cast<request_no>(++next_request_)};
}

// --- members speak
// ----------------------------------------------------------------------------------------------

caf::result<hello_answer> membership_state::on_hello(hello& msg) {
  auto sender =
    caf::strong_actor_ptr{self_->current_sender()}; // before the promise, which takes it
  auto promise = self_->make_response_promise<hello_answer>();
  if (!sender)
    return promise;
  if (ending_) {
    promise.deliver(hello_answer{.why = ending_why_, .ending = true});
    return promise;
  }
  if (ended_) { // steps down: the next coordinator at this address admits
    promise.deliver(
      hello_answer{.why = make_failure(errc::try_again, "the coordinator is ending")});
    return promise;
  }
  auto number = static_cast<hello_no>(++next_hello_);
  bool known = std::any_of(peers_.begin(), peers_.end(),
                           [&](const auto& p) { return p.second.handle == sender; });
  if (!known) // a member only asks whether we live
    self_->monitor(sender);
  waiting_[number] = {.promise = promise, .handle = sender};
  act(core_.on_hello(msg, number, env_.clock.now()));
  return promise;
}

void membership_state::on_heartbeat(heartbeat& msg) {
  auto actions = core_.on_heartbeat(msg.header.from, msg.header.sender, env_.clock.now());
  bool live = core_.is_live(msg.header.from, msg.header.sender);
  if (!live) { // answer whoever sent it: its handle is not that of a member
    mark(env_, "membership.stale_sender_refused");
    if (auto sender = self_->current_sender())
      tell_member(sender, fenced_notice{.header = header(msg.header.sender)});
  }
  act(std::move(actions));
  if (live)
    announce_if_new(msg.header.from);
  if (live && coordinator_ && msg.header.from.job == job_kind::worker && !msg.threads.empty())
    tell(self_, coordinator_,
         threads_seen{
           .task = msg.header.from, .inc = msg.header.sender, .threads = std::move(msg.threads)});
}

void membership_state::on_leave(leave& msg) {
  act(core_.on_left(msg.header.from, msg.header.sender, env_.clock.now()));
}

void membership_state::on_down(const caf::down_msg& msg) {
  auto now = env_.clock.now();
  std::vector<hello_no> gone;
  for (const auto& [number, asked] : waiting_)
    if (asked.handle->address() == msg.source)
      gone.push_back(number);
  for (auto number : gone) {
    waiting_.erase(number);
    act(core_.on_hello_gone(number, now));
  }
  std::vector<peer> lost;
  for (const auto& [task, p] : peers_)
    if (p.handle->address() == msg.source)
      lost.push_back(p);
  for (const auto& p : lost) {
    trace(env_, "membership.socket_lost",
          {{"task", to_string(p.task)}, {"incarnation", p.inc.counter}});
    act(ending_ ? core_.on_left(p.task, p.inc, now) : core_.on_lost_socket(p.task, p.inc, now));
  }
}

// --- the coordinator speaks
// -------------------------------------------------------------------------------------

/// Whether the message being handled was sent by an actor of this process.
bool membership_state::is_from_here() const {
  auto sender = self_->current_sender();
  if (sender && sender->node() == self_->node())
    return true;
  mark(env_, "membership.stranger_refused");
  return false;
}

void membership_state::on_follow() {
  if (!is_from_here())
    return;
  coordinator_ = caf::actor_cast<coordinator_actor>(self_->current_sender());
  for (const auto& who : core_.current().members)
    if (auto at = peers_.find(who.task); at != peers_.end() && at->second.announced)
      announce(who);
}

void membership_state::on_fence(fence_member& msg) {
  if (!is_from_here())
    return;
  act(core_.on_fence(msg.task, msg.inc, msg.reason, env_.clock.now()));
}

void membership_state::on_end(end_cluster& msg) {
  if (!msg.here.value)
    return mark(env_, "membership.stranger_refused");
  coordinator_ = nullptr;
  if (msg.members_stay)
    return end();
  ending_ = true;
  ending_why_ = std::move(msg.why);
  for (const auto& [task, p] : peers_)
    tell_member(p.handle, end_member{.header = header(p.inc), .why = ending_why_});
  later(end_timer, msg.deadline_ms);
  check_ended();
}

void membership_state::check_ended() {
  if (ending_ && core_.current().members.empty())
    end();
}

/// Nobody shall find a dead actor at the port.
void membership_state::end() {
  if (std::exchange(ended_, true))
    return;
  port_.close([this] { self_->quit(); });
}

void membership_state::on_tick(tick& msg) {
  if (!is_from_here())
    return;
  if (msg.what == end_timer)
    return end();
  if (msg.what == publish_timer)
    return port_.retry_open();
  later(check_timer, static_cast<std::uint64_t>(options_.core.tick_ms));
  act(core_.on_tick(env_.clock.now()));
}

void membership_state::later(timer what, std::uint64_t ms) {
  tell_after(self_, self_handle<interface>(self_), std::chrono::milliseconds{ms},
             tick{.what = what});
}

// --- what the core decided
// --------------------------------------------------------------------------------------

void membership_state::act(membership_actions actions) {
  using namespace membership_action;
  for (auto& action : actions)
    std::visit(
      [this](auto& a) {
        using what = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<what, membership_action::welcome>)
          this->welcome(a);
        else if constexpr (std::is_same_v<what, membership_action::refuse>)
          this->refuse(a);
        else if constexpr (std::is_same_v<what, probe>) {
          if (auto at = peers_.find(a.task); at != peers_.end())
            tell_member(at->second.handle, probe_member{.header = header(a.inc)});
        } else if constexpr (std::is_same_v<what, membership_action::fence>)
          tell_fenced(a.task, a.inc);
        else if constexpr (std::is_same_v<what, membership_action::joined>)
          this->joined(a.who);
        else if constexpr (std::is_same_v<what, membership_action::lost>)
          this->lost(a);
        else
          tell_views();
      },
      action);
  check_ended();
}

void membership_state::welcome(const membership_action::welcome& what) {
  auto at = waiting_.find(what.to);
  if (at == waiting_.end())
    return;
  auto& p = peers_[what.task];
  p = {.task = what.task,
       .inc = what.inc,
       .handle = at->second.handle,
       .announced = p.announced && p.inc == what.inc};
  at->second.promise.deliver(hello_answer{
    .why = {},
    .inc = what.inc,
    .current = core_.current(),
    .link_address = what.task.job == job_kind::worker ? options_.link_address : std::string{}});
  waiting_.erase(at);
}

void membership_state::refuse(const membership_action::refuse& what) {
  auto at = waiting_.find(what.to);
  if (at == waiting_.end())
    return;
  trace(env_, "membership.refused", {{"code", to_string(what.why.code)}, {"why", what.why.text}});
  if (options_.on_refused && what.why.code != errc::try_again && what.why.code != errc::fenced)
    options_.on_refused(what.why);
  if (what.why.code == errc::task_taken)
    mark(env_, "membership.task_taken");
  at->second.promise.deliver(hello_answer{.why = what.why});
  waiting_.erase(at);
}

void membership_state::joined(const member& who) {
  trace(env_, "membership.joined",
        {{"task", to_string(who.task)},
         {"incarnation", who.inc.counter},
         {"nonce", who.inc.nonce},
         {"epoch", core_.current().epoch}});
}

/// With its first heartbeat a member shows that its welcome has arrived. Before that it would take
/// what the coordinator sends for somebody else's, and nobody would send it again.
void membership_state::announce_if_new(const task_id& task) {
  auto at = peers_.find(task);
  if (at == peers_.end() || std::exchange(at->second.announced, true))
    return;
  for (const auto& who : core_.current().members)
    if (who.task == task)
      announce(who);
}

void membership_state::announce(const member& who) {
  if (coordinator_)
    tell(
      self_, coordinator_,
      member_joined{.who = who, .current = core_.current(), .handle = peers_.at(who.task).handle});
}

void membership_state::lost(const membership_action::lost& what) {
  trace(env_, "membership.lost",
        {{"task", to_string(what.who.task)},
         {"incarnation", what.who.inc.counter},
         {"epoch", core_.current().epoch},
         {"clean", what.clean},
         {"reason", what.reason}});
  auto at = peers_.find(what.who.task);
  if (at == peers_.end() || at->second.inc != what.who.inc)
    return;
  if (coordinator_ && at->second.announced)
    tell(
      self_, coordinator_,
      member_lost{
        .who = what.who, .current = core_.current(), .reason = what.reason, .clean = what.clean});
  peers_.erase(at);
}

void membership_state::tell_fenced(const task_id& task, const incarnation& inc) {
  if (auto at = peers_.find(task); at != peers_.end() && at->second.inc == inc)
    tell_member(at->second.handle, fenced_notice{.header = header(inc)});
}

void membership_state::tell_views() {
  for (const auto& [task, p] : peers_)
    tell_member(p.handle, view_changed{.header = header(p.inc), .current = core_.current()});
}

template <class Message>
void membership_state::tell_member(const caf::strong_actor_ptr& to, Message msg) {
  tell(self_, caf::actor_cast<member_actor>(to), std::move(msg));
}

membership_actor spawn_membership(caf::actor_system& system, const environment& env,
                                  membership_actor_options options) {
  return spawn_state<membership_state>(system, std::cref(env), std::move(options));
}

} // namespace troupe
