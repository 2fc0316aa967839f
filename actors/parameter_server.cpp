#include <troupe/actors/parameter_server.hpp>

namespace troupe {

parameter_server_state::parameter_server_state(interface::pointer self, const environment& env,
                                               server_actor_options options)
  : self_{self},
    env_{env},
    options_{std::move(options)},
    member_{self,
            env,
            options_.member,
            {.on_admitted =
               [this](const incarnation& inc, const view& current) {
                 if (options_.on_incarnation)
                   options_.on_incarnation(inc);
                 learn_fences(current);
               },
             .on_view = [this](const view& current) { learn_fences(current); },
             .on_fenced =
               [this] { options_.store->clear(); }, // a server that is taken for dead holds nothing
             .lanes = {}}} {}

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
    [this](take_cut& msg) { return on_take_cut(msg); },
    [this](drop_cut& msg) { return on_drop_cut(msg); },
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
      make_failure(errc::superseded, to_string(options_.member.task) + " obeys term "
                                       + std::to_string(value_of(options_.store->term())) + ", not "
                                       + std::to_string(value_of(header.term))));
  }
  if (header.receiver != member_.inc())
    return at_home(make_failure(errc::fenced, "that message was for incarnation "
                                                + std::to_string(header.receiver.counter) + " of "
                                                + to_string(options_.member.task) + ", this is "
                                                + std::to_string(member_.inc().counter)));
  return {};
}

term_answer parameter_server_state::on_grant(grant_term& msg) {
  auto before = options_.store->term();
  if (msg.header.receiver != member_.inc())
    return {.why = at_home(make_failure(errc::fenced, "another incarnation was asked")),
            .highest = before};
  if (auto ok = options_.store->grant_term(msg.header.term, msg.header.sender.nonce); !ok)
    return {.why = at_home(ok.error()), .highest = options_.store->term()};
  if (msg.header.term > before && value_of(before) != 0)
    options_.store
      ->clear(); // what was held for an older term is dropped: its program restores a checkpoint
  member_.learn_term(msg.header.term);
  return {.why = {}, .highest = msg.header.term};
}

/// On a lane: filling hundreds of megabytes takes longer than silence is forgiven.
caf::result<done_answer> parameter_server_state::on_create(create_shards& msg) {
  auto promise = self_->make_response_promise<done_answer>();
  if (auto why = check(msg.header)) {
    promise.deliver(done_answer{.why = *why});
    return promise;
  }
  creations_.push_back({.specs = std::move(msg.variables), .promise = promise});
  start_creation();
  return promise;
}

void parameter_server_state::start_creation() {
  if (maker_ || creations_.empty())
    return;
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(self_handle<interface>(self_));
  made_ = std::make_shared<failure>();
  maker_ = env_.lanes.start(
    "make." + std::to_string(options_.member.task.index),
    [weak, out = made_, store = options_.store, specs = creations_.front().specs,
     task = options_.member.task] {
      for (const auto& spec : specs)
        for (std::uint32_t i = 0; i < spec.shards.size() && out->code == errc::none; ++i)
          if (spec.shards[i].server == task.index)
            if (auto ok = store->create(spec, static_cast<shard_index>(i)); !ok)
              *out = ok.error();
      if (auto strong = weak.lock())
        tell_from_outside(caf::actor_cast<interface>(strong), tick{.what = made_timer});
    });
}

void parameter_server_state::on_tick(const tick& msg) {
  if (msg.what != made_timer) {
    member_.on_tick(msg);
    return;
  }
  if (!maker_ || creations_.empty())
    return;
  maker_->join(); // it has sent this as its last act
  maker_ = nullptr;
  auto why = std::move(*made_);
  creations_.front().promise.deliver(
    done_answer{.why = why.code == errc::none ? failure{} : at_home(std::move(why))});
  creations_.pop_front();
  start_creation();
}

parameter_server_state::~parameter_server_state() {
  if (maker_)
    maker_->abandon(); // owns what it still fills
}

done_answer parameter_server_state::on_drop(drop_shards& msg) {
  if (auto why = check(msg.header))
    return {.why = *why};
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

done_answer parameter_server_state::on_take_cut(take_cut& msg) {
  if (auto why = check(msg.header))
    return {.why = *why};
  if (auto ok = options_.store->take_cut(msg.cut); !ok)
    return {.why = at_home(ok.error())};
  return {};
}

done_answer parameter_server_state::on_drop_cut(drop_cut& msg) {
  if (auto why = check(msg.header))
    return {.why = *why};
  options_.store->drop_cut(msg.cut);
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
