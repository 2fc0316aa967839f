// The second half of parameter_client.cpp: links, waiting, and what becomes of losses.
#include <troupe/actors/support/failure_classifier.hpp>
#include <troupe/actors/worker/parameter_client.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace troupe {

result<parameter_client::known_variable*> parameter_client::find(variable_id id) {
  auto at = known_.find(id);
  if (at == known_.end()) {
    auto spec = find_(id);
    if (!spec)
      return make_failure(errc::unknown_variable,
                          "unknown variable " + std::to_string(value_of(id)));
    at = known_.emplace(id, known_variable{std::move(spec), 0, 0}).first;
  }
  return &at->second;
}

result<server_link*> parameter_client::link_to(std::uint32_t server) {
  if (links_.size() <= server)
    links_.resize(server + 1);
  auto& slot = links_[server];
  if (!slot.link) {
    auto made = connect_(server);
    if (!made)
      return at_server(server, std::move(made.error()));
    slot.link = std::move(*made);
  }
  return slot.link.get();
}

parameter_client::scratch& parameter_client::scratch_of(std::uint32_t server) {
  if (scratch_.size() <= server)
    scratch_.resize(server + 1);
  return scratch_[server];
}

failure parameter_client::at_server(std::uint32_t server, failure why) const {
  const bool transport = is_lost_connection(why.code);
  why.text = "ps:" + std::to_string(server) + ": " + why.text
             + (transport ? std::string{server_lost_advice} : std::string{});
  if (transport)
    why = make_failure(errc::unavailable, std::move(why.text));
  const task_id at{job_kind::ps, server};
  if (why.where.task != at) // else it is the server's own word, with its incarnation
    why.where = {.task = at};
  return why;
}

bool parameter_client::lose(std::uint32_t server, failure why) {
  auto& slot = links_[server];
  // What it refused may have come with its end, and nobody has asked yet.
  bool owed = slot.link->reads_pending() || slot.link->pushes_pending()
              || slot.link->take_read_failure().code != errc::none;
  if (auto refused = slot.link->take_push_failure();
      refused.code != errc::none && push_failed_.code == errc::none)
    push_failed_ = at_server(server, std::move(refused));
  mark(env_, owed ? "client.link_lost_with_requests" : "client.link_lost");
  if (slot.link->pushes_pending() && push_failed_.code == errc::none)
    push_failed_ = at_server(server, std::move(why));
  if (slot.watched)
    poller_->forget(*slot.link->wire());
  slot = {};
  return owed;
}

result<void> parameter_client::take_read_refusals() {
  failure first;
  for (std::uint32_t server = 0; server < links_.size(); ++server)
    if (links_[server].link)
      if (auto why = links_[server].link->take_read_failure();
          why.code != errc::none && first.code == errc::none)
        first = at_server(server, std::move(why));
  return first.code == errc::none ? result<void>{} : result<void>{std::move(first)};
}

// The first refusal of a push stays: a closure with one can't finish.
result<void> parameter_client::take_push_refusals() {
  for (std::uint32_t server = 0; server < links_.size(); ++server)
    if (links_[server].link)
      if (auto why = links_[server].link->take_push_failure();
          why.code != errc::none && push_failed_.code == errc::none)
        push_failed_ = at_server(server, std::move(why));
  return push_failed_.code == errc::none ? result<void>{} : result<void>{push_failed_};
}

void parameter_client::clear_scratch() {
  for (auto& work : scratch_) {
    work.reads.clear();
    work.gathers.clear();
    work.pieces.clear();
  }
}

result<void> parameter_client::finish(time_point deadline) {
  if (auto ok = take_push_refusals(); !ok)
    return ok;
  if (auto ok = drive(waiting_for::pushes, deadline); !ok)
    return ok;
  auto refused = take_push_refusals();
  if (refused) {
    mark(env_, "client.all_acked");
    trace(env_, "client.acked",
          {{"term", closure_.term}, {"closure", closure_.seq}, {"attempt", attempt_}});
  }
  return refused;
}

void parameter_client::abandon() {
  for (auto& slot : links_)
    if (slot.link) {
      slot.link->disown_reads();
      slot.link->disown_pushes();
    }
}

void parameter_client::wake() { poller_->wake(); }

bool parameter_client::is_done(waiting_for what, std::uint32_t server, std::uint64_t bytes) const {
  if (what == waiting_for::window)
    return links_[server].link == nullptr || links_[server].link->may_push(bytes);
  for (const auto& slot : links_)
    if (slot.link
        && (what == waiting_for::reads ? slot.link->reads_pending() : slot.link->pushes_pending()))
      return false;
  return true;
}

bool parameter_client::owes(waiting_for what, std::uint32_t at, std::uint32_t server) const {
  const auto& link = links_[at].link;
  if (!link)
    return false;
  switch (what) {
    case waiting_for::reads: return link->reads_pending();
    case waiting_for::pushes: return link->pushes_pending();
    case waiting_for::window: return at == server;
  }
  return false;
}

void parameter_client::start_watch() {
  const auto now = env_.clock.now();
  for (auto& slot : links_)
    if (slot.link) {
      slot.moved_bytes = slot.link->moved_bytes();
      slot.moved_at = now;
    }
}

/// When the first of those that owe an answer will have done nothing for too long.
result<time_point> parameter_client::watch_progress(waiting_for what, std::uint32_t server) {
  const auto now = env_.clock.now();
  auto until = never;
  bool progress = false;
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    if (!owes(what, i, server))
      continue;
    auto& slot = links_[i];
    const auto moved = slot.link->moved_bytes();
    if (std::exchange(slot.moved_bytes, moved) != moved) {
      slot.moved_at = now;
      progress = true;
    }
    const auto late = after(slot.moved_at, options_.reply_max);
    if (now >= late)
      return at_server(
        i, make_failure(what == waiting_for::pushes ? errc::deadline : errc::unavailable,
                        "no progress: for " + std::to_string(to_ms(options_.reply_max))
                          + " ms it has neither received nor sent data"));
    until = std::min(until, late);
  }
  if (progress && options_.progressed)
    options_.progressed();
  return until;
}

result<void> parameter_client::drive(waiting_for what, time_point deadline, std::uint32_t server,
                                     std::uint64_t bytes) {
  start_watch();
  while (!is_done(what, server, bytes)) {
    if (auto ok = pump_all(); !ok)
      return ok;
    if (is_done(what, server, bytes))
      break;
    if (options_.interrupted && options_.interrupted())
      return make_failure(errc::cancelled,
                          "the closure was cancelled while it waited for a parameter server");
    auto until = watch_progress(what, server);
    if (!until)
      return until.error();
    if (env_.clock.now() >= deadline) {
      std::string owing;
      for (std::uint32_t i = 0; i < links_.size(); ++i)
        if (owes(what, i, server))
          owing += " ps:" + std::to_string(i);
      auto code = what == waiting_for::pushes ? errc::deadline : errc::unavailable;
      return make_failure(code, "no answer before the deadline from" + owing);
    }
    watch_all();
    poller_->wait(std::min(deadline, *until));
  }
  return push_failed_.code == errc::none || what == waiting_for::reads ? result<void>{}
                                                                       : result<void>{push_failed_};
}

result<void> parameter_client::pump_all() {
  failure first;
  for (std::uint32_t server = 0; server < links_.size(); ++server) {
    auto& slot = links_[server];
    if (!slot.link)
      continue;
    auto ok = [&]() -> result<void> {
      try {
        return slot.link->pump();
      } catch (const std::bad_alloc&) { // it may have lost count of its answers
        return make_failure(errc::out_of_memory, "out of memory for an answer");
      }
    }();
    if (ok)
      continue;
    auto why = at_server(server, ok.error());
    if (lose(server, std::move(ok.error())) && first.code == errc::none)
      first = std::move(why);
  }
  return first.code == errc::none ? result<void>{} : result<void>{std::move(first)};
}

void parameter_client::watch_all() {
  for (auto& slot : links_) {
    auto* wire = slot.link ? slot.link->wire() : nullptr;
    if (!wire)
      continue;
    bool send = slot.link->wants_send();
    if (slot.watched && slot.watched_send == send)
      continue;
    poller_->watch(*wire, send);
    slot.watched = true;
    slot.watched_send = send;
  }
}

} // namespace troupe
