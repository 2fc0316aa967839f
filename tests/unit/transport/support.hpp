#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/environment.hpp>
#include <troupe/transport/frame.hpp>

#include "../../support/bytes.hpp"
#include "../../support/thrown.hpp"
#include "../../support/waiting.hpp"

/// What the transport's tests share: real time and waits for threads, a scripted channel, frames in
/// one line.
namespace transport_test {

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

class real_clock final : public clock_port {
public:
  time_point now() const override {
    return time_point{std::chrono::steady_clock::now().time_since_epoch() + std::chrono::hours{1}};
  }
  std::int64_t unix_ms() const override { return 0; }
};

class thread_waits final : public wait_port {
public:
  std::unique_ptr<wait_point> make_point() override { return std::make_unique<point>(); }

private:
  struct point final : wait_point {
    bool wait_until(std::unique_lock<std::mutex>& lock, time_point deadline) override {
      const auto left = deadline - real_clock{}.now();
      if (left <= left.zero())
        return false;
      return changed.wait_for(lock, std::min<duration>(left, 1h)) == std::cv_status::no_timeout;
    }
    void notify_one() override { changed.notify_one(); }
    void notify_all() override { changed.notify_all(); }
    std::condition_variable changed;
  };
};

/// A moment that no healthy test reaches.
inline time_point soon() { return real_clock{}.now() + 30s; }

/// A channel whose other end is a string. Each call moves as much as `chunk` says.
class scripted_channel final : public channel {
public:
  std::string incoming{};
  std::size_t read_at = 0;
  bool ends = false; ///< after `incoming`, the peer has closed
  std::string outgoing{};
  std::size_t outgoing_max = std::numeric_limits<std::size_t>::max();
  std::function<std::size_t()> chunk = [] { return std::numeric_limits<std::size_t>::max(); };
  std::size_t sends = 0;
  std::size_t receives = 0;
  std::vector<const std::byte*> sent_from{};
  std::vector<std::byte*> received_into{};

  result<std::size_t> try_send(std::span<const const_bytes> parts) override {
    ++sends;
    std::size_t room = std::min(chunk(), outgoing_max - outgoing.size());
    std::size_t sent = 0;
    for (const const_bytes& part : parts) {
      sent_from.push_back(part.data());
      const std::size_t n = std::min(part.size(), room - sent);
      outgoing.append(reinterpret_cast<const char*>(part.data()), n);
      sent += n;
    }
    return sent;
  }
  result<std::size_t> try_receive(std::span<const mutable_bytes> parts) override {
    ++receives;
    if (read_at == incoming.size() && ends)
      return make_failure(errc::connection_lost, "connection with scripted:1: closed by the peer");
    const std::size_t there = std::min(chunk(), incoming.size() - read_at);
    std::size_t got = 0;
    for (const mutable_bytes& part : parts) {
      received_into.push_back(part.data());
      const std::size_t n = std::min(part.size(), there - got);
      std::copy_n(reinterpret_cast<const std::byte*>(incoming.data()) + read_at + got, n,
                  part.data());
      got += n;
    }
    read_at += got;
    return got;
  }
  void close() override { ends = true; }
  std::string peer() const override { return "scripted:1"; }
};

/// n bytes that differ by `seed` and place.
inline std::string pattern(std::size_t n, std::uint64_t seed) {
  std::string out(n, '\0');
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<char>((seed * 131 + i * 7 + (i >> 8)) & 0xff);
  return out;
}

/// A frame that keeps its own bulk alive, in as many parts as given.
inline outgoing_frame make_frame(std::uint8_t kind, std::uint64_t request, std::string meta,
                                 std::vector<std::string> bulk = {}) {
  outgoing_frame out;
  out.kind = kind;
  out.flags = static_cast<std::uint8_t>(kind ^ 0x55);
  out.request = request;
  out.meta = std::move(meta);
  for (std::string& part : bulk) {
    auto kept = std::make_shared<const std::string>(std::move(part));
    out.bulk.push_back({bytes_of(*kept), kept});
  }
  return out;
}

/// A frame as it arrived.
struct arrived_frame {
  frame_header header{};
  std::string meta{};
  std::string bulk{};
};

/// The bytes that the writer makes of `frames`.
inline std::string wire_of(std::vector<outgoing_frame> frames, frame_limits limits = {}) {
  frame_writer writer{limits};
  for (outgoing_frame& frame : frames)
    writer.push(std::move(frame)).value_or_throw();
  scripted_channel to;
  while (!writer.pump(to).value_or_throw()) {
  }
  return to.outgoing;
}

/// Reads until nothing more comes now; the bulk goes into memory of its own.
class collector {
public:
  explicit collector(frame_limits limits = {}) : reader{limits} {}
  frame_reader reader;
  std::vector<arrived_frame> frames{};

  result<void> pump(channel& from) {
    for (;;) {
      auto event = reader.pump(from);
      if (!event)
        return event.error();
      if (*event == frame_event::idle)
        return {};
      if (*event == frame_event::need_bulk) {
        bulk_.assign(static_cast<std::size_t>(reader.header().bulk_bytes), '\0');
        reader.provide({std::as_writable_bytes(std::span{bulk_})}).value_or_throw();
      } else {
        frames.push_back({reader.header(), std::string{reader.meta()}, std::exchange(bulk_, {})});
      }
    }
  }

private:
  std::string bulk_{};
};

} // namespace transport_test
