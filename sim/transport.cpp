// The data plane of a simulated process: channels over simulated links.
#include <algorithm>
#include <charconv>
#include <deque>

#include <troupe/sim/detail/core.hpp>
#include <troupe/sim/detail/ports.hpp>
#include <troupe/sim/detail/transport.hpp>

namespace troupe::sim {

void watchers::tell() const {
  for (auto* p : all_)
    p->happened();
}

// --- channels
// -----------------------------------------------------------------------------------------------------

sim_channel::sim_channel(process_instance& l, std::shared_ptr<data_connection> c, int end)
  : instance_{l}, connection_{std::move(c)}, end_{end} {
  const auto& other = connection_->ends[1 - end_].instance;
  peer_ = l.owner().machines[other.machine]->host + ":" + std::to_string(connection_->number);
}

sim_channel::~sim_channel() {
  for (auto* p : std::vector<sim_poller*>{watching_})
    p->forget(*this);
  close();
}

failure sim_channel::lost() const {
  return make_failure(errc::connection_lost,
                      "connection with " + peer_ + ": "
                        + (closed_ ? "closed by this process" : "closed by the peer"));
}

std::size_t sim_channel::room() const {
  const auto& mine = connection_->ends[end_];
  const auto& theirs = connection_->ends[1 - end_];
  auto used = mine.under_way + theirs.inbox.size();
  auto all = instance_.owner().options.channel_bytes;
  return used < all ? all - used : 0;
}

bool sim_channel::is_lost() const {
  return closed_ || !instance_.is_up() || connection_->ends[end_].peer_gone;
}

result<std::size_t> sim_channel::try_send(std::span<const const_bytes> parts) {
  instance_.may_be_preempted();
  if (is_lost())
    return lost();
  std::size_t total = 0;
  for (const auto& part : parts)
    total += part.size();
  auto left = std::min(total, room());
  auto sent = left;
  std::size_t at = 0; // within parts.front()
  while (left > 0) {
    auto n = std::min(left, instance_.owner().net.segment_size(left));
    std::vector<char> segment;
    segment.reserve(n);
    while (segment.size() < n) {
      auto some = std::min(n - segment.size(), parts.front().size() - at);
      const auto* from = reinterpret_cast<const char*>(parts.front().data()) + at;
      segment.insert(segment.end(), from, from + some);
      at += some;
      if (at == parts.front().size()) {
        parts = parts.subspan(1);
        at = 0;
      }
    }
    left -= n;
    instance_.owner().net.send_data(*connection_, end_, packet::data_bytes, std::move(segment));
  }
  return sent;
}

result<std::size_t> sim_channel::try_receive(std::span<const mutable_bytes> parts) {
  instance_.may_be_preempted();
  auto& mine = connection_->ends[end_];
  if (closed_ || !instance_.is_up() || (mine.inbox.size() == 0 && mine.peer_gone))
    return lost();
  std::size_t got = 0;
  for (const auto& part : parts) {
    auto n = std::min(part.size(), mine.inbox.size());
    mine.inbox.pop(part.data(), n);
    got += n;
  }
  if (got > 0) // there is room again
    connection_->ends[1 - end_].who.tell();
  return got;
}

void sim_channel::close() {
  if (std::exchange(closed_, true))
    return;
  auto& mine = connection_->ends[end_];
  mine.open = false;
  mine.inbox.clear();
  if (instance_.is_up() && !mine.peer_gone)
    instance_.owner().net.send_data(*connection_, end_, packet::data_finished);
  mine.who.tell();
}

bool sim_channel::ready(bool want_send) const {
  return is_lost() || connection_->ends[end_].inbox.size() > 0 || (want_send && room() > 0);
}

// --- listeners
// ----------------------------------------------------------------------------------------------------

sim_listener::sim_listener(process_instance& l, std::uint16_t port) : instance_{l}, port_{port} {
  instance_.listeners[port_] = this;
}

sim_listener::~sim_listener() {
  for (auto* p : std::vector<sim_poller*>{watching_})
    p->forget(*this);
  for (auto& c : waiting_)
    sim_channel{instance_, std::move(c), 1}.close();
  instance_.listeners.erase(port_);
  instance_.unbind(port_);
}

std::string sim_listener::address() const {
  return instance_.home().host + ":" + std::to_string(port_);
}

std::unique_ptr<channel> sim_listener::try_accept() {
  if (waiting_.empty())
    return nullptr;
  auto c = std::move(waiting_.front());
  waiting_.pop_front();
  return std::make_unique<sim_channel>(instance_, std::move(c), 1);
}

bool sim_listener::take(std::shared_ptr<data_connection> c) {
  constexpr std::size_t backlog_max = 128;
  if (waiting_.size() >= backlog_max)
    return false;
  waiting_.push_back(std::move(c));
  for (auto* p : watching_)
    p->happened();
  return true;
}

// --- pollers
// ------------------------------------------------------------------------------------------------------

sim_poller::~sim_poller() {
  while (!channels_.empty())
    forget(*channels_.back().what);
  while (!listeners_.empty())
    forget(*listeners_.back());
}

void sim_poller::watch(channel& c, bool want_send) {
  auto& ours = dynamic_cast<sim_channel&>(c);
  forget(c);
  channels_.push_back({&ours, want_send});
  ours.watching_.push_back(this);
  ours.end().who.add(*this);
}

void sim_poller::watch(channel_listener& l) {
  auto& ours = dynamic_cast<sim_listener&>(l);
  forget(l);
  listeners_.push_back(&ours);
  ours.watching_.push_back(this);
}

void sim_poller::forget(channel& c) {
  if (std::erase_if(channels_, [&](const auto& e) { return e.what == &c; }) == 0)
    return;
  auto& ours = static_cast<sim_channel&>(c);
  std::erase(ours.watching_, this);
  ours.end().who.remove(*this);
}

void sim_poller::forget(channel_listener& l) {
  if (std::erase(listeners_, static_cast<sim_listener*>(&l)) > 0)
    std::erase(static_cast<sim_listener&>(l).watching_, this);
}

bool sim_poller::any_ready() const {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const auto& e) { return e.what->ready(e.want_send); })
         || std::any_of(listeners_.begin(), listeners_.end(),
                        [](auto* l) { return l->has_waiting(); });
}

bool sim_poller::wait(time_point deadline) {
  for (;;) {
    if (std::exchange(woken_, false) || any_ready())
      return true;
    if (!point_.wait(deadline))
      return std::exchange(woken_, false) || any_ready();
  }
}

void sim_poller::wake() {
  woken_ = true;
  point_.notify_all();
}

void sim_poller::happened() { point_.notify_all(); }

// --- the transport
// ------------------------------------------------------------------------------------------------

namespace {

struct place {
  std::string host{};
  std::uint16_t port = 0;
};

result<place> place_of(const std::string& address) {
  const auto colon = address.rfind(':');
  std::uint16_t port = 0;
  if (colon != std::string::npos && colon > 0) {
    const char* const end = address.data() + address.size();
    const auto [stop, ec] = std::from_chars(address.data() + colon + 1, end, port);
    if (ec == std::errc{} && stop == end)
      return place{address.substr(0, colon), port};
  }
  return make_failure(errc::invalid_argument, "address \"" + address + "\": expected host:port");
}

class sim_transport final : public data_transport {
public:
  explicit sim_transport(process_instance& l) : instance_{l} {}

  result<std::unique_ptr<channel_listener>> listen(const std::string& address) override {
    instance_.end_here();
    auto at = place_of(address);
    if (!at)
      return at.error();
    if (at->host != instance_.home().host)
      return make_failure(errc::invalid_argument,
                          "cannot listen on " + address + ": not this host");
    auto port = instance_.is_up() ? instance_.bind(at->port) : std::uint16_t{0};
    if (port == 0)
      return make_failure(errc::address_in_use, "cannot listen on " + address + ": address in use");
    return std::unique_ptr<channel_listener>{std::make_unique<sim_listener>(instance_, port)};
  }

  result<std::unique_ptr<channel>> connect(const std::string& address,
                                           time_point deadline) override {
    instance_.end_here();
    auto at = place_of(address);
    if (!at)
      return at.error();
    std::uint32_t machine = 0;
    if (!instance_.find_machine(at->host, machine) || !instance_.is_up()) // only a refusal is one
      return make_failure(errc::unavailable, "cannot connect to " + address + ": no such host");
    auto c = instance_.owner().net.open_channel(instance_, machine, at->port);
    auto out = std::make_unique<sim_channel>(instance_, c, 0);
    sim_poller poller{instance_};
    poller.watch(*out, false);
    while (c->state == data_connection::dialling)
      if (!poller.wait_happening(deadline))
        return make_failure(errc::deadline, "cannot connect to " + address + ": deadline exceeded");
    if (c->state == data_connection::refused)
      return make_failure(errc::connect_failed,
                          "cannot connect to " + address + ": connection refused");
    return std::unique_ptr<channel>{std::move(out)};
  }

  std::unique_ptr<channel_poller> make_poller() override {
    return std::make_unique<sim_poller>(instance_);
  }

private:
  process_instance& instance_;
};

} // namespace

std::unique_ptr<data_transport> make_sim_transport(process_instance& l) {
  return std::make_unique<sim_transport>(l);
}

} // namespace troupe::sim
