#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <troupe/core/data_port.hpp>
#include <troupe/core/result.hpp>
#include <troupe/transport/detail/owned_fd.hpp>

/// Local sockets: how processes of one host find each other beside TCP, hand each other memory and
/// hear of each other's end. Their names live in the network namespace and go with the process, so
/// nothing of them is left in a file system. Descriptors are close-on-exec and never block.
namespace troupe::detail {

/// Opens the listening socket that belongs to the TCP endpoint "127.0.0.1:4711". `unavailable` says
/// why not.
result<owned_fd> listen_handshake(const std::string& endpoint);
/// Connects to the listening socket of an endpoint. `connect_failed`: there is none; `unavailable`:
/// it is another user's, or any other reason.
result<owned_fd> connect_handshake(const std::string& endpoint);
/// The connection of a caller that waits at a listening socket; an empty descriptor without one.
owned_fd accept_handshake(int listening);

/// The peer's process number where this process sees it, 0 when it does not; and whether it is of
/// the same user.
struct handshake_peer {
  std::int64_t pid = 0;
  bool same_user = false;
};
handshake_peer peer_of(int socket);

/// The first message of the process that entered, with the descriptor of its memory. Grammar: magic
/// u32, version u32, ring_bytes u64; little-endian; the descriptor beside it.
struct memory_offer {
  static constexpr std::uint32_t magic = 0x48535254; // "TRSH"
  static constexpr std::uint32_t version = 1;
  static constexpr std::size_t wire_bytes = 16;
  std::uint64_t ring_bytes = 0;
};
/// False when the peer is gone or the system refuses.
bool send_offer(int socket, const memory_offer& offer, int memory);

/// The outcome of reading an offer.
struct received_offer {
  enum class state : std::uint8_t {
    nothing_yet,
    gone,
    unreadable, ///< something else, or another version
    offered
  };
  state how = state::nothing_yet;
  memory_offer offer{};
  owned_fd memory{};
};
received_offer receive_offer(int socket);

/// `channel::try_send` and `try_receive` over a local socket; none: the peer is gone.
std::optional<std::size_t> send_some(int socket, std::span<const const_bytes> parts);
std::optional<std::size_t> receive_some(int socket, std::span<const mutable_bytes> parts);

} // namespace troupe::detail
