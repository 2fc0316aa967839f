// The data plane's half of network.cpp.
#include <algorithm>

#include <troupe/sim/detail/core.hpp>
#include <troupe/sim/detail/transport.hpp>

namespace troupe::sim {

std::size_t network::segment_size(std::size_t bytes) {
  auto n = std::min(bytes, world_.options.segment_bytes);
  if (n > 1 && segments_.below(8) == 0) // as a stream may, in the middle of anything
    n = 1 + static_cast<std::size_t>(segments_.below(n - 1));
  return n;
}

std::shared_ptr<data_connection> network::open_channel(process_instance& from, std::uint32_t to,
                                                       std::uint16_t port) {
  auto c = std::make_shared<data_connection>();
  c->number = channels_.size();
  c->ends[0].instance = from.id();
  c->ends[1].instance = {.machine = to};
  channels_.push_back(c);
  from.channels.push_back(c->number);
  packet p;
  p.kind = packet::data_dial;
  p.from = from.id();
  p.to_instance = {.machine = to};
  p.epoch = c->number;
  p.token = 1;
  p.port = port;
  send(std::move(p));
  return c;
}

void network::send_data(data_connection& c, int end, packet::kind_t kind, std::vector<char> bytes) {
  packet p;
  p.kind = kind;
  p.from = c.ends[end].instance;
  p.to_instance = c.ends[1 - end].instance;
  p.epoch = c.number;
  p.token = static_cast<std::uint64_t>(1 - end);
  p.bytes = std::move(bytes);
  c.ends[end].under_way += p.bytes.size();
  send(std::move(p));
}

void network::on_data_dial(process_instance* to, packet& p) {
  auto c = channels_[p.epoch];
  auto listener =
    to ? to->listeners.find(p.port) : std::map<std::uint16_t, sim_listener*>::iterator{};
  if (!to || listener == to->listeners.end())
    return answer(p, packet::data_refused);
  c->ends[1].instance = to->id();
  if (!listener->second->take(c))
    return answer(p, packet::data_refused);
  to->channels.push_back(c->number);
  send_data(*c, 1, packet::data_dialed);
}

void network::dispatch_data(process_instance* to, packet& p) {
  auto& c = *channels_[p.epoch];
  auto& here = c.ends[p.token];
  c.ends[1 - p.token].under_way -= p.bytes.size();
  if (p.kind == packet::data_dial)
    return on_data_dial(to, p);
  bool there = to && to->id() == here.instance;
  switch (p.kind) {
    case packet::data_bytes:
      if (c.dropped)
        return;
      if (!there || !here.open)
        return answer(p, packet::data_reset);
      here.inbox.push(std::move(p.bytes));
      break;
    case packet::data_dialed:
      if (c.state == data_connection::dialling)
        c.state = data_connection::established;
      break;
    case packet::data_refused: c.state = data_connection::refused; [[fallthrough]];
    case packet::data_finished: here.peer_gone = true; break;
    default: // reset
      here.peer_gone = true;
      here.inbox.clear();
  }
  if (there)
    here.who.tell();
}

} // namespace troupe::sim
