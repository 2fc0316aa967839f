#include <troupe/sim/detail/network.hpp>

#include <algorithm>

#include <troupe/sim/detail/core.hpp>
#include <troupe/sim/detail/transport.hpp>

namespace troupe::sim {

namespace {

constexpr duration loopback = std::chrono::microseconds{5};

} // namespace

network::network(world::core& w) : world_{w}, segments_{w.options.seed, "segments"} {}

void network::add_machine() {
  auto n = links_.size() + 1;
  links_.resize(n);
  for (std::size_t from = 0; from < n; ++from)
    for (auto& row = links_[from]; row.size() < n;) {
      auto& l = row.emplace_back();
      l.draws = draw_stream{world_.options.seed, "link"}.at(from * 4096 + row.size());
    }
}

process_instance* network::up_at(std::uint32_t machine) {
  auto* l = world_.machines[machine]->now.get();
  return l && l->is_up() ? l : nullptr;
}

// --- under way
// ------------------------------------------------------------------------------------------------------

duration network::travel_time(link& l, const packet& p) {
  if (p.from.machine == p.to_instance.machine)
    return loopback;
  const auto& o = world_.options;
  auto jitter = l.draws.below(static_cast<std::uint64_t>(o.latency_jitter.count()) + 1);
  auto out = o.latency_min + duration{static_cast<std::int64_t>(jitter)};
  if (l.draws.chance(o.latency_tail_per_mille))
    out *= static_cast<std::int64_t>(2 + l.draws.below(18));
  auto on_wire = p.bytes.size() * 1'000'000'000 / o.bytes_per_second;
  return out + l.extra + duration{static_cast<std::int64_t>(on_wire)};
}

/// When the last packet of its stream arrives: none overtakes.
time_point& network::last_of(const packet& p, link& l) {
  return is_data(p.kind) ? channels_[p.epoch]->ends[1 - p.token].last : l.last;
}

void network::send(packet&& p) { put(packets_.put(std::move(p))); }

void network::put(std::uint32_t index) {
  const auto& p = packets_[index];
  auto& l = at(p.from.machine, p.to_instance.machine);
  auto& last = last_of(p, l);
  last = std::max(world_.now + travel_time(l, p), last + duration{1});
  world_.events.push(last, calendar::packet_arrives, index);
}

void network::become_due(std::uint32_t index, std::uint64_t since) {
  const auto& p = packets_[index];
  auto& l = at(p.from.machine, p.to_instance.machine);
  if (l.due.empty())
    due_.push_back({p.from.machine, p.to_instance.machine, since});
  l.due.emplace_back(index, since);
}

void network::deliver_due(std::size_t i) {
  auto& l = at(due_[i].from, due_[i].to);
  auto index = l.due.front().first;
  l.due.pop_front();
  if (l.due.empty())
    due_.erase(due_.begin() + static_cast<std::ptrdiff_t>(i));
  else
    due_[i].since = l.due.front().second;
  arrive(index);
}

void network::arrive(std::uint32_t index) {
  const auto& p = packets_[index];
  auto& l = at(p.from.machine, p.to_instance.machine);
  auto& m = *world_.machines[p.to_instance.machine];
  if (l.cut.count > 0 || l.stalled.count > 0)
    return l.held.push_back(index);
  if (m.paused)
    return m.held.push_back(index);
  auto taken = packets_.take(index);
  ++arrived;
  bytes_arrived += taken.bytes.size();
  auto& h = world_.hash;
  h.fold(taken.kind | std::uint64_t{taken.from.machine} << 8
         | std::uint64_t{taken.to_instance.machine} << 24 | std::uint64_t{taken.from.number} << 40);
  h.fold(taken.to ^ taken.epoch << 20);
  h.fold(taken.bytes.data(), taken.bytes.size());
  dispatch(taken);
}

void network::release_held(std::uint32_t machine) {
  for (auto index : std::exchange(world_.machines[machine]->held, {}))
    arrive(index);
}

void network::dispatch(packet& p) {
  auto* to = up_at(p.to_instance.machine);
  if (is_data(p.kind))
    dispatch_data(to, p);
  else
    dispatch_control(to, p);
}

/// Back to where it came from. A machine that is off answers once it is on again; if that takes too
/// long the sender's system gives up.
void network::answer(const packet& p, packet::kind_t kind) {
  auto& m = *world_.machines[p.to_instance.machine];
  if (m.off)
    return wait_for_machine(m, p, kind);
  packet out;
  out.kind = kind;
  out.from = m.now ? m.now->id() : process_id{.machine = m.index};
  out.to_instance = p.from;
  out.epoch = p.epoch;
  out.token = is_data(kind) ? 1 - p.token : p.token;
  send(std::move(out));
}

void network::wait_for_machine(machine& m, const packet& p, packet::kind_t kind) {
  if (kind != packet::finished && kind != packet::data_reset)
    return; // dials have their own deadlines
  unanswered u{p, kind};
  u.question.bytes.clear();
  auto same = [epoch = p.epoch, from = p.from, kind](const unanswered& x) {
    return x.kind == kind && x.question.epoch == epoch && x.question.from == from;
  };
  if (std::any_of(m.unanswered.begin(), m.unanswered.end(), same))
    return;
  m.unanswered.push_back(u);
  world_.later(world_.options.give_up_after, [this, &m, u, same] {
    if (std::erase_if(m.unanswered, same) > 0)
      give_up(u.question);
  });
}

void network::machine_on(machine& m) {
  for (const auto& u : std::exchange(m.unanswered, {}))
    answer(u.question, u.kind);
}

// --- the control plane
// -------------------------------------------------------------------------------------------

std::uint64_t network::open(const process_id& a, const process_id& b) {
  connections_.push_back({a, b});
  return connections_.size() - 1;
}

std::uint64_t network::route(process_instance& from, const process_id& to) {
  auto epoch = from.routes[to.machine];
  if (epoch != 0)
    return connections_[epoch].other(from.id().machine) == to ? epoch : 0;
  // The handle came from a third party: connected at once, where BASP would take a moment.
  auto* peer = up_at(to.machine);
  if (!peer || peer->id() != to || is_blocked(from.id().machine, to.machine))
    return 0;
  auto& theirs = peer->routes[from.id().machine];
  if (theirs == 0)
    theirs = open(from.id(), to);
  else if (connections_[theirs].other(to.machine) != from.id())
    return 0;
  return from.routes[to.machine] = theirs;
}

void network::lose(process_instance& side, std::uint32_t peer) {
  auto epoch = std::exchange(side.routes[peer], 0);
  if (epoch == 0)
    return;
  world_.hash.fold(0x10057 + epoch);
  side.actors().lose_peer(connections_[epoch].other(side.id().machine));
}

void network::dispatch_control(process_instance* to, packet& p) {
  switch (p.kind) {
    case packet::dial: return on_dial(to, p);
    case packet::dialed:
      if (to && to->id() == p.to_instance)
        on_dialed(*to, p);
      return;
    case packet::refused:
      if (to && to->id() == p.to_instance)
        to->actors().dialed(p.token, {}, 0);
      return;
    case packet::finished:
      if (to && to->routes[p.from.machine] == p.epoch)
        lose(*to, p.from.machine);
      return;
    default: break;
  }
  if (!to || to->routes[p.from.machine] != p.epoch)
    answer(p, packet::finished);
  else if (!connections_[p.epoch].dropped)
    to->actors().deliver(p);
}

void network::on_dial(process_instance* to, packet& p) {
  auto actor = to ? to->actors().published_at(p.port) : 0;
  if (actor == 0)
    return answer(p, packet::refused);
  // A connection that both still believe in is used again; a half of one is dropped first.
  auto from = p.from.machine;
  auto* dialer = up_at(from);
  auto epoch = to->routes[from];
  if (epoch != 0 && (!dialer || dialer->routes[p.to_instance.machine] != epoch)) {
    lose(*to, from);
    epoch = 0;
  }
  if (epoch == 0)
    to->routes[from] = epoch = open(p.from, to->id());
  packet out;
  out.kind = packet::dialed;
  out.from = to->id();
  out.to_instance = p.from;
  out.epoch = epoch;
  out.to = actor;
  out.token = p.token;
  send(std::move(out));
}

void network::on_dialed(process_instance& to, packet& p) {
  auto peer = p.from.machine;
  if (to.routes[peer] != p.epoch) {
    lose(to, peer);
    to.routes[peer] = p.epoch;
  }
  to.actors().dialed(p.token, p.from, p.to);
}

// --- ends
// -----------------------------------------------------------------------------------------------------------

void network::process_gone(process_instance& l, std::int64_t flags) {
  const bool loses = flags & crash_loses_sent;
  const bool silent = flags & crash_silent;
  for (std::uint32_t m = 0; m < l.routes.size(); ++m)
    if (auto epoch = l.routes[m]; epoch != 0) {
      connections_[epoch].dropped |= loses;
      if (silent)
        continue;
      packet out;
      out.kind = packet::finished;
      out.from = l.id();
      out.to_instance = connections_[epoch].other(l.id().machine);
      out.epoch = epoch;
      send(std::move(out));
    }
  for (auto number : l.channels) {
    auto& c = *channels_[number];
    int mine = c.ends[0].instance == l.id() ? 0 : 1;
    if (!c.ends[mine].open || c.ends[mine].peer_gone)
      continue;
    c.dropped |= loses;
    if (!silent)
      send_data(c, mine, loses ? packet::data_reset : packet::data_finished);
  }
}

bool network::reset(std::uint32_t a, std::uint32_t b, bool channels_only) {
  bool any = false;
  auto *x = up_at(a), *y = up_at(b);
  if (!x || !y)
    return false;
  if (auto epoch = x->routes[b]; !channels_only && epoch != 0 && y->routes[a] == epoch) {
    any = connections_[epoch].dropped = true;
    for (auto [from, to] : {std::pair{x, y}, std::pair{y, x}}) {
      packet out;
      out.kind = packet::finished;
      out.from = from->id();
      out.to_instance = to->id();
      out.epoch = epoch;
      send(std::move(out));
    }
  }
  for (auto number : x->channels) {
    auto& c = *channels_[number];
    int mine = c.ends[0].instance == x->id() ? 0 : 1;
    if (c.ends[1 - mine].instance != y->id() || c.dropped || !c.ends[0].open || !c.ends[1].open)
      continue;
    any = c.dropped = true;
    send_data(c, 0, packet::data_reset);
    send_data(c, 1, packet::data_reset);
  }
  return any;
}

// --- links
// ----------------------------------------------------------------------------------------------------------

bool network::lasts(hold link::*kind, std::uint32_t from, std::uint32_t to, std::uint64_t round) {
  const auto& h = at(from, to).*kind;
  return h.round == round && h.count > 0;
}

void network::start(hold link::*kind, std::uint32_t from, std::uint32_t to, duration length) {
  auto& h = at(from, to).*kind;
  ++h.count;
  if (length > duration{})
    world_.later(length, [this, kind, from, to, round = h.round] {
      if (lasts(kind, from, to, round))
        end(kind, from, to);
    });
}

void network::end(hold link::*kind, std::uint32_t from, std::uint32_t to) {
  auto& h = at(from, to).*kind;
  if (--h.count > 0)
    return;
  ++h.round;
  for (auto index : std::exchange(at(from, to).held, {}))
    arrive(index); // or waits again, for what else holds the link
}

void network::block(std::uint32_t from, std::uint32_t to, duration length) {
  start(&link::cut, from, to, length);
  world_.later(world_.options.give_up_after, [this, from, to, round = at(from, to).cut.round] {
    if (lasts(&link::cut, from, to, round))
      give_up(from, to);
  });
}

void network::stall(std::uint32_t from, std::uint32_t to, duration length) {
  start(&link::stalled, from, to, length);
}

bool network::heal(std::uint32_t from, std::uint32_t to) {
  auto& l = at(from, to);
  bool any = l.extra > duration{};
  l.extra = {};
  for (auto kind : {&link::cut, &link::stalled})
    if ((l.*kind).count > 0) {
      any = true;
      (l.*kind).count = 1;
      end(kind, from, to);
    }
  return any;
}

void network::delay(std::uint32_t from, std::uint32_t to, duration extra, duration length) {
  auto& l = at(from, to);
  l.extra = extra;
  if (length > duration{})
    world_.later(length, [this, from, to, extra] {
      if (at(from, to).extra == extra)
        at(from, to).extra = {};
    });
}

/// The senders' systems have tried for too long: their connections end.
void network::give_up(std::uint32_t from, std::uint32_t to) {
  for (auto index : std::exchange(at(from, to).held, {}))
    give_up(packets_.take(index));
}

void network::give_up(const packet& p) {
  if (is_data(p.kind)) {
    auto& c = *channels_[p.epoch];
    c.dropped = true;
    c.ends[1 - p.token].peer_gone = true;
    c.ends[1 - p.token].who.tell();
    return;
  }
  auto* sender = up_at(p.from.machine);
  if (p.epoch == 0 || !sender || sender->id() != p.from
      || sender->routes[p.to_instance.machine] != p.epoch)
    return;
  connections_[p.epoch].dropped = true;
  lose(*sender, p.to_instance.machine);
}

} // namespace troupe::sim
