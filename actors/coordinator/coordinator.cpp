#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/core/caf_relay.hpp>
#include <troupe/core/planted.hpp>
#include <troupe/core/readable_name.hpp>

#include <algorithm>

namespace troupe {

failure coordinator_state::answer_failure(const std::string& text, std::uint32_t server) {
  auto why = make_failure(errc::unavailable, "ps:" + std::to_string(server) + " does not answer: "
                                               + text + std::string{server_lost_advice});
  why.where.task = {.job = job_kind::ps, .index = server};
  return why;
}

coordinator_state::coordinator_state(interface::pointer self, const environment& env,
                                     std::shared_ptr<coordinator_shared> shared,
                                     membership_actor membership, coordinator_options options)
  : self_{self},
    env_{env},
    shared_{std::move(shared)},
    membership_{std::move(membership)},
    options_{std::move(options)},
    nonce_{env.random.draw("coordinator.nonce")},
    classifier_{options_.faults} {}

coordinator_state::~coordinator_state() {
  auto gone = [] { return make_failure(errc::unavailable, "the coordinator has ended"); };
  shared_->started->set(gone());
  if (cut_done_)
    cut_done_->set(gone());
  if (queue())
    queue()->stop();
}

auto coordinator_state::make_behavior() -> interface::behavior_type {
  tell(self_, membership_, follow_members{});
  return {
    [this](member_joined& msg) { on_joined(msg); },
    [this](member_lost& msg) { on_lost(msg); },
    [this](lanes_seen& msg) { on_lanes(msg); },
    [this](worker_linked& msg) { on_linked(msg); },
    [this](link_ended& msg) { on_link_ended(msg); },
    [this](worker_report& msg) { on_report(msg); },
    [this](request_variable& msg) { return on_create(msg); },
    [this](closures_settled& msg) { on_settled(msg); },
    [this](work_waiting&) { dispatch(); },
    [this](cancel_requested& msg) { on_cancel(msg); },
    [this](run_call& msg) {
      if (msg.call.value)
        msg.call.value->run(*this);
    },
    [this](tick& msg) { on_tick(msg); },
  };
}

message_header
coordinator_state::header_for(const incarnation& receiver) {
  return {.term = election_.term(),
          .epoch = epoch_,
          .from = {.job = job_kind::chief, .index = 0},
          .sender = {.counter = 0, .nonce = nonce_},
          .receiver = receiver,
          .request = static_cast<request_no>(++next_request_)};
}

// --- members
// ----------------------------------------------------------------------------------------------------

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
  links_[index] = {.handle = handle, .local = msg.handle->node() == self_->node(), .lanes = {}};
  core_.worker_up(index, msg.who.inc, options_.lanes);
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

void coordinator_state::server_joined(const member_joined& msg) {
  auto index = msg.who.task.index;
  servers_[index] = {.who = msg.who, .handle = caf::actor_cast<parameter_server_actor>(msg.handle)};
  election_.server_joined(index, msg.who.inc);
  settlement_.server_joined(index);
  grant(index);
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

void coordinator_state::check_started() {
  if (queue() || core_.live() < std::max(options_.start_workers, 1u) || ending_)
    return;
  std::vector<std::uint32_t> needed;
  for (std::uint32_t i = 0; i < options_.servers; ++i)
    needed.push_back(options_.server_tasks.empty() ? i : options_.server_tasks.at(i));
  if (!election_.have_granted(needed))
    return;
  auto handle = self_handle<coordinator_actor>(self_);
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(handle);
  auto poke =
    [weak](auto msg) { // the queue must not keep the actor alive: they would hold each other
      if (auto strong = weak.lock())
        tell_from_outside(caf::actor_cast<coordinator_actor>(strong), std::move(msg));
    };
  auto limits = options_.queue;
  limits.max_strikes = options_.max_strikes;
  shared_->queue = std::make_unique<closure_queue>(
    env_, shared_->board, election_.term(), limits,
    closure_queue_hooks{
      .on_work =
        [poke, weak, shared = shared_.get()] {
          // alone it is sent by the thread that brings it; many are sent together
          auto strong =
            shared->queue->levels().in_flight == 0 ? weak.lock() : caf::strong_actor_ptr{};
          if (strong)
            tell_here(caf::actor_cast<coordinator_actor>(strong), work_waiting{});
          else
            poke(work_waiting{});
        },
      .on_cancel =
        [poke](std::uint64_t generation) { poke(cancel_requested{.generation = generation}); },
      .name_of =
        [](function_index f) {
          auto* entry = function_table::global().at(f);
          return entry ? readable_function(entry->name) : std::string{"?"};
        }});
  shared_->queue->set_live_workers(core_.live());
  shared_->blobs->take_results_if(
    [queue = shared_->queue.get()](const closure_id& id) { return queue->in_flight(id); });
  shared_->started->set(election_.term());
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
  const auto blames = blame_of(flights, options_.lanes);
  for (std::size_t i = 0; i < flights.size(); ++i) {
    if (i >= options_.lanes && planted(planted_bug::put_back_lost))
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

/// Its attempt may have reached some servers, and may still have operations in their buffers.
void coordinator_state::lost_flight(const flight& what, put_back_reason reason, attempt_loss from) {
  forget_blobs(*what.what);
  if (barrier_.quiescing())
    mark(env_, "coordinator.worker_died_during_cut");
  from.unacknowledged = true;
  put_back(what, reason, std::move(from));
}

/// After an attempt that was lost: it runs again, if it may.
void coordinator_state::put_back(const flight& what, put_back_reason reason, attempt_loss from) {
  barrier_.note_partial(what.what);
  if (!queue()->put_back(what.what, reason, from))
    return;
  ++shared_->retried;
  if (reason == put_back_reason::worker_lost_running)
    say_struck(what, from);
}

/// At the first strike, and then ever more rarely: a closure may be allowed any number.
void coordinator_state::say_struck(const flight& what, const attempt_loss& from) {
  const auto& c = *what.what;
  if (!options_.say || (c.strikes & (c.strikes - 1)) != 0)
    return;
  const auto limit = queue()->strikes_max(c);
  const auto left = limit - std::min(limit, c.strikes);
  auto line = queue()->describe(c) + ": attempt " + std::to_string(value_of(what.attempt)) + ", on "
              + to_string(from.worker) + ", was lost"
              + (from.how.empty() ? " with that worker (" + from.reason + ")" : ": " + from.how);
  line += limit == 0 ? "; it is retried without limit"
                     : "; it is retried, and fails as poisoned if this happens "
                         + std::to_string(left) + " more time" + (left == 1 ? "" : "s");
  options_.say(line);
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

void coordinator_state::give_up_worker(std::uint32_t index, const std::string& reason) {
  given_up_.insert(index);
  core_.set_leaving(index);
  const auto& w = core_.workers().at(index);
  tell(self_, membership_,
       fence_member{
         .task = {.job = job_kind::worker, .index = index}, .inc = w.inc, .reason = reason});
}

void coordinator_state::on_lanes(lanes_seen& msg) {
  auto at = links_.find(msg.task.index);
  if (at == links_.end() || !core_.is_up(msg.task.index, msg.inc))
    return;
  at->second.lanes = std::move(msg.lanes);
  for (const auto& lane : at->second.lanes)
    if (lane.closure.seq != 0)
      core_.begun(msg.task.index, lane.closure, lane.attempt);
  bool stuck = is_stuck(msg.task.index);
  if (stuck == core_.workers().at(msg.task.index).stuck)
    return;
  core_.set_stuck(msg.task.index, stuck);
  trace(env_, "coordinator.worker_stuck", {{"worker", msg.task.index}, {"stuck", stuck ? 1 : 0}});
  dispatch();
}

/// A lane that has not entered Troupe for max(30 s, 20 x the function's median).
bool coordinator_state::is_stuck(std::uint32_t index) const {
  constexpr std::uint64_t stuck_ms_min = 30'000;
  for (const auto& lane : links_.at(index).lanes) {
    if (lane.closure.seq == 0 && lane.silent_ms >= stuck_ms_min) // a resource is being built
      return true;
    for (const auto& f : core_.workers().at(index).flights)
      if (f.what->id == lane.closure
          && lane.silent_ms
               >= std::max(stuck_ms_min, 20 * times_.median_ns(f.what->function) / 1'000'000))
        return true;
  }
  return false;
}

caf::result<variable_answer> coordinator_state::on_create(request_variable& msg) {
  auto promise = self_->make_response_promise<variable_answer>();
  auto plan = [&]() -> result<variable_spec> {
    if (!core_.is_up(msg.header.from.index, msg.header.sender))
      return make_failure(errc::fenced, "create variable: the worker is no longer a member");
    std::lock_guard lock{shared_->plan_mutex};
    if (!shared_->plan_variable)
      return make_failure(errc::wrong_state,
                          "create variable '" + msg.wanted.name + "': no strategy exists");
    return shared_->plan_variable(msg.wanted);
  }();
  if (!plan) {
    promise.deliver(variable_answer{.why = plan.error()});
    return promise;
  }
  std::function<void(const failure&)> done = [promise, spec = *plan](const failure& why) mutable {
    promise.deliver(why.code == errc::none ? variable_answer{.why = {}, .made = spec}
                                           : variable_answer{.why = why});
  };
  if (catalogue_.contains(plan->id)) // made before, and every server said so
    done({});
  else if (!catalogue_.wait_for(plan->id, done)) // else a lane asks again, or another one does
    create_shards_on_servers({*plan}, true, std::move(done));
  return promise;
}

// --- program calls
// ----------------------------------------------------------------------------------------------

void coordinator_state::create_variables(std::vector<variable_spec> specs,
                                         std::shared_ptr<promise_slot<bool>> done) {
  struct answered_at_least { // should this actor end before the servers have answered
    explicit answered_at_least(std::shared_ptr<promise_slot<bool>> to) : done{std::move(to)} {}
    ~answered_at_least() {
      done->set(make_failure(errc::unavailable, "the coordinator has ended"));
    }
    answered_at_least(const answered_at_least&) = delete;
    answered_at_least& operator=(const answered_at_least&) = delete;
    std::shared_ptr<promise_slot<bool>> done;
  };
  auto guard = std::make_shared<answered_at_least>(std::move(done));
  create_shards_on_servers(std::move(specs), false, [guard](const failure& why) {
    if (why.code == errc::none)
      guard->done->set(true);
    else
      guard->done->set(why);
  });
}

void coordinator_state::create_shards_on_servers(std::vector<variable_spec> specs, bool of_step,
                                                 std::function<void(const failure&)> done) {
  const auto creation =
    catalogue_.begin(std::move(specs), of_step, std::move(done), env_.clock.now());
  for (auto index : creation.servers)
    if (!election_.has_granted(index))
      return end_creation(catalogue_.failed(creation.number),
                          answer_failure("the server is not a member", index));
  for (auto index : creation.servers)
    ask_creation(creation.number, index);
}

/// Again and again, for as long as the server makes more.
void coordinator_state::ask_creation(std::uint64_t number, std::uint32_t index) {
  auto& s = servers_.at(index);
  create_shards msg{.header = header_for(s.who.inc),
                    .creation = number,
                    .report_ms = options_.request_ms / 4,
                    .variables = *catalogue_.wanted_of(number, index)};
  ask(
    self_, s.handle, request_timeout(), std::move(msg),
    [this, number, index](creation_answer& answer) { creation_answered(number, index, answer); },
    [this, number, index](const std::string& why) {
      end_creation(catalogue_.failed(number), answer_failure(why, index));
    });
}

void coordinator_state::creation_answered(std::uint64_t number, std::uint32_t index,
                                          const creation_answer& answer) {
  if (!catalogue_.wanted_of(number, index))
    return; // it is over
  if (answer.why.code != errc::none && !answer.working)
    return end_creation(catalogue_.failed(number), answer.why);
  if (!answer.working)
    return end_creation(catalogue_.part_made(number, index), {});
  const auto idle = catalogue_.made(number, index, answer.made_bytes, env_.clock.now());
  if (idle >= request_timeout())
    return end_creation(
      catalogue_.failed(number),
      answer_failure(
        "no progress in creating its shards for " + std::to_string(to_ms(idle)) + " ms", index));
  if (servers_.contains(index)) // else its loss has ended the creation
    ask_creation(number, index);
}

/// `why`: no shard of it stays anywhere.
void coordinator_state::end_creation(std::optional<variable_catalogue::ended> over,
                                     const failure& why) {
  if (!over)
    return;
  if (why.code == errc::none)
    announce(over->variables);
  else
    for (const auto& spec : over->variables) {
      mark(env_, "coordinator.creation_undone");
      drop_variable(spec.id);
      std::lock_guard lock{shared_->plan_mutex};
      if (over->of_step && shared_->forget_variable)
        shared_->forget_variable(spec.id);
    }
  for (auto& done : over->waiting)
    done(why);
}

/// From now on every worker knows them, also one that joins later.
void coordinator_state::announce(const std::vector<variable_spec>& specs) {
  for (auto& [index, link] : links_)
    tell(self_, link.handle,
         add_variables{.header = header_for(core_.workers().at(index).inc), .variables = specs});
}

void coordinator_state::drop_variable(variable_id id) {
  catalogue_.drop(id);
  for (auto& [index, s] : servers_)
    ask(
      self_, s.handle, request_timeout(),
      drop_shards{.header = header_for(s.who.inc), .variables = {id}}, [](done_answer&) {},
      [](const std::string&) {});
}

void coordinator_state::make_resource(resource_order order) {
  resources_[order.id] = order;
  for (auto& [index, link] : links_)
    tell(self_, link.handle,
         make_resources{.header = header_for(core_.workers().at(index).inc), .orders = {order}});
}

void coordinator_state::drop_resource(resource_id id) {
  resources_.erase(id);
  for (auto& [index, link] : links_)
    tell(self_, link.handle,
         drop_resources{.header = header_for(core_.workers().at(index).inc), .ids = {id}});
}

void coordinator_state::statistics(std::shared_ptr<promise_slot<std::vector<server_report>>> done) {
  auto lines = std::make_shared<std::map<std::uint32_t, server_report>>();
  auto left = std::make_shared<std::size_t>(servers_.size());
  auto finish = [lines, left, done] {
    if (--*left > 0)
      return;
    std::vector<server_report> out;
    for (auto& [index, line] : *lines)
      out.push_back(line);
    done->set(std::move(out));
  };
  if (servers_.empty())
    return done->set(std::vector<server_report>{});
  for (auto& [index, s] : servers_)
    ask(
      self_, s.handle, request_timeout(), query_server{.header = header_for(s.who.inc)},
      [lines, finish, index = index](server_statistics& stats) mutable {
        (*lines)[index] = {.server = index, .stats = stats};
        finish();
      },
      [done, index = index](const std::string& why) { done->set(answer_failure(why, index)); });
}

void coordinator_state::worker_lines(
  std::shared_ptr<promise_slot<std::vector<worker_report_line>>> done) {
  std::vector<worker_report_line> out;
  for (const auto& [index, w] : core_.workers()) {
    worker_report_line line{
      .worker = index, .inc = w.inc, .in_flight = w.flights.size(), .lanes = links_[index].lanes};
    line.stuck = w.stuck;
    out.push_back(std::move(line));
  }
  done->set(std::move(out));
}

void coordinator_state::server_members(
  std::shared_ptr<promise_slot<std::map<std::uint32_t, member>>> done) {
  std::map<std::uint32_t, member> out;
  for (const auto& [index, s] : servers_)
    out[index] = s.who;
  done->set(std::move(out));
}

void coordinator_state::no_worker_will_come(failure why) {
  trace(env_, "coordinator.no_worker_will_come", {{"why", why.text}});
  if (queue())
    queue()->stop(std::move(why));
  else
    shared_->started->set(std::move(why));
}

void coordinator_state::end_cluster_now(cluster_end how) {
  ending_ = true;
  if (queue())
    queue()->stop();
  std::string lost;
  for (const auto index : catalogue_.lost_servers())
    lost += (lost.empty() ? "ps:" : ", ps:") + std::to_string(index);
  if (!lost.empty() && !how.meant && how.why.code == errc::none)
    how.why = make_failure(errc::unavailable, "the program ended");
  const bool says_nobody = how.why.text.find("ps:") == std::string::npos;
  if (!lost.empty() && how.why.code != errc::none && !is_known(how.why.where) && says_nobody)
    how.why.text += " after the loss of " + lost;
  tell(self_, membership_,
       end_cluster{.why = std::move(how.why), .members_stay = how.members_stay});
  self_->quit();
}

void coordinator_state::tell_start(std::shared_ptr<promise_slot<start_state>> done) const {
  start_state out;
  for (const auto& [index, s] : servers_) {
    out.servers.insert(index);
    if (election_.has_granted(index))
      out.ready_servers.insert(index);
  }
  for (const auto& [index, link] : links_)
    out.workers.insert(index);
  out.linking = rendezvous_.waiting_members();
  done->set(std::move(out));
}

coordinator_actor spawn_coordinator(caf::actor_system& system, const environment& env,
                                    std::shared_ptr<coordinator_shared> shared,
                                    membership_actor membership, coordinator_options options) {
  return spawn_state<coordinator_state>(system, std::cref(env), std::move(shared),
                                        std::move(membership), std::move(options));
}

} // namespace troupe
