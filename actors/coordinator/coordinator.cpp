#include <troupe/actors/coordinator/coordinator.hpp>

#include <troupe/core/caf_relay.hpp>
#include <troupe/core/readable_name.hpp>
#include <troupe/messages/closures.hpp>
#include <troupe/messages/links.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/messages/program.hpp>
#include <troupe/messages/server_statistics.hpp>
#include <troupe/messages/settlement.hpp>
#include <troupe/messages/tick.hpp>
#include <troupe/messages/variables.hpp>

#include <algorithm>

namespace troupe {

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
  if (snapshot_done_)
    snapshot_done_->set(gone());
  if (queue())
    queue()->stop();
}

auto coordinator_state::make_behavior() -> interface::behavior_type {
  tell(self_, membership_, follow_members{});
  return {
    [this](member_joined& msg) { on_joined(msg); },
    [this](member_lost& msg) { on_lost(msg); },
    [this](threads_seen& msg) { on_threads(msg); },
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

failure coordinator_state::answer_failure(const std::string& text, std::uint32_t server) {
  auto why = make_failure(errc::unavailable, "ps:" + std::to_string(server) + " does not answer: "
                                               + text + std::string{server_lost_advice});
  why.where.task = {.job = job_kind::ps, .index = server};
  return why;
}

void coordinator_state::on_tick(tick& msg) {
  switch (msg.what) {
    case settle_timer:
      if (settlement_.timer_ended() && queue())
        send_completion_watermark();
      break;
    case last_words_timer:
      if (auto index = losing_.timed_out(msg.number)) {
        mark(env_, "coordinator.last_words_missing");
        last_words_came(*index);
      }
      break;
    case recall_timer:
      recall_timer_set_ = false;
      maybe_recall();
      break;
    case quiesce_timer:
      if (!barrier_.is_current(msg.number))
        break;
      if (!barrier_.taking()) {
        watch_quiesce();
        break;
      }
      snapshot_over(barrier_.no_answer());
      dispatch();
      break;
    default: break;
  }
}

void coordinator_state::check_started() {
  if (queue() || core_.live() < std::max(options_.start_workers, 1u) || ending_)
    return;
  std::vector<std::uint32_t> needed;
  for (std::uint32_t i = 0; i < options_.servers; ++i)
    needed.push_back(options_.server_tasks.empty() ? i : options_.server_tasks.at(i));
  if (!election_.have_granted(needed))
    return;
  start_queue();
}

void coordinator_state::start_queue() {
  auto handle = self_handle<coordinator_actor>(self_);
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(handle);
  auto poke =
    [weak](auto msg) { // the queue must not keep the actor alive: they would hold each other
      if (auto strong = weak.lock())
        tell_from_outside(caf::actor_cast<coordinator_actor>(strong), std::move(msg));
    };
  auto limits = options_.queue;
  limits.max_failed_attempts = options_.max_failed_attempts;
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
    worker_report_line line{.worker = index,
                            .inc = w.inc,
                            .in_flight = w.flights.size(),
                            .threads = links_[index].threads};
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

coordinator_actor spawn_coordinator(caf::actor_system& system, const environment& env,
                                    std::shared_ptr<coordinator_shared> shared,
                                    membership_actor membership, coordinator_options options) {
  return spawn_state<coordinator_state>(system, std::cref(env), std::move(shared),
                                        std::move(membership), std::move(options));
}

} // namespace troupe
