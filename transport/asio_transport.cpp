#include <troupe/transport/asio_transport.hpp>

#include <troupe/transport/detail/asio_poller.hpp>
#include <troupe/transport/detail/asio_sockets.hpp>
#include <troupe/transport/detail/pollable.hpp>
#include <troupe/transport/detail/spare_descriptor.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace troupe {

namespace {

using detail::descriptor;

// As many as Asio hands to the system at once.
constexpr std::size_t parts_max = 64;

template <class Buffer>
class buffer_list {
public:
  template <class Span>
  explicit buffer_list(std::span<const Span> parts) {
    for (const Span& part : parts) {
      if (count_ == parts_max)
        break;
      if (!part.empty())
        buffers_[count_++] = Buffer{part.data(), part.size()};
    }
  }
  const Buffer* begin() const { return buffers_.data(); }
  const Buffer* end() const { return buffers_.data() + count_; }
  bool empty() const { return count_ == 0; }

private:
  std::array<Buffer, parts_max> buffers_{};
  std::size_t count_ = 0;
};

// The context is only what Asio needs to make a socket; nobody runs it.
using shared_context = std::shared_ptr<asio::io_context>;

class asio_channel final : public channel, public detail::pollable {
public:
  asio_channel(shared_context io, tcp::socket socket, const tcp::endpoint& remote)
    : io_{std::move(io)}, socket_{std::move(socket)}, peer_{detail::to_string(remote)} {
    watched_->fd = socket_.native_handle();
  }
  ~asio_channel() override { close(); }

  result<std::size_t> try_send(std::span<const const_bytes> parts) override {
    const buffer_list<asio::const_buffer> buffers{parts};
    error_code ec;
    const std::size_t n =
      buffers.empty() && socket_.is_open() ? 0 : socket_.write_some(buffers, ec);
    return outcome(n, ec);
  }

  result<std::size_t> try_receive(std::span<const mutable_bytes> parts) override {
    const buffer_list<asio::mutable_buffer> buffers{parts};
    error_code ec;
    const std::size_t n = buffers.empty() && socket_.is_open() ? 0 : socket_.read_some(buffers, ec);
    return outcome(n, ec);
  }

  void close() override {
    error_code ignored;
    watched_->fd = -1;
    if (!socket_.is_open())
      return;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
  }

  std::string peer() const override { return peer_; }
  std::vector<std::weak_ptr<descriptor>> watched() const override { return {watched_}; }

private:
  result<std::size_t> outcome(std::size_t n, const error_code& ec) const {
    if (!ec)
      return n;
    if (ec == asio::error::would_block || ec == asio::error::try_again
        || ec == asio::error::interrupted)
      return std::size_t{0};
    const bool closed_here = ec == asio::error::bad_descriptor;
    const std::string why = closed_here              ? "closed by this process"
                            : ec == asio::error::eof ? "closed by the peer"
                                                     : ec.message();
    return make_failure(errc::connection_lost, "connection with " + peer_ + ": " + why);
  }

  shared_context io_;
  tcp::socket socket_;
  std::string peer_;
  std::shared_ptr<descriptor> watched_ = std::make_shared<descriptor>();
};

class asio_listener final : public channel_listener, public detail::pollable {
public:
  asio_listener(shared_context io, tcp::acceptor acceptor)
    : io_{std::move(io)}, acceptor_{std::move(acceptor)} {
    error_code ignored;
    address_ = detail::to_string(acceptor_.local_endpoint(ignored));
    watched_->fd = acceptor_.native_handle();
  }

  std::unique_ptr<channel> try_accept() override {
    for (;;) {
      tcp::endpoint remote;
      socklen_t size = static_cast<socklen_t>(remote.capacity());
      // Not Asio's `accept`: the new socket must be close-on-exec from its first moment.
      const int fd =
        ::accept4(acceptor_.native_handle(), remote.data(), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
        continue;
      if (fd < 0) {
        spare_.turn_away_if_none(acceptor_.native_handle());
        return nullptr;
      }
      remote.resize(size);
      tcp::socket socket{*io_};
      error_code ec;
      socket.assign(remote.protocol(), fd, ec);
      if (ec) {
        ::close(fd);
        return nullptr;
      }
      detail::set_up_connected(socket, remote);
      return std::make_unique<asio_channel>(io_, std::move(socket), remote);
    }
  }

  std::string address() const override { return address_; }
  std::vector<std::weak_ptr<descriptor>> watched() const override { return {watched_}; }

private:
  shared_context io_;
  tcp::acceptor acceptor_;
  std::string address_{};
  detail::spare_descriptor spare_{};
  std::shared_ptr<descriptor> watched_ = std::make_shared<descriptor>();
};

class asio_transport final : public data_transport {
public:
  asio_transport(clock_port& clock, asio_transport_options options)
    : clock_{clock}, options_{options} {}

  result<std::unique_ptr<channel_listener>> listen(const std::string& address) override {
    auto found = detail::resolve(*io_, address);
    if (!found)
      return found.error();
    failure why;
    for (const tcp::endpoint& at : *found) {
      auto acceptor = detail::listen_socket(*io_, at, address, options_.socket_buffer_bytes);
      if (acceptor)
        return std::unique_ptr<channel_listener>{
          std::make_unique<asio_listener>(io_, std::move(*acceptor))};
      why = std::move(acceptor.error());
      if (why.code == errc::address_in_use)
        break;
    }
    return why;
  }

  result<std::unique_ptr<channel>> connect(const std::string& address,
                                           time_point deadline) override {
    auto found = detail::resolve(*io_, address);
    if (!found)
      return found.error();
    failure why;
    for (const tcp::endpoint& to : *found) {
      auto socket =
        detail::connect_socket(*io_, to, address, options_.socket_buffer_bytes, clock_, deadline);
      if (socket)
        return std::unique_ptr<channel>{
          std::make_unique<asio_channel>(io_, std::move(*socket), to)};
      why = std::move(socket.error());
      if (why.code == errc::deadline)
        break;
    }
    return why;
  }

  std::unique_ptr<channel_poller> make_poller() override {
    return detail::make_asio_poller(clock_, options_.spin);
  }

private:
  clock_port& clock_;
  asio_transport_options options_;
  shared_context io_ = std::make_shared<asio::io_context>();
};

} // namespace

std::unique_ptr<data_transport> make_asio_transport(clock_port& clock,
                                                    asio_transport_options options) {
  return std::make_unique<asio_transport>(clock, options);
}

std::unique_ptr<data_transport> make_asio_transport(clock_port& clock) {
  return make_asio_transport(clock, {});
}

} // namespace troupe
