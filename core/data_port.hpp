#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <troupe/core/result.hpp>
#include <troupe/core/time.hpp>

/// The data plane's port: ordered byte channels that the calling thread drives itself. Nothing here
/// runs a thread.
namespace troupe {

using const_bytes = std::span<const std::byte>;
using mutable_bytes = std::span<std::byte>;

/// An end of an ordered, reliable byte stream. Never blocks. One thread at a time; or, once
/// something was received, one thread that sends and one that makes all other calls, and that
/// closes only while nothing is being sent.
class channel {
public:
  virtual ~channel() = default;
  /// Gathers from `parts` as much as fits now; the number of bytes taken (0: would block).
  /// `connection_lost` at its end.
  virtual result<std::size_t> try_send(std::span<const const_bytes> parts) = 0;
  /// Scatters into `parts` what is there; the number of bytes (0: nothing now). `connection_lost`
  /// when the peer closed.
  virtual result<std::size_t> try_receive(std::span<const mutable_bytes> parts) = 0;
  /// Ends both directions. Idempotent.
  virtual void close() = 0;
  /// The peer's name in messages: "127.0.0.1:4711".
  virtual std::string peer() const = 0;

  // Calls that only a channel of memory can do; others keep these answers.

  /// Whether bytes could be damaged on their way, so that checksums are worth their time.
  virtual bool can_damage() const { return true; }
  /// How many bytes `try_view` and `try_room` can give at most; 0: none.
  virtual std::size_t place_bytes_max() const { return 0; }
  /// The next `n` bytes where they lie, once all have come; empty until then (it is this that a
  /// poller then waits for). They stay until `take`. The peer may still write to them: good for
  /// numbers of any value, never for what must be checked.
  virtual result<const_bytes> try_view(std::size_t n) {
    (void)n;
    return const_bytes{};
  }
  /// Ends the use of `n` bytes that were viewed.
  virtual void take(std::size_t n) { (void)n; }
  /// Memory for the next `n` bytes to send; empty: there is no room now. The peer sees them with
  /// `give`.
  virtual mutable_bytes try_room(std::size_t n) {
    (void)n;
    return {};
  }
  /// Sends `n` bytes that were written to their room.
  virtual void give(std::size_t n) { (void)n; }
};

/// Accepts channels. Never blocks.
class channel_listener {
public:
  virtual ~channel_listener() = default;
  /// The next channel that was dialled; null when none waits.
  virtual std::unique_ptr<channel> try_accept() = 0;
  /// The address that peers dial, port resolved: "127.0.0.1:40001".
  virtual std::string address() const = 0;
};

/// The things that a thread waits on: channels, listeners and a wake-up from other threads.
class channel_poller {
public:
  virtual ~channel_poller() = default;
  /// Watches `c` (made by the same transport). `want_send`: also wake when it can take bytes again.
  virtual void watch(channel& c, bool want_send) = 0;
  virtual void watch(channel_listener& l) = 0;
  virtual void forget(channel& c) = 0;
  virtual void forget(channel_listener& l) = 0;
  /// Waits until something watched is ready, `wake` was called, or `deadline` passed (false). May
  /// return early. Yields a bounded number of times before it sleeps.
  virtual bool wait(time_point deadline) = 0;
  /// Any thread: makes the current or the next `wait` return.
  virtual void wake() = 0;
};

class data_transport {
public:
  virtual ~data_transport() = default;
  /// `address`: "host:port", port 0 lets the system choose. `address_in_use` names it.
  virtual result<std::unique_ptr<channel_listener>> listen(const std::string& address) = 0;
  /// Waits on the calling thread. `connect_failed`: refused; `deadline`; `unavailable`: no way
  /// there.
  virtual result<std::unique_ptr<channel>> connect(const std::string& address,
                                                   time_point deadline) = 0;
  virtual std::unique_ptr<channel_poller> make_poller() = 0;
  /// Whether processes of the same host may share memory, and threads of the same process pointers.
  virtual bool shares_memory() const { return false; }
};

} // namespace troupe
