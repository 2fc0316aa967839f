#include <troupe/transport/detail/group_links.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <troupe/core/mac.hpp>

namespace troupe::detail {

namespace {

constexpr std::size_t callers_max = 1024;
constexpr std::size_t refused_max = 64;
constexpr std::uint64_t answer_bytes_max = 4096; // queued for one peer
constexpr duration hello_max = std::chrono::seconds{5};

outgoing_frame make_frame(group_frame kind, std::string meta) {
  outgoing_frame out;
  out.kind = static_cast<std::uint8_t>(kind);
  out.meta = std::move(meta);
  return out;
}

} // namespace

// --- links

group_links::~group_links() {
  for (peer_channels& peer : peers_) {
    if (peer.control)
      peer.control->close();
    if (peer.data)
      peer.data->close();
  }
}

std::optional<group_notice> group_links::listen() {
  const std::lock_guard guard{mutex_};
  std::optional<group_notice> out;
  for (peer_channels& peer : peers_) {
    while (peer.control && !peer.gone) {
      auto event = peer.reader.pump(*peer.control);
      if (!event)
        peer.gone = true;
      else if (*event == frame_event::complete)
        heed(peer, out);
      else
        break;
    }
    if (peer.control && !peer.gone && !peer.writer.empty() && !peer.writer.pump(*peer.control))
      peer.gone = true;
  }
  return out;
}

void group_links::heed(peer_channels& peer, std::optional<group_notice>& notice) {
  switch (static_cast<group_frame>(peer.reader.header().kind)) {
    case group_frame::abort:
      if (auto said = decode_notice(peer.reader.meta()); !said)
        peer.gone = true; // it ends the epoch, for no reason that there is
      else {
        if (!peer.said)
          peer.said = said;
        if (!notice)
          notice = std::move(said);
      }
      break;
    case group_frame::ping:
      // One that asks and does not read has its answers waiting.
      if (peer.writer.queued_bytes() < answer_bytes_max)
        push(peer, group_frame::pong, {});
      break;
    case group_frame::pong: peer.answered = true; break;
    default: break;
  }
}

void group_links::ask() {
  const std::lock_guard guard{mutex_};
  for (peer_channels& peer : peers_) {
    peer.answered = false;
    push(peer, group_frame::ping, {});
  }
}

void group_links::tell(const group_notice& notice) {
  const std::lock_guard guard{mutex_};
  for (peer_channels& peer : peers_)
    push(peer, group_frame::abort, encode(notice));
}

bool group_links::flush() {
  const std::lock_guard guard{mutex_};
  bool all = true;
  for (peer_channels& peer : peers_) {
    if (!peer.control || peer.gone || peer.writer.empty())
      continue;
    auto out = peer.writer.pump(*peer.control);
    all = all && (!out || *out); // who has gone is found by `listen`
  }
  return all;
}

void group_links::wake(std::uint32_t peer) {
  const std::lock_guard guard{mutex_};
  // What is still queued wakes as well.
  if (peers_[peer].writer.empty())
    push(peers_[peer], group_frame::wake, {});
}

void group_links::push(peer_channels& to, group_frame kind, std::string meta) {
  if (!to.control || to.gone)
    return;
  // A channel that has ended is found by `listen`.
  if (to.writer.push(make_frame(kind, std::move(meta))))
    static_cast<void>(static_cast<bool>(to.writer.pump(*to.control)));
}

// --- door

bool group_door::pump(group_epoch epoch, time_point now, collective_counters& counters) {
  while (callers_.size() < callers_max) {
    auto link = listener_->try_accept();
    if (!link)
      break;
    auto& next = callers_.emplace_back();
    next.link = std::move(link);
    next.since = now;
  }
  bool news = false;
  std::erase_if(callers_, [&](caller& who) {
    if (!who.said) {
      const auto how = hear(who, now);
      news = news || how != progress::waits;
      if (how == progress::refused)
        ++counters.callers_refused;
      if (how != progress::said_hello)
        return how == progress::refused;
    } else if (who.said->epoch > epoch) { // it waits for its turn, says nothing more, may give up
      auto event = who.reader.pump(*who.link);
      if (!event || *event != frame_event::idle)
        return true;
    }
    if (who.said->epoch >= epoch)
      return false;
    ++counters.callers_refused;
    const auto over = std::to_string(static_cast<std::uint32_t>(who.said->epoch));
    refuse(std::move(who), errc::fenced, "group epoch " + over + " has ended", epoch);
    return true;
  });
  return news;
}

group_challenge group_door::fresh_challenge() {
  return {random_.draw("group.challenge"), random_.draw("group.challenge")};
}

/// A caller that has not said hello yet, or not proved that it may.
group_door::progress group_door::hear(caller& who, time_point now) {
  auto event = who.reader.pump(*who.link);
  if (event && *event == frame_event::idle && now < after(who.since, hello_max))
    return progress::waits;
  const bool complete = event && *event == frame_event::complete;
  const auto kind = static_cast<group_frame>(complete ? who.reader.header().kind : 0);
  if (!who.claims) {
    auto hello = kind == group_frame::hello ? decode_hello(who.reader.meta()) : std::nullopt;
    const bool other_version =
      hello ? hello->version != group_protocol_version : kind == group_frame::hello;
    if (other_version) {
      const auto theirs = hello ? "version " + std::to_string(hello->version) : "another version";
      refuse(std::move(who), errc::wrong_peer,
             "the caller uses " + theirs + " of the group protocol, this process uses version "
               + std::to_string(group_protocol_version)
               + ": start all workers from the same build");
      return progress::refused;
    }
    if (!hello || hello->group != group_) {
      refuse(std::move(who), errc::wrong_peer,
             "this process is not a member of the caller's group");
      return progress::refused;
    }
    if (token_.empty()) {
      who.said = hello;
      return progress::said_hello;
    }
    who.claims = hello;
    who.asked = fresh_challenge();
    frame_writer writer{group_frame_limits};
    // A new channel has room for it; whoever does not get it does not answer.
    if (writer.push(make_frame(group_frame::challenge, encode(who.asked))))
      static_cast<void>(static_cast<bool>(writer.pump(*who.link)));
    return progress::moved;
  }
  const auto proof = kind == group_frame::proof ? decode_proof(who.reader.meta()) : std::nullopt;
  if (!proof || !same_code(proof->code, dialer_code(token_, *who.claims, who.asked))) {
    if (refused_.size() < refused_max)
      refused_.emplace_back(who.claims->from,
                            "it connected without the group's token: " + std::string{token_advice});
    refuse(std::move(who), errc::wrong_peer,
           "the caller does not have the group's token: " + std::string{token_advice});
    return progress::refused;
  }
  who.asks = proof->mine;
  who.said = who.claims;
  return progress::said_hello;
}

group_epoch group_door::newest(std::uint64_t members) const {
  group_epoch out{};
  for (const caller& who : callers_)
    if (who.said && who.said->members == members)
      out = std::max(out, who.said->epoch);
  return out;
}

std::vector<group_door::caller> group_door::take(group_epoch epoch) {
  std::vector<caller> out;
  std::erase_if(callers_, [&](caller& who) {
    const bool is_wanted = who.said && who.said->epoch == epoch;
    if (is_wanted)
      out.push_back(std::move(who));
    return is_wanted;
  });
  return out;
}

void group_door::refuse(caller who, errc code, const std::string& why, group_epoch epoch) {
  frame_writer writer{group_frame_limits};
  group_notice notice;
  notice.epoch = epoch;
  notice.why = make_failure(code, why);
  // Whoever does not take it learns from the channel's end.
  if (writer.push(make_frame(group_frame::refuse, encode(notice))))
    static_cast<void>(static_cast<bool>(writer.pump(*who.link)));
  who.link->close();
}

void group_door::watch(channel_poller& poller) {
  poller.watch(*listener_);
  for (caller& who : callers_)
    if (!who.said)
      poller.watch(*who.link, false);
}

void group_door::forget(channel_poller& poller) {
  poller.forget(*listener_);
  for (caller& who : callers_)
    poller.forget(*who.link);
}

std::string name_of(const std::vector<collective_member>& members, std::uint32_t rank) {
  std::string out = "member " + std::to_string(rank);
  if (rank < members.size() && !members[rank].name.empty())
    out = members[rank].name + ", " + out;
  if (rank < members.size())
    out += " (id " + std::to_string(members[rank].id) + " at " + members[rank].address + ")";
  return out;
}

} // namespace troupe::detail
