#include <troupe/transport/memory_transport.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/random.hpp>

namespace troupe {

namespace {

// A bounded queue of bytes that takes memory only as it fills.
class byte_queue {
public:
  std::size_t size() const { return size_; }
  void push(const std::byte* from, std::size_t n, std::size_t capacity) {
    if (size_ + n > ring_.size())
      grow(std::min(capacity, std::max(size_ + n, 2 * ring_.size())));
    const std::size_t at = (head_ + size_) % ring_.size();
    const std::size_t first = std::min(n, ring_.size() - at);
    std::memcpy(ring_.data() + at, from, first);
    std::memcpy(ring_.data(), from + first, n - first);
    size_ += n;
  }
  void pop(std::byte* to, std::size_t n) {
    const std::size_t first = std::min(n, ring_.size() - head_);
    std::memcpy(to, ring_.data() + head_, first);
    std::memcpy(to + first, ring_.data(), n - first);
    head_ = (head_ + n) % ring_.size();
    size_ -= n;
  }

private:
  void grow(std::size_t capacity) {
    std::vector<std::byte> larger(capacity);
    const std::size_t first = std::min(size_, ring_.size() - head_);
    std::copy_n(ring_.data() + head_, first, larger.data());
    std::copy_n(ring_.data(), size_ - first, larger.data() + first);
    ring_ = std::move(larger);
    head_ = 0;
  }
  std::vector<std::byte> ring_{};
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

// Both ends of a connection: end i sends into to[1 - i] and receives from to[i].
struct connection {
  byte_queue to[2];
  bool ended = false; // closed by an end, cut, or never accepted
  std::uint64_t taken_bytes = 0;
  std::uint64_t random = 0;
};

struct backlog {
  std::deque<std::pair<std::shared_ptr<connection>, std::string>> waiting{};
  bool open = true;
};

// All state of a transport, behind one mutex. Whatever changes wakes all who wait; they look for
// themselves.
struct hub {
  hub(wait_port& w, memory_transport_options o) : waits{w}, options{o} {}

  wait_port& waits;
  const memory_transport_options options;
  std::mutex mutex{};
  std::map<std::string, std::shared_ptr<backlog>> listeners{};
  std::vector<wait_point*> waiting{};
  std::uint32_t next_port = 1;
  std::uint64_t connections = 0;

  void changed() {
    for (wait_point* point : waiting)
      point->notify_all();
  }
};

using shared_hub = std::shared_ptr<hub>;

// A wait point that hears of every change while it lives.
class listening_point {
public:
  explicit listening_point(hub& h) : hub_{h}, point_{h.waits.make_point()} {
    const std::lock_guard lock{hub_.mutex};
    hub_.waiting.push_back(point_.get());
  }
  ~listening_point() {
    const std::lock_guard lock{hub_.mutex};
    std::erase(hub_.waiting, point_.get());
  }
  listening_point(const listening_point&) = delete;
  listening_point& operator=(const listening_point&) = delete;
  wait_point& operator*() { return *point_; }

private:
  hub& hub_;
  std::unique_ptr<wait_point> point_;
};

class memory_channel final : public channel {
public:
  memory_channel(shared_hub h, std::shared_ptr<connection> c, int end, std::string peer)
    : hub_{std::move(h)}, connection_{std::move(c)}, end_{end}, peer_{std::move(peer)} {}
  ~memory_channel() override { close(); }

  result<std::size_t> try_send(std::span<const const_bytes> parts) override {
    const std::lock_guard lock{hub_->mutex};
    connection& c = *connection_;
    if (c.ended)
      return lost();
    byte_queue& queue = c.to[1 - end_];
    const std::size_t capacity = std::max<std::size_t>(1, hub_->options.capacity_bytes);
    const std::uint64_t cut = hub_->options.cut_after_bytes;
    std::size_t room = chunk(capacity - queue.size());
    if (cut != 0)
      room = static_cast<std::size_t>(std::min<std::uint64_t>(room, cut - c.taken_bytes));
    std::size_t sent = 0;
    for (const const_bytes& part : parts) {
      const std::size_t n = std::min(part.size(), room - sent);
      if (n == 0)
        continue;
      queue.push(part.data(), n, capacity);
      sent += n;
    }
    c.taken_bytes += sent;
    c.ended = cut != 0 && c.taken_bytes >= cut;
    if (sent > 0)
      hub_->changed();
    return sent;
  }

  result<std::size_t> try_receive(std::span<const mutable_bytes> parts) override {
    const std::lock_guard lock{hub_->mutex};
    byte_queue& queue = connection_->to[end_];
    if (closed_here_ || (queue.size() == 0 && connection_->ended))
      return lost();
    const std::size_t there = chunk(queue.size());
    std::size_t got = 0;
    for (const mutable_bytes& part : parts) {
      const std::size_t n = std::min(part.size(), there - got);
      if (n == 0)
        continue;
      queue.pop(part.data(), n);
      got += n;
    }
    if (got > 0)
      hub_->changed();
    return got;
  }

  void close() override {
    const std::lock_guard lock{hub_->mutex};
    if (std::exchange(closed_here_, true))
      return;
    connection_->ended = true;
    hub_->changed();
  }

  std::string peer() const override { return peer_; }

  // With the hub's mutex held.
  bool ready(bool want_send) const {
    return connection_->ended || closed_here_ || connection_->to[end_].size() > 0
           || (want_send
               && connection_->to[1 - end_].size()
                    < std::max<std::size_t>(1, hub_->options.capacity_bytes));
  }
  const hub* home() const { return hub_.get(); }
  std::weak_ptr<const bool> alive() const { return alive_; }

private:
  std::size_t chunk(std::size_t at_most) const {
    if (hub_->options.chunk_seed == 0 || at_most == 0)
      return at_most;
    const std::uint64_t drawn = next_word(connection_->random);
    if ((drawn >> 62) == 0)
      return 0;
    const std::uint64_t max = std::max<std::size_t>(1, hub_->options.chunk_bytes_max);
    return std::min<std::size_t>(at_most, 1 + drawn % max);
  }
  failure lost() const {
    return make_failure(errc::connection_lost,
                        "connection with " + peer_ + ": "
                          + (closed_here_ ? "closed by this process" : "closed by the peer"));
  }

  shared_hub hub_;
  std::shared_ptr<connection> connection_;
  int end_ = 0;
  std::string peer_;
  bool closed_here_ = false;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

class memory_listener final : public channel_listener {
public:
  memory_listener(shared_hub h, std::shared_ptr<backlog> b, std::string address)
    : hub_{std::move(h)}, backlog_{std::move(b)}, address_{std::move(address)} {}
  ~memory_listener() override {
    const std::lock_guard lock{hub_->mutex};
    backlog_->open = false;
    for (auto& [waiting, from] : backlog_->waiting)
      waiting->ended = true;
    hub_->listeners.erase(address_);
    hub_->changed();
  }

  std::unique_ptr<channel> try_accept() override {
    const std::lock_guard lock{hub_->mutex};
    if (backlog_->waiting.empty())
      return nullptr;
    auto [accepted, from] = std::move(backlog_->waiting.front());
    backlog_->waiting.pop_front();
    hub_->changed();
    return std::make_unique<memory_channel>(hub_, std::move(accepted), 1, std::move(from));
  }

  std::string address() const override { return address_; }

  // With the hub's mutex held.
  bool ready() const { return !backlog_->waiting.empty(); }
  const hub* home() const { return hub_.get(); }
  std::weak_ptr<const bool> alive() const { return alive_; }

private:
  shared_hub hub_;
  std::shared_ptr<backlog> backlog_;
  std::string address_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

class memory_poller final : public channel_poller {
public:
  explicit memory_poller(shared_hub h) : hub_{std::move(h)}, point_{*hub_} {}

  void watch(channel& c, bool want_send) override {
    auto* ours = dynamic_cast<memory_channel*>(&c);
    check(ours != nullptr && ours->home() == hub_.get());
    forget(c);
    channels_.push_back({ours, ours->alive(), want_send});
  }
  void watch(channel_listener& l) override {
    auto* ours = dynamic_cast<memory_listener*>(&l);
    check(ours != nullptr && ours->home() == hub_.get());
    forget(l);
    listeners_.push_back({ours, ours->alive(), false});
  }
  void forget(channel& c) override {
    std::erase_if(channels_, [&c](const auto& e) { return e.what == &c; });
  }
  void forget(channel_listener& l) override {
    std::erase_if(listeners_, [&l](const auto& e) { return e.what == &l; });
  }

  bool wait(time_point deadline) override {
    std::unique_lock lock{hub_->mutex};
    const bool ready = wait_for(*point_, lock, deadline, [this] { return woken_ || any_ready(); });
    woken_ = false;
    return ready;
  }

  void wake() override {
    const std::lock_guard lock{hub_->mutex};
    woken_ = true;
    (*point_).notify_all();
  }

private:
  // What is destroyed while watched is forgotten.
  template <class T>
  struct entry {
    const T* what = nullptr;
    std::weak_ptr<const bool> alive{};
    bool want_send = false;
  };

  static void check(bool made_here) {
    TROUPE_ASSERT(made_here, "poller: what it watches was made by the same transport");
  }
  bool any_ready() const {
    return std::any_of(
             channels_.begin(), channels_.end(),
             [](const auto& e) { return !e.alive.expired() && e.what->ready(e.want_send); })
           || std::any_of(listeners_.begin(), listeners_.end(),
                          [](const auto& e) { return !e.alive.expired() && e.what->ready(); });
  }

  shared_hub hub_;
  listening_point point_;
  std::vector<entry<memory_channel>> channels_{};
  std::vector<entry<memory_listener>> listeners_{};
  bool woken_ = false;
};

// The number behind the last colon.
result<std::uint32_t> port_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::uint32_t port = 0;
  if (colon != std::string::npos && colon > 0) {
    const char* const end = address.data() + address.size();
    const auto [stop, ec] = std::from_chars(address.data() + colon + 1, end, port);
    if (ec == std::errc{} && stop == end)
      return port;
  }
  return make_failure(errc::invalid_argument, "address \"" + address + "\": expected name:number");
}

class memory_transport final : public data_transport {
public:
  memory_transport(wait_port& waits, memory_transport_options options)
    : hub_{std::make_shared<hub>(waits, options)} {}

  result<std::unique_ptr<channel_listener>> listen(const std::string& address) override {
    auto port = port_of(address);
    if (!port)
      return port.error();
    const std::lock_guard lock{hub_->mutex};
    std::string chosen = address;
    while (*port == 0 && (chosen == address || hub_->listeners.contains(chosen)))
      chosen = address.substr(0, address.rfind(':') + 1) + std::to_string(hub_->next_port++);
    if (hub_->listeners.contains(chosen))
      return make_failure(errc::address_in_use, "cannot listen on " + chosen + ": address in use");
    auto waiting = std::make_shared<backlog>();
    hub_->listeners.emplace(chosen, waiting);
    return std::unique_ptr<channel_listener>{
      std::make_unique<memory_listener>(hub_, std::move(waiting), chosen)};
  }

  result<std::unique_ptr<channel>> connect(const std::string& address,
                                           time_point deadline) override {
    if (auto port = port_of(address); !port)
      return port.error();
    listening_point point{*hub_};
    std::unique_lock lock{hub_->mutex};
    const auto found = hub_->listeners.find(address);
    if (found == hub_->listeners.end())
      return make_failure(errc::connect_failed,
                          "cannot connect to " + address + ": connection refused");
    const std::shared_ptr<backlog> to = found->second;
    if (!wait_for(*point, lock, deadline,
                  [&] { return !to->open || to->waiting.size() < hub_->options.backlog_max; }))
      return make_failure(errc::deadline, "cannot connect to " + address + ": deadline exceeded");
    if (!to->open)
      return make_failure(errc::connect_failed,
                          "cannot connect to " + address + ": connection refused");
    auto made = std::make_shared<connection>();
    made->random = hub_->options.chunk_seed + hub_->connections++;
    to->waiting.emplace_back(made, "dialer:" + std::to_string(hub_->connections));
    hub_->changed();
    return std::unique_ptr<channel>{
      std::make_unique<memory_channel>(hub_, std::move(made), 0, address)};
  }

  std::unique_ptr<channel_poller> make_poller() override {
    return std::make_unique<memory_poller>(hub_);
  }

private:
  shared_hub hub_;
};

} // namespace

std::unique_ptr<data_transport> make_memory_transport(wait_port& waits,
                                                      memory_transport_options options) {
  return std::make_unique<memory_transport>(waits, options);
}

} // namespace troupe
