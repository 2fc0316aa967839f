// Workers and servers that come and go, and the term that servers grant.
#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/core/planted.hpp>
#include <troupe/messages/admission.hpp>
#include <troupe/messages/links.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/messages/terms.hpp>
#include <troupe/messages/tick.hpp>

#include <algorithm>

namespace troupe {

void coordinator_state::on_joined(member_joined& msg) {
  epoch_ = std::max(epoch_, msg.current.epoch);
  if (ending_)
    return;
  if (options_.on_member)
    options_.on_member(msg.who.task, msg.who.inc.counter, true);
  if (msg.who.task.job == job_kind::worker && options_.end_link) {
    auto index = msg.who.task.index;
    const auto inc = msg.who.inc;
    rendezvous_.member_came(index, inc, std::move(msg));
    meet(index);
  } else if (msg.who.task.job == job_kind::worker)
    worker_joined(msg);
  else if (msg.who.task.job == job_kind::ps)
    server_joined(msg);
}

void coordinator_state::on_linked(worker_linked& msg) {
  if (!msg.here.value)
    return mark(env_, "coordinator.stranger_refused");
  rendezvous_.link_came(msg.task.index, msg.inc, std::move(msg.handle));
  meet(msg.task.index);
}

void coordinator_state::meet(std::uint32_t index) {
  if (ending_)
    return;
  if (auto met = rendezvous_.meet(index)) {
    met->member.handle = std::move(met->link);
    worker_joined(met->member);
  }
}

void coordinator_state::worker_joined(const member_joined& msg) {
  auto index = msg.who.task.index;
  if (losing_.waits(index)) // nobody speaks on its last incarnation's link any more
    last_words_came(index);
  if (links_.contains(index)) { // the loss of its last incarnation is on its way here
    mark(env_, "coordinator.worker_replaced");
    worker_lost(index,
                {.who = msg.who, .current = msg.current, .reason = "replaced", .clean = false});
  }
  auto handle = caf::actor_cast<worker_actor>(msg.handle);
  links_[index] = {.handle = handle, .local = msg.handle->node() == self_->node(), .threads = {}};
  core_.worker_up(index, msg.who.inc, options_.threads);
  admit(handle, msg.who.inc);
  trace(env_, "coordinator.worker_joined",
        {{"worker", index}, {"incarnation", msg.who.inc.counter}});
  if (queue())
    queue()->set_live_workers(core_.live());
  check_started();
  dispatch();
}

void coordinator_state::admit(const worker_actor& worker, const incarnation& inc) {
  admit_worker msg{.header = header_for(inc),
                   .data_address = options_.data_address,
                   .variables = catalogue_.all()};
  for (const auto& [id, order] : resources_)
    msg.resources.push_back(order);
  tell(self_, worker, std::move(msg));
}

void coordinator_state::on_link_ended(const link_ended& msg) {
  if (!msg.here.value)
    return mark(env_, "coordinator.stranger_refused");
  auto index = msg.task.index;
  rendezvous_.link_ended(index, msg.inc);
  if (!core_.is_up(index, msg.inc))
    return;
  links_.at(index).over = true;
  if (losing_.waits(index))
    return last_words_came(index);
  if (msg.clean || ending_)
    return;
  mark(env_, "coordinator.link_lost");
  tell(self_, membership_,
       fence_member{.task = msg.task, .inc = msg.inc, .reason = "link lost: " + msg.reason});
}

void coordinator_state::on_lost(member_lost& msg) {
  epoch_ = std::max(epoch_, msg.current.epoch);
  if (!msg.clean)
    ++shared_->fenced;
  if (options_.on_member)
    options_.on_member(msg.who.task, msg.who.inc.counter, false);
  if (msg.who.task.job == job_kind::worker) {
    rendezvous_.member_left(msg.who.task.index, msg.who.inc);
    if (core_.is_up(msg.who.task.index, msg.who.inc))
      await_last_words(msg.who.task.index, msg);
  } else if (msg.who.task.job == job_kind::ps) {
    auto at = servers_.find(msg.who.task.index);
    if (at != servers_.end() && at->second.who.inc == msg.who.inc)
      server_lost(msg.who.task.index, msg);
  }
}

/// What it has begun and ended decides whom its loss is blamed on.
void coordinator_state::await_last_words(std::uint32_t index, member_lost& msg) {
  const auto& w = core_.workers().at(index);
  if (!options_.end_link || msg.clean || links_.at(index).over || w.flights.empty()
      || given_up_.contains(index))
    return worker_lost(index, msg);
  core_.set_leaving(index);
  const auto inc = msg.who.inc;
  const auto number = losing_.await(index, inc, std::move(msg));
  tell_after(self_, self_handle<coordinator_actor>(self_),
             std::chrono::milliseconds{options_.last_words_ms},
             tick{.what = last_words_timer, .number = number});
}

void coordinator_state::last_words_came(std::uint32_t index) {
  if (auto loss = losing_.take(index))
    worker_lost(index, *loss);
}

void coordinator_state::worker_lost(std::uint32_t index, const member_lost& msg) {
  losing_.take(index);
  if (options_.end_link)
    options_.end_link({.job = job_kind::worker, .index = index}, core_.workers().at(index).inc);
  auto flights = core_.worker_down(index);
  links_.erase(index);
  trace(env_, "coordinator.worker_lost",
        {{"worker", index},
         {"flights", flights.size()},
         {"reason", msg.reason},
         {"clean", msg.clean ? 1 : 0}});
  if (!queue())
    return;
  queue()->set_live_workers(core_.live());
  // a flight that a give-up or our own fence took is not the closure's fault; neither is a clean
  // leave
  const bool blamed = given_up_.erase(index) == 0 && !msg.clean;
  const auto blames = blame_of(flights, options_.threads);
  for (std::size_t i = 0; i < flights.size(); ++i) {
    if (i >= options_.threads && planted(planted_bug::put_back_lost))
      continue;
    attempt_loss from{task_id{.job = job_kind::worker, .index = index}};
    from.doubted = blamed && blames[i] == blame::doubted;
    from.reason = msg.reason;
    lost_flight(flights[i],
                blamed && blames[i] == blame::begun ? put_back_reason::worker_lost_running
                                                    : put_back_reason::worker_lost_waiting,
                std::move(from));
  }
  if (!flights.empty())
    mark(env_, "coordinator.worker_died_with_closures");
  ask_to_confirm();
  check_quiet();
  dispatch();
}

void coordinator_state::give_up_worker(std::uint32_t index, const std::string& reason) {
  given_up_.insert(index);
  core_.set_leaving(index);
  const auto& w = core_.workers().at(index);
  tell(self_, membership_,
       fence_member{
         .task = {.job = job_kind::worker, .index = index}, .inc = w.inc, .reason = reason});
}

void coordinator_state::on_threads(threads_seen& msg) {
  auto at = links_.find(msg.task.index);
  if (at == links_.end() || !core_.is_up(msg.task.index, msg.inc))
    return;
  at->second.threads = std::move(msg.threads);
  for (const auto& thread : at->second.threads)
    if (thread.closure.seq != 0)
      core_.begun(msg.task.index, thread.closure, thread.attempt);
  bool stuck = is_stuck(msg.task.index);
  if (stuck == core_.workers().at(msg.task.index).stuck)
    return;
  core_.set_stuck(msg.task.index, stuck);
  trace(env_, "coordinator.worker_stuck", {{"worker", msg.task.index}, {"stuck", stuck ? 1 : 0}});
  dispatch();
}

/// A thread that has not entered Troupe for max(30 s, 20 x the function's median).
bool coordinator_state::is_stuck(std::uint32_t index) const {
  constexpr std::uint64_t stuck_ms_min = 30'000;
  for (const auto& thread : links_.at(index).threads) {
    if (thread.closure.seq == 0 && thread.silent_ms >= stuck_ms_min) // a resource is being built
      return true;
    for (const auto& f : core_.workers().at(index).flights)
      if (f.what->id == thread.closure
          && thread.silent_ms
               >= std::max(stuck_ms_min, 20 * times_.median_ns(f.what->function) / 1'000'000))
        return true;
  }
  return false;
}

void coordinator_state::server_joined(const member_joined& msg) {
  auto index = msg.who.task.index;
  servers_[index] = {.who = msg.who, .handle = caf::actor_cast<parameter_server_actor>(msg.handle)};
  election_.server_joined(index, msg.who.inc);
  settlement_.server_joined(index);
  grant(index);
}

void coordinator_state::server_lost(std::uint32_t index, const member_lost& msg) {
  servers_.erase(index);
  election_.server_lost(index);
  settlement_.server_lost(index);
  trace(env_, "coordinator.server_lost", {{"server", index}, {"reason", msg.reason}});
  for (auto number : catalogue_.server_lost(index))
    end_creation(catalogue_.failed(number),
                 answer_failure("the server was lost: " + msg.reason, index));
  confirm_settled();
}

void coordinator_state::grant(std::uint32_t index) {
  auto& s = servers_.at(index);
  auto inc = s.who.inc;
  auto asked = election_.term();
  ask(
    self_, s.handle, std::chrono::milliseconds{options_.grant_ms},
    grant_term{.header = header_for(inc)},
    [this, index, inc, asked](term_answer& answer) { on_grant(index, inc, asked, answer); },
    [this, index, inc, asked](const std::string& why) {
      trace(env_, "coordinator.grant_failed", {{"server", index}, {"why", why}});
      if (election_.is_open(index, inc, asked) && !ending_) // membership decides whether it is gone
        grant(index);
    });
}

/// `asked`: the term that the server was asked for.
void coordinator_state::on_grant(std::uint32_t index, const incarnation& inc, term_no asked,
                                 const term_answer& answer) {
  switch (
    election_.answered(index, inc, asked, answer.why.code, answer.highest, queue() != nullptr)) {
    case term_election::outcome::stale: return;
    case term_election::outcome::late: return mark(env_, "coordinator.late_grant_dropped");
    case term_election::outcome::raised: return ask_for_raised_term();
    case term_election::outcome::superseded:
      mark(env_, "coordinator.superseded");
      shared_->started->set(answer.why);
      if (queue())
        queue()->stop(answer.why);
      return;
    case term_election::outcome::granted: break;
  }
  settlement_.server_granted(index);
  confirm_settled();
  trace(env_, "coordinator.term_granted", {{"server", index}, {"term", election_.term()}});
  check_started();
}

/// @pre nothing is dispatched yet.
void coordinator_state::ask_for_raised_term() {
  mark(env_, "coordinator.term_raised");
  for (const auto& [index, s] : servers_)
    grant(index);
  for (const auto& [index, link] : links_) // servers would refuse what workers send under the last
    admit(link.handle, core_.workers().at(index).inc);
}

} // namespace troupe
