#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include <troupe/core/data_port.hpp>
#include <troupe/core/result.hpp>
#include <troupe/transport/detail/byte_ring.hpp>
#include <troupe/transport/detail/pollable.hpp>
#include <troupe/transport/detail/shm_handshake.hpp>

/// A channel between processes of one host: bytes through two rings in memory that both map, a
/// local socket for hello, wake-ups and the news that the peer is gone.
namespace troupe::detail {

/// Memory of a link: one page of indices, then the dialer's ring, then the acceptor's. In this
/// process each ring is mapped twice, one behind the other, so that no piece of it has a seam.
class link_memory {
public:
  link_memory() = default;
  ~link_memory();
  link_memory(link_memory&& other) noexcept;
  link_memory& operator=(link_memory&& other) noexcept;

  static constexpr std::size_t ring_bytes_min = 4096;
  static constexpr std::size_t ring_bytes_max = std::size_t{64} << 20;
  /// @pre a power of two within the bounds.
  static result<link_memory> create(std::size_t ring_bytes);
  /// Memory that a peer offers. Nothing it says is believed: `unavailable` for sizes out of bounds,
  /// for anything but memory of that size, and for memory that could shrink.
  static result<link_memory> adopt(owned_fd memory, std::uint64_t ring_bytes);

  /// The ring that the dialer writes, or the acceptor.
  ring_place ring_of(bool dialer) const;
  int fd() const { return fd_.get(); }
  /// Closes the descriptor, once the peer has it.
  void close_door() { fd_.reset(); }

private:
  static result<link_memory> map(owned_fd memory, std::size_t ring_bytes);
  std::size_t mapped_bytes() const;

  owned_fd fd_{};
  std::byte* begin_ = nullptr;
  std::size_t ring_bytes_ = 0;
};

/// An end of a link. One thread, or two as `channel` allows. Who enters offers memory and may write
/// at once; who accepts takes it or declines, and then all bytes go through the socket, those first
/// that had been written already.
///
///     socket := offer answer? (wake* | byte*)      after yes | after no
///     answer := yes | no
class host_link final : public descriptor {
public:
  /// The dialer's end, whose offer is sent.
  host_link(owned_fd socket, link_memory memory, std::string peer);
  /// The acceptor's end. `takes_memory`: whether an offer may be accepted.
  host_link(owned_fd socket, bool takes_memory, std::string peer);
  ~host_link() override { close(); }

  /// `channel::try_send` and `try_receive`. `bad_frame`: the peer's indices can't be.
  result<std::size_t> send(std::span<const const_bytes> parts);
  result<std::size_t> receive(std::span<const mutable_bytes> parts);
  void close();
  /// The calls of `channel` on its own memory.
  std::size_t place_bytes_max() const { return stage_ == stage::shared ? in_place_bytes_max_ : 0; }
  result<const_bytes> view(std::size_t n);
  void take(std::size_t n);
  mutable_bytes room(std::size_t n);
  void give(std::size_t n);
  const std::string& peer() const { return peer_; }
  /// Whether bytes go through memory; true from the start for a dialer, until it hears otherwise.
  bool shares_memory() const { return stage_ == stage::shared; }

  short events(bool want_send) const override;
  bool is_ready(bool want_send) override;
  bool ready_or_told(bool want_send) override;

private:
  enum class stage : std::uint8_t { greeting, shared, plain };

  void greet();
  void greet_locked();
  void share(link_memory memory, bool dialer);
  void answer(std::byte with);
  void wake_peer();
  void listen();
  bool flush_rest();
  bool flush_rest_locked();
  result<std::size_t> send_shared(std::span<const const_bytes> parts);
  result<std::size_t> send_plain(std::span<const const_bytes> parts);
  result<std::size_t> receive_shared(std::span<const mutable_bytes> parts);
  result<std::size_t> receive_plain(std::span<const mutable_bytes> parts);
  failure lost() const;
  failure nonsense();

  owned_fd socket_;
  link_memory memory_{};
  ring_writer out_{};
  ring_reader in_{};
  std::size_t in_place_bytes_max_ = 0;
  std::size_t awaited_bytes_ = 1; // what a wait is for
  std::mutex talk_{};             // what the socket says is heard by one at a time
  std::atomic<stage> stage_{stage::greeting};
  bool takes_memory_ = false;
  bool answered_ = false; // a dialer: whether the offer was
  // a dialer whose offer was declined: what had been written stays to be sent
  std::atomic<bool> has_rest_{false};
  std::atomic<bool> gone_{false};
  std::atomic<bool> broken_{false};
  std::atomic<bool> closed_{false};
  std::string peer_;
};

} // namespace troupe::detail
