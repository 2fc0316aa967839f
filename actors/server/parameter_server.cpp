#include <troupe/actors/server/parameter_server.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include <troupe/core/limits.hpp>
#include <troupe/messages/server_statistics.hpp>
#include <troupe/messages/settlement.hpp>
#include <troupe/messages/snapshots.hpp>
#include <troupe/messages/terms.hpp>
#include <troupe/messages/variables.hpp>

namespace troupe {

parameter_server_state::parameter_server_state(interface::pointer self, const environment& env,
                                               server_actor_options options)
  : self_{self},
    env_{env},
    options_{std::move(options)},
    member_{
      self,
      env,
      options_.member,
      {.on_admitted =
         [this](const incarnation& inc, const view& current) {
           if (options_.on_incarnation)
             options_.on_incarnation(inc);
           learn_fences(current);
         },
       .on_view = [this](const view& current) { learn_fences(current); },
       .on_fenced = [this] { clear_store(); }, // a server that is taken for dead holds nothing
       .threads = {}}} {}

auto parameter_server_state::make_behavior() -> interface::behavior_type {
  member_.start();
  return {
    [this](view_changed& msg) { member_.on_view(msg); },
    [this](probe_member& msg) { member_.on_probe(msg); },
    [this](fenced_notice& msg) { member_.on_fenced(msg); },
    [this](end_member& msg) { member_.on_end(msg); },
    [this](leave_cluster& msg) {
      if (msg.here.value)
        member_.leave_now();
    },
    [this](grant_term& msg) { return on_grant(msg); },
    [this](create_shards& msg) { return on_create(msg); },
    [this](drop_shards& msg) { return on_drop(msg); },
    [this](settle_closures& msg) { on_settle(msg); },
    [this](take_cut& msg) { return on_take_snapshot(msg); },
    [this](drop_cut& msg) { return on_drop_snapshot(msg); },
    [this](query_server& msg) { return on_query(msg); },
    [this](tick& msg) { on_tick(msg); },
  };
}

failure
parameter_server_state::at_home(failure why) const {
  why.where = {
    .task = options_.member.task, .inc = member_.inc(), .epoch = member_.current().epoch};
  return why;
}

std::optional<failure> parameter_server_state::check(const message_header& header) {
  if (header.term < options_.store->term()) {
    mark(env_, "server.old_term_refused");
    return at_home(
      make_failure(errc::superseded, to_string(options_.member.task) + " follows term "
                                       + std::to_string(value_of(options_.store->term())) + ", not "
                                       + std::to_string(value_of(header.term))));
  }
  if (header.receiver != member_.inc())
    return at_home(make_failure(
      errc::fenced, "the message is for incarnation " + std::to_string(header.receiver.counter)
                      + " of " + to_string(options_.member.task) + ", this process is "
                      + std::to_string(member_.inc().counter)));
  return {};
}

term_answer parameter_server_state::on_grant(grant_term& msg) {
  auto before = options_.store->term();
  if (msg.header.receiver != member_.inc())
    return {.why = at_home(make_failure(errc::fenced, "the request is for another incarnation")),
            .highest = before};
  if (auto ok = options_.store->grant_term(msg.header.term, msg.header.sender.nonce); !ok)
    return {.why = at_home(ok.error()), .highest = options_.store->term()};
  if (msg.header.term > before && value_of(before) != 0)
    clear_store(); // what was held for an older term is dropped: its program restores a checkpoint
  member_.learn_term(msg.header.term);
  return {.why = {}, .highest = msg.header.term};
}

/// What is being made for those that are dropped now is dropped when it is made.
void parameter_server_state::clear_store() {
  for (auto& c : creations_) {
    c.dropped.clear();
    for (const auto& spec : c.specs)
      c.dropped.push_back(spec.id);
    c.how->unwanted = true;
  }
  options_.store->clear();
}

/// On a thread: filling hundreds of megabytes takes longer than silence is forgiven. Whoever waits
/// is told now and then how far it is, and asks again.
caf::result<creation_answer> parameter_server_state::on_create(create_shards& msg) {
  auto promise = self_->make_response_promise<creation_answer>();
  if (auto why = check(msg.header)) {
    promise.deliver(creation_answer{.why = *why});
    return promise;
  }
  const std::pair key{msg.header.sender.nonce, msg.creation};
  auto at = std::find_if(creations_.begin(), creations_.end(),
                         [&](const creation& c) { return c.key == key; });
  if (at == creations_.end()) {
    creations_.push_back(
      {.key = key, .specs = std::move(msg.variables), .how = std::make_shared<shard_making>()});
    at = std::prev(creations_.end());
    at->how->made_piece = [threads = &env_.threads](std::uint64_t bytes) {
      constexpr std::uint64_t worth_it = std::uint64_t{1} << 20;
      if (bytes >= worth_it)
        threads->spend(duration{static_cast<std::int64_t>(bytes)}); // a byte a nanosecond
    };
  }
  at->waiting.push_back(promise);
  if (!std::exchange(report_timer_set_, true))
    tell_after(self_, self_handle<interface>(self_),
               std::chrono::milliseconds{std::clamp<std::uint64_t>(
                 msg.report_ms, 1, static_cast<std::uint64_t>(to_ms(limits::progress_report)))},
               tick{.what = report_timer});
  start_creation();
  return promise;
}

void parameter_server_state::start_creation() {
  while (!maker_ && !creations_.empty()) {
    auto weak = caf::actor_cast<caf::weak_actor_ptr>(self_handle<interface>(self_));
    made_ = std::make_shared<failure>();
    try {
      maker_ = env_.threads.start(
        "make." + std::to_string(options_.member.task.index),
        [weak, out = made_, store = options_.store, specs = creations_.front().specs,
         how = creations_.front().how, task = options_.member.task] {
          if (auto ok = store->create_all(specs, task.index, how.get()); !ok)
            *out = std::move(ok.error());
          if (auto strong = weak.lock())
            tell_from_outside(caf::actor_cast<interface>(strong), tick{.what = made_timer});
        });
    } catch (const std::exception& e) { // no memory for another thread
      end_creation(make_failure(errc::out_of_memory,
                                std::string{"no thread to create shards on: "} + e.what()));
    }
  }
}

/// Of the first of them.
void parameter_server_state::end_creation(failure why) {
  auto ended = std::move(creations_.front());
  creations_.pop_front();
  made_bytes_ += ended.how->made_bytes;
  for (auto id : ended.dropped)
    options_.store->drop(id);
  if (why.code == errc::none && !ended.dropped.empty())
    why = make_failure(errc::cancelled, "the variable was dropped during its creation");
  if (why.code != errc::none)
    why = at_home(std::move(why));
  for (auto& promise : ended.waiting)
    promise.deliver(creation_answer{.why = why});
}

void parameter_server_state::report_creations() {
  report_timer_set_ = false;
  auto made_bytes = made_bytes_;
  for (const auto& c : creations_)
    made_bytes += c.how->made_bytes;
  for (auto& c : creations_)
    for (auto& promise : std::exchange(c.waiting, {}))
      promise.deliver(creation_answer{.working = true, .made_bytes = made_bytes});
}

void parameter_server_state::forget_creations(std::span<const variable_id> ids) {
  for (auto& c : creations_) {
    for (const auto& spec : c.specs)
      if (std::find(ids.begin(), ids.end(), spec.id) != ids.end()) {
        mark(env_, "server.creation_dropped");
        c.dropped.push_back(spec.id);
      }
    if (c.dropped.size() >= c.specs.size())
      c.how->unwanted = true;
  }
}

void parameter_server_state::on_tick(const tick& msg) {
  if (msg.what == report_timer)
    return report_creations();
  if (msg.what != made_timer) {
    member_.on_tick(msg);
    return;
  }
  if (!maker_ || creations_.empty())
    return;
  maker_->join(); // it has sent this as its last act
  maker_ = nullptr;
  end_creation(std::move(*made_));
  start_creation();
}

parameter_server_state::~parameter_server_state() {
  if (maker_)
    maker_->abandon(); // owns what it still fills
  for (auto& c : creations_)
    c.how->unwanted = true;
}

done_answer parameter_server_state::on_drop(drop_shards& msg) {
  if (auto why = check(msg.header))
    return {.why = *why};
  forget_creations(msg.variables);
  for (auto id : msg.variables)
    options_.store->drop(id);
  return {};
}

void parameter_server_state::on_settle(settle_closures& msg) {
  if (check(msg.header) || !options_.store->settle(msg.header.term, msg.highest, msg.unsettled))
    return;
  if (auto to = self_->current_sender())
    tell(self_, caf::actor_cast<coordinator_actor>(to),
         closures_settled{.header = member_.header(), .list_no = msg.list_no});
}

done_answer parameter_server_state::on_take_snapshot(take_cut& msg) {
  if (auto why = check(msg.header))
    return {.why = *why};
  if (auto ok = options_.store->take_snapshot(msg.snapshot); !ok)
    return {.why = at_home(ok.error())};
  return {};
}

done_answer parameter_server_state::on_drop_snapshot(drop_cut& msg) {
  if (auto why = check(msg.header))
    return {.why = *why};
  options_.store->drop_snapshot(msg.snapshot);
  return {};
}

server_statistics parameter_server_state::on_query(query_server& msg) {
  if (auto why = check(msg.header))
    return {.why = *why};
  auto s = options_.store->stats();
  return {.why = {},
          .shards = s.shards,
          .bytes = s.bytes,
          .pushes_applied = s.pushes_applied,
          .duplicates = s.duplicates_dropped + s.settled_dropped,
          .refused = s.refused};
}

void parameter_server_state::learn_fences(const view& current) {
  for (const auto& f : current.fences) {
    options_.store->fence(f.task, f.counter);
    if (options_.on_fence)
      options_.on_fence(f.task, f.counter);
  }
}

parameter_server_actor spawn_parameter_server(caf::actor_system& system, const environment& env,
                                              server_actor_options options) {
  return spawn_state<parameter_server_state>(system, std::cref(env), std::move(options));
}

} // namespace troupe
