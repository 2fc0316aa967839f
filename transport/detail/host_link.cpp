#include <troupe/transport/detail/host_link.hpp>

#include <troupe/transport/detail/host_memory.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>

namespace troupe::detail {

namespace {

constexpr std::size_t link_page_bytes = 4096;
// What is shown to the peer at once: it copies one piece while we copy the next.
constexpr std::size_t piece_bytes = std::size_t{128} << 10;
constexpr int wakes_read_max = 16; // a flood of them does not hold the thread

constexpr std::byte yes{'y'};
constexpr std::byte no{'n'};
constexpr std::byte wake{'w'};

} // namespace

// --- memory

result<link_memory> link_memory::create(std::size_t ring_bytes) {
  auto memory = make_sealed_memory(link_page_bytes + 2 * ring_bytes);
  return memory ? map(std::move(*memory), ring_bytes) : memory.error();
}

result<link_memory> link_memory::adopt(owned_fd memory, std::uint64_t ring_bytes) {
  if (ring_bytes < ring_bytes_min || ring_bytes > ring_bytes_max
      || !std::has_single_bit(ring_bytes))
    return make_failure(errc::unavailable,
                        "shared memory: rings of " + std::to_string(ring_bytes) + " bytes");
  const auto bytes = static_cast<std::size_t>(ring_bytes);
  if (!is_sealed_memory(memory.get(), link_page_bytes + 2 * bytes))
    return make_failure(errc::unavailable, "shared memory: unexpected kind of descriptor");
  return map(std::move(memory), bytes);
}

result<link_memory> link_memory::map(owned_fd memory, std::size_t ring_bytes) {
  link_memory out;
  out.ring_bytes_ = ring_bytes;
  void* const all =
    ::mmap(nullptr, out.mapped_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool ok = all != MAP_FAILED;
  if (ok)
    out.begin_ = static_cast<std::byte*>(all);
  const auto put_at = [&](std::size_t at, std::size_t offset, std::size_t bytes) {
    ok = ok
         && ::mmap(out.begin_ + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   memory.get(), static_cast<off_t>(offset))
              != MAP_FAILED;
  };
  put_at(0, 0, link_page_bytes);
  for (std::size_t ring = 0; ring < 2; ++ring)
    for (std::size_t time = 0; time < 2; ++time)
      put_at(link_page_bytes + (2 * ring + time) * ring_bytes, link_page_bytes + ring * ring_bytes,
             ring_bytes);
  if (!ok)
    return make_failure(errc::unavailable, "shared memory: rings of " + std::to_string(ring_bytes)
                                             + " bytes cannot be mapped: " + std::strerror(errno));
  out.fd_ = std::move(memory);
  return out;
}

link_memory::~link_memory() {
  if (begin_ != nullptr)
    ::munmap(begin_, mapped_bytes());
}

link_memory::link_memory(link_memory&& other) noexcept { *this = std::move(other); }

link_memory& link_memory::operator=(link_memory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(begin_, other.begin_);
  std::swap(ring_bytes_, other.ring_bytes_);
  return *this;
}

std::size_t link_memory::mapped_bytes() const { return link_page_bytes + 4 * ring_bytes_; }

ring_place link_memory::ring_of(bool dialer) const {
  auto* const indices = reinterpret_cast<ring_indices*>(begin_);
  std::byte* const rings = begin_ + link_page_bytes;
  return {indices + (dialer ? 0 : 1), rings + (dialer ? 0 : 2 * ring_bytes_), ring_bytes_, true};
}

// --- a link

host_link::host_link(owned_fd socket, link_memory memory, std::string peer)
  : socket_{std::move(socket)}, peer_{std::move(peer)} {
  fd = socket_.get();
  share(std::move(memory), true);
}

host_link::host_link(owned_fd socket, bool takes_memory, std::string peer)
  : socket_{std::move(socket)},
    takes_memory_{takes_memory},
    answered_{true},
    peer_{std::move(peer)} {
  fd = socket_.get();
  greet(); // it may be there already
}

void host_link::share(link_memory memory, bool dialer) {
  memory_ = std::move(memory);
  memory_.close_door();
  // Who waits for all of it leaves a quarter of the ring free, which is what wakes a writer.
  in_place_bytes_max_ = memory_.ring_of(dialer).bytes / 4 * 3;
  out_ = ring_writer{memory_.ring_of(dialer)};
  in_ = ring_reader{memory_.ring_of(!dialer)};
  stage_ = stage::shared;
}

void host_link::greet() {
  std::lock_guard lock{talk_};
  if (stage_ == stage::greeting && !gone_)
    greet_locked();
}

// The acceptor looks for the offer.
void host_link::greet_locked() {
  auto got = receive_offer(fd);
  if (got.how == received_offer::state::nothing_yet)
    return;
  if (got.how == received_offer::state::gone) {
    gone_ = true;
    return;
  }
  if (got.how == received_offer::state::offered && takes_memory_ && peer_of(fd).same_user)
    if (auto memory = link_memory::adopt(std::move(got.memory), got.offer.ring_bytes)) {
      share(std::move(*memory), false);
      return answer(yes);
    }
  stage_ = stage::plain;
  answer(no);
}

void host_link::answer(std::byte with) {
  const std::array<const_bytes, 1> parts{const_bytes{&with, 1}};
  gone_ = send_some(fd, parts) != 1;
}

void host_link::wake_peer() {
  // A socket that takes no more is full of wake-ups.
  const std::array<const_bytes, 1> parts{const_bytes{&wake, 1}};
  send_some(fd, parts);
}

// What the socket of a link with memory says: the answer to the offer, wake-ups, the end.
void host_link::listen() {
  std::lock_guard lock{talk_};
  if (stage_ != stage::shared) // another thread has heard the answer: what follows is the stream
    return;
  std::array<std::byte, 64> some;
  for (int i = 0; i < wakes_read_max && !gone_; ++i) {
    // What follows the answer may belong to the stream.
    const std::array<mutable_bytes, 1> parts{
      mutable_bytes{some}.first(answered_ ? some.size() : 1)};
    const auto n = receive_some(fd, parts);
    gone_ = !n;
    if (!n || *n == 0)
      return;
    if (!std::exchange(answered_, true) && some[0] != yes) {
      stage_ = stage::plain;
      has_rest_ = true;
      flush_rest_locked();
      return;
    }
  }
}

bool host_link::flush_rest() {
  if (!has_rest_)
    return true;
  std::lock_guard lock{talk_};
  return flush_rest_locked();
}

// True when nothing is left of what was written before the offer was declined.
bool host_link::flush_rest_locked() {
  while (has_rest_ && !gone_) {
    const auto rest = out_.rest();
    if (!rest || rest->first.empty()) {
      has_rest_ = false;
      memory_ = {};
      break;
    }
    const std::array<const_bytes, 2> parts{rest->first, rest->second};
    const auto n = send_some(fd, parts);
    gone_ = !n;
    if (!n || *n == 0)
      return false;
    out_.drop(*n);
  }
  return !has_rest_;
}

void host_link::close() {
  if (closed_.exchange(true))
    return;
  fd = -1;
  socket_.reset();
  memory_ = {};
}

failure host_link::lost() const {
  const char* const why = closed_ ? "closed by this process" : "closed by the peer";
  return make_failure(errc::connection_lost, "connection with " + peer_ + ": " + why);
}

failure host_link::nonsense() {
  broken_ = true;
  return make_failure(errc::bad_frame,
                      "shared memory with " + peer_ + ": a read index beyond the data written");
}

// --- sending

result<std::size_t> host_link::send(std::span<const const_bytes> parts) {
  if (closed_)
    return lost();
  if (broken_)
    return nonsense();
  if (stage_ == stage::greeting)
    greet();
  if (gone_)
    return lost();
  switch (stage_) {
    case stage::greeting: return std::size_t{0};
    case stage::shared: return send_shared(parts);
    case stage::plain: break;
  }
  return send_plain(parts);
}

result<std::size_t> host_link::send_shared(std::span<const const_bytes> parts) {
  std::size_t sent = 0;
  bool full = false;
  for (std::size_t i = 0; i < parts.size() && !full; ++i)
    for (const_bytes rest = parts[i]; !rest.empty() && !full;) {
      const const_bytes piece =
        rest.first(std::min(rest.size(), piece_bytes - out_.unpublished_bytes()));
      const auto n = out_.write(piece);
      if (!n)
        return nonsense();
      sent += *n;
      full = *n < piece.size();
      rest = rest.subspan(*n);
      if (out_.unpublished_bytes() >= piece_bytes && out_.publish())
        wake_peer();
    }
  if (out_.unpublished_bytes() > 0 && out_.publish())
    wake_peer();
  if (sent > 0 || !full)
    return sent;
  listen();
  if (gone_)
    return lost();
  return stage_ == stage::plain ? send_plain(parts) : result<std::size_t>{std::size_t{0}};
}

result<std::size_t> host_link::send_plain(std::span<const const_bytes> parts) {
  if (!flush_rest())
    return gone_ ? result<std::size_t>{lost()} : result<std::size_t>{std::size_t{0}};
  const auto n = send_some(fd, parts);
  gone_ = !n;
  return n ? result<std::size_t>{*n} : result<std::size_t>{lost()};
}

// --- receiving

result<std::size_t> host_link::receive(std::span<const mutable_bytes> parts) {
  awaited_bytes_ = 1;
  if (closed_)
    return lost();
  if (broken_)
    return nonsense();
  if (std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); }))
    return std::size_t{0};
  if (stage_ == stage::greeting)
    greet();
  switch (stage_) {
    case stage::greeting: return gone_ ? result<std::size_t>{lost()} : std::size_t{0};
    case stage::plain: return receive_plain(parts);
    case stage::shared: break;
  }
  auto got = receive_shared(parts);
  if (!got || *got > 0)
    return got;
  if (!gone_)
    listen();
  if (stage_ == stage::plain)
    return receive_plain(parts);
  if (!gone_)
    return std::size_t{0};
  got = receive_shared(parts); // what it sent before its end
  return got && *got == 0 ? result<std::size_t>{lost()} : got;
}

result<std::size_t> host_link::receive_shared(std::span<const mutable_bytes> parts) {
  std::size_t got = 0;
  bool empty = false;
  for (std::size_t i = 0; i < parts.size() && !empty; ++i)
    for (mutable_bytes rest = parts[i]; !rest.empty() && !empty;) {
      const mutable_bytes piece =
        rest.first(std::min(rest.size(), piece_bytes - in_.unpublished_bytes()));
      const auto n = in_.read(piece);
      if (!n)
        return nonsense();
      got += *n;
      empty = *n < piece.size();
      rest = rest.subspan(*n);
      if (in_.unpublished_bytes() >= piece_bytes && in_.publish())
        wake_peer();
    }
  if (in_.unpublished_bytes() > 0 && in_.publish())
    wake_peer();
  return got;
}

result<std::size_t> host_link::receive_plain(std::span<const mutable_bytes> parts) {
  flush_rest();
  const auto n = receive_some(fd, parts);
  gone_ = gone_ || !n;
  return n ? result<std::size_t>{*n} : result<std::size_t>{lost()};
}

// --- in place

result<const_bytes> host_link::view(std::size_t n) {
  if (closed_ || stage_ != stage::shared)
    return lost();
  awaited_bytes_ = n;
  for (bool last = gone_;; last = true) {
    const auto found = broken_ ? std::nullopt : in_.view(n);
    if (!found)
      return nonsense();
    if (!found->empty() || n == 0)
      return *found;
    if (last)
      return gone_ ? result<const_bytes>{lost()} : result<const_bytes>{const_bytes{}};
    listen();
  }
}

void host_link::take(std::size_t n) {
  awaited_bytes_ = 1;
  if (closed_ || stage_ != stage::shared)
    return;
  in_.took(n);
  if (in_.publish())
    wake_peer();
}

mutable_bytes host_link::room(std::size_t n) {
  if (closed_ || broken_ || gone_ || stage_ != stage::shared)
    return {};
  return out_.room_for(n).value_or(mutable_bytes{}); // what is wrong is told by `send`
}

void host_link::give(std::size_t n) {
  if (closed_ || stage_ != stage::shared)
    return;
  out_.wrote(n);
  if (out_.publish())
    wake_peer();
}

// --- waiting

short host_link::events(bool want_send) const {
  // A ring's room is nothing that the system knows of, and before the offer nothing can be sent.
  const bool asks = stage_ == stage::plain && (want_send || has_rest_);
  return static_cast<short>(asks ? POLLIN | POLLOUT : POLLIN);
}

bool host_link::is_ready(bool want_send) {
  if (closed_ || broken_)
    return true;
  return stage_ == stage::shared
         && (gone_ || in_.has_bytes(awaited_bytes_) || (want_send && out_.has_room()));
}

bool host_link::ready_or_told(bool want_send) {
  if (closed_ || broken_)
    return true;
  if (stage_ != stage::shared)
    return false;
  const bool has_bytes = in_.sleep_unless_bytes(awaited_bytes_);
  return gone_ || has_bytes || (want_send && out_.sleep_unless_room());
}

} // namespace troupe::detail
