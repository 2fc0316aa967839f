#include <troupe/transport/detail/shm_handshake.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <troupe/transport/detail/frame_wire.hpp>
#include <troupe/transport/detail/spare_descriptor.hpp>

namespace troupe::detail {

namespace {

constexpr std::size_t parts_max = 64;

failure no_handshake(errc code, const std::string& endpoint) {
  return make_failure(code, "handshake of " + endpoint + ": " + std::strerror(errno));
}

// A name without a file: its first byte is 0.
struct handshake_address {
  sockaddr_un at{};
  socklen_t size = 0;
  explicit handshake_address(const std::string& endpoint) {
    const std::string name = "troupe-data/" + endpoint;
    const std::size_t n = std::min(name.size(), sizeof at.sun_path - 1);
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path + 1, name.data(), n);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&at); }
};

owned_fd make_socket() {
  return owned_fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

template <class Span>
std::size_t fill(std::array<iovec, parts_max>& to, std::span<const Span> parts) {
  std::size_t count = 0;
  for (const Span& part : parts) {
    if (count == to.size())
      break;
    if (!part.empty())
      to[count++] = {const_cast<std::byte*>(part.data()), part.size()};
  }
  return count;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

} // namespace

// --- listening sockets

result<owned_fd> listen_handshake(const std::string& endpoint) {
  owned_fd out = make_socket();
  const handshake_address name{endpoint};
  if (!out || ::bind(out.get(), name.get(), name.size) != 0 || ::listen(out.get(), SOMAXCONN) != 0)
    return no_handshake(errc::unavailable, endpoint);
  return out;
}

result<owned_fd> connect_handshake(const std::string& endpoint) {
  owned_fd out = make_socket();
  const handshake_address name{endpoint};
  if (!out)
    return no_handshake(errc::unavailable, endpoint);
  if (::connect(out.get(), name.get(), name.size) != 0)
    return no_handshake(errno == ECONNREFUSED ? errc::connect_failed : errc::unavailable, endpoint);
  // Anybody can take a name; what is behind it must be of the same user.
  if (!peer_of(out.get()).same_user)
    return make_failure(errc::unavailable,
                        "handshake of " + endpoint + ": it belongs to another user");
  return out;
}

owned_fd accept_handshake(int listening) {
  for (;;) {
    owned_fd out{::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (out || (errno != EINTR && errno != ECONNABORTED))
      return out;
  }
}

spare_descriptor::spare_descriptor() : spare_{::eventfd(0, EFD_CLOEXEC)} {}

void spare_descriptor::turn_away_if_none(int listening) {
  if ((errno != EMFILE && errno != ENFILE) || !spare_)
    return;
  spare_.reset();
  owned_fd{::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)}.reset();
  spare_ = owned_fd{::eventfd(0, EFD_CLOEXEC)};
}

handshake_peer peer_of(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return {};
  return {who.pid, who.uid == ::geteuid()};
}

// --- memory

bool send_offer(int socket, const memory_offer& offer, int memory) {
  std::array<std::byte, memory_offer::wire_bytes> wire{};
  put(&wire[0], memory_offer::magic);
  put(&wire[4], memory_offer::version);
  put(&wire[8], offer.ring_bytes);
  iovec part{wire.data(), wire.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> beside{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = beside.size();
  cmsghdr* const right = CMSG_FIRSTHDR(&message);
  right->cmsg_level = SOL_SOCKET;
  right->cmsg_type = SCM_RIGHTS;
  right->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(right), &memory, sizeof memory);
  // An empty socket takes so little at once or not at all.
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
         == static_cast<ssize_t>(wire.size());
}

received_offer receive_offer(int socket) {
  using state = received_offer::state;
  received_offer out;
  std::array<std::byte, memory_offer::wire_bytes> wire{};
  iovec part{wire.data(), wire.size()};
  // Room for one descriptor to the byte, without what CMSG_SPACE adds to align the next: the system
  // closes any more.
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> beside{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n <= 0) {
    out.how = n < 0 && would_block() ? state::nothing_yet : state::gone;
    return out;
  }
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at))
    if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS
        && at->cmsg_len >= CMSG_LEN(sizeof(int))) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(at), sizeof fd);
      out.memory = owned_fd{fd};
    }
  out.how = state::unreadable;
  if (static_cast<std::size_t>(n) != wire.size() || get<std::uint32_t>(&wire[0]) != out.offer.magic
      || get<std::uint32_t>(&wire[4]) != out.offer.version || !out.memory)
    return out;
  out.offer.ring_bytes = get<std::uint64_t>(&wire[8]);
  out.how = state::offered;
  return out;
}

// --- bytes

std::optional<std::size_t> send_some(int socket, std::span<const const_bytes> parts) {
  std::array<iovec, parts_max> list;
  msghdr message{};
  message.msg_iov = list.data();
  message.msg_iovlen = fill(list, parts);
  const ssize_t n =
    message.msg_iovlen == 0 ? 0 : ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0)
    return static_cast<std::size_t>(n);
  return would_block() ? std::optional<std::size_t>{0} : std::nullopt;
}

std::optional<std::size_t> receive_some(int socket, std::span<const mutable_bytes> parts) {
  std::array<iovec, parts_max> list;
  msghdr message{};
  message.msg_iov = list.data();
  message.msg_iovlen = fill(list, parts);
  if (message.msg_iovlen == 0)
    return 0;
  const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT);
  if (n > 0)
    return static_cast<std::size_t>(n);
  return n < 0 && would_block() ? std::optional<std::size_t>{0} : std::nullopt;
}

} // namespace troupe::detail
