#include <troupe/transport/host_transport.hpp>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include <troupe/transport/detail/asio_poller.hpp>
#include <troupe/transport/detail/asio_sockets.hpp>
#include <troupe/transport/detail/host_link.hpp>
#include <troupe/transport/detail/spare_descriptor.hpp>

namespace troupe {

namespace {

using detail::descriptor;

// What the tracer, if there is one, hears.
void refused(tracer* trace, const std::string& whose, const std::string& why) {
  if (trace == nullptr)
    return;
  const std::initializer_list<trace_field> fields{{"address", whose}, {"why", why}};
  trace->event("transport.shared_memory_refused", {fields.begin(), fields.size()});
}

class host_channel final : public channel, public detail::pollable {
public:
  explicit host_channel(std::shared_ptr<detail::host_link> link) : link_{std::move(link)} {}

  result<std::size_t> try_send(std::span<const const_bytes> parts) override {
    return link_->send(parts);
  }
  result<std::size_t> try_receive(std::span<const mutable_bytes> parts) override {
    return link_->receive(parts);
  }
  void close() override { link_->close(); }
  bool can_damage() const override { return false; } // the kernel's memory or ours, all the way
  std::size_t place_bytes_max() const override { return link_->place_bytes_max(); }
  result<const_bytes> try_view(std::size_t n) override { return link_->view(n); }
  void take(std::size_t n) override { link_->take(n); }
  mutable_bytes try_room(std::size_t n) override { return link_->room(n); }
  void give(std::size_t n) override { link_->give(n); }
  std::string peer() const override { return link_->peer(); }
  std::vector<std::weak_ptr<descriptor>> watched() const override { return {link_}; }

private:
  std::shared_ptr<detail::host_link> link_;
};

struct door : descriptor {
  detail::owned_fd socket{};
};

class host_listener final : public channel_listener, public detail::pollable {
public:
  host_listener(std::unique_ptr<channel_listener> tcp, detail::owned_fd at) : tcp_{std::move(tcp)} {
    if (at) {
      door_ = std::make_shared<door>();
      door_->fd = at.get();
      door_->socket = std::move(at);
    }
  }

  std::unique_ptr<channel> try_accept() override {
    auto entered = door_ ? detail::accept_handshake(door_->fd) : detail::owned_fd{};
    if (!entered) {
      if (door_)
        spare_.turn_away_if_none(door_->fd);
      return tcp_->try_accept();
    }
    std::string peer = "shm:" + std::to_string(detail::peer_of(entered.get()).pid);
    return std::make_unique<host_channel>(
      std::make_shared<detail::host_link>(std::move(entered), true, std::move(peer)));
  }
  std::string address() const override { return tcp_->address(); }

  std::vector<std::weak_ptr<descriptor>> watched() const override {
    auto out = dynamic_cast<const detail::pollable&>(*tcp_).watched();
    if (door_)
      out.push_back(door_);
    return out;
  }

private:
  std::unique_ptr<channel_listener> tcp_;
  std::shared_ptr<door> door_{};
  detail::spare_descriptor spare_{};
};

// Names under which the listener that a TCP connection to `to` would reach may have its door.
std::vector<std::string> door_names(const tcp::endpoint& to) {
  const tcp::endpoint any_v4{asio::ip::address_v4::any(), to.port()};
  const tcp::endpoint any_v6{asio::ip::address_v6::any(), to.port()};
  std::vector<std::string> out{detail::to_string(to), detail::to_string(any_v6)};
  if (to.address().is_v4())
    out.insert(out.begin() + 1, detail::to_string(any_v4));
  return out;
}

class host_transport final : public data_transport {
public:
  host_transport(clock_port& clock, host_transport_options options)
    : clock_{clock}, options_{options}, tcp_{make_asio_transport(clock, options.tcp)} {
    const std::size_t ring = options_.ring_bytes;
    if (!std::has_single_bit(ring) || ring < detail::link_memory::ring_bytes_min
        || ring > detail::link_memory::ring_bytes_max)
      throw_failure(errc::invalid_argument, "host_transport_options: ring_bytes "
                                              + std::to_string(ring)
                                              + ", expected a power of two from 4096 to 67108864");
  }

  result<std::unique_ptr<channel_listener>> listen(const std::string& address) override {
    auto made = tcp_->listen(address);
    if (!made || !options_.shared_memory)
      return made;
    auto door = detail::listen_handshake((*made)->address());
    if (!door)
      refused(options_.trace, (*made)->address(), door.error().text);
    return std::unique_ptr<channel_listener>{std::make_unique<host_listener>(
      std::move(*made), door ? std::move(*door) : detail::owned_fd{})};
  }

  result<std::unique_ptr<channel>> connect(const std::string& address,
                                           time_point deadline) override {
    if (options_.shared_memory)
      if (auto link = enter(address))
        return std::unique_ptr<channel>{std::make_unique<host_channel>(std::move(link))};
    return tcp_->connect(address, deadline);
  }

  std::unique_ptr<channel_poller> make_poller() override {
    return detail::make_asio_poller(clock_, options_.tcp.spin);
  }

  bool shares_memory() const override { return options_.shared_memory; }

private:
  // Through the door of a listener of this host; null: there is none, or nothing can be shared.
  std::shared_ptr<detail::host_link> enter(const std::string& address) {
    auto found = detail::resolve(*io_, address);
    if (!found)
      return nullptr; // TCP says so
    for (const tcp::endpoint& to : *found) {
      if (!detail::is_local(to.address()))
        continue;
      for (const std::string& name : door_names(to)) {
        auto socket = detail::connect_handshake(name);
        if (socket)
          return offer(std::move(*socket), detail::to_string(to));
        if (socket.error().code != errc::connect_failed)
          refused(options_.trace, address, socket.error().text);
      }
    }
    return nullptr;
  }

  std::shared_ptr<detail::host_link> offer(detail::owned_fd socket, std::string peer) {
    auto memory = detail::link_memory::create(options_.ring_bytes);
    if (!memory) {
      refused(options_.trace, peer, memory.error().text);
      return nullptr;
    }
    if (!detail::send_offer(socket.get(), {options_.ring_bytes}, memory->fd())) {
      refused(options_.trace, peer, "the offer cannot be sent");
      return nullptr;
    }
    return std::make_shared<detail::host_link>(std::move(socket), std::move(*memory),
                                               std::move(peer));
  }

  clock_port& clock_;
  host_transport_options options_;
  std::unique_ptr<data_transport> tcp_;
  std::shared_ptr<asio::io_context> io_ = std::make_shared<asio::io_context>();
};

} // namespace

std::unique_ptr<data_transport> make_host_transport(clock_port& clock,
                                                    host_transport_options options) {
  return std::make_unique<host_transport>(clock, options);
}

std::unique_ptr<data_transport> make_host_transport(clock_port& clock) {
  return make_host_transport(clock, {});
}

} // namespace troupe
