#include <troupe/transport/detail/byte_ring.hpp>

#include <algorithm>
#include <cstring>

namespace troupe::detail {

namespace {

std::size_t place_of(const ring_place& at, std::uint64_t index) {
  return static_cast<std::size_t>(index) & (at.bytes - 1);
}

// Takes a sleeper's flag, once the index is out. True: it was set.
bool take_flag(std::atomic<std::uint32_t>& flag) {
  return flag.load() != 0 && flag.exchange(0) != 0;
}

} // namespace

// --- writer

std::optional<std::size_t> ring_writer::room() const {
  if (broken_)
    return std::nullopt;
  return at_.bytes - static_cast<std::size_t>(written_ - taken_seen_);
}

void ring_writer::look() {
  const std::uint64_t now = at_.indices->taken.load();
  // The reader goes forward, and no further than what was written.
  broken_ = broken_ || now - taken_seen_ > written_ - taken_seen_;
  if (!broken_)
    taken_seen_ = now;
}

std::optional<std::size_t> ring_writer::write(const_bytes from) {
  auto free = room();
  if (free && *free < from.size()) {
    look();
    free = room();
  }
  if (!free)
    return std::nullopt;
  const std::size_t n = std::min(*free, from.size());
  if (n == 0)
    return 0;
  const std::size_t begin = place_of(at_, written_);
  const std::size_t first = std::min(n, at_.bytes - begin);
  std::memcpy(at_.data + begin, from.data(), first);
  if (n > first)
    std::memcpy(at_.data, from.data() + first, n - first);
  written_ += n;
  return n;
}

std::optional<mutable_bytes> ring_writer::room_for(std::size_t n) {
  if (room().value_or(n) < n)
    look();
  const auto free = room();
  if (!free)
    return std::nullopt;
  const std::size_t begin = place_of(at_, written_);
  const bool fits = n <= *free && (at_.mirrored || begin + n <= at_.bytes);
  return fits ? mutable_bytes{at_.data + begin, n} : mutable_bytes{};
}

bool ring_writer::publish() {
  published_ = written_;
  at_.indices->written.store(written_);
  return take_flag(at_.indices->reader_sleeps);
}

bool ring_writer::has_room() {
  look();
  const auto free = room();
  return !free || *free >= at_.bytes / 4;
}

bool ring_writer::sleep_unless_room() {
  at_.indices->writer_sleeps.store(1);
  return has_room();
}

std::optional<ring_writer::pieces> ring_writer::rest() {
  const auto free = room();
  if (!free)
    return std::nullopt;
  const std::size_t begin = place_of(at_, taken_seen_);
  const std::size_t n = at_.bytes - *free;
  const std::size_t first = std::min(n, at_.bytes - begin);
  return pieces{{at_.data + begin, first}, {at_.data, n - first}};
}

void ring_writer::drop(std::size_t n) { taken_seen_ += n; }

// --- reader

std::optional<std::size_t> ring_reader::there() const {
  if (broken_)
    return std::nullopt;
  return static_cast<std::size_t>(written_seen_ - taken_);
}

void ring_reader::look() {
  const std::uint64_t now = at_.indices->written.load();
  // The writer goes forward, and no further than there is room.
  broken_ = broken_ || now - written_seen_ > at_.bytes - (written_seen_ - taken_);
  if (!broken_)
    written_seen_ = now;
}

std::optional<std::size_t> ring_reader::read(mutable_bytes to) {
  auto ready = there();
  if (ready && *ready < to.size()) {
    look();
    ready = there();
  }
  if (!ready)
    return std::nullopt;
  const std::size_t n = std::min(*ready, to.size());
  if (n == 0)
    return 0;
  const std::size_t begin = place_of(at_, taken_);
  const std::size_t first = std::min(n, at_.bytes - begin);
  std::memcpy(to.data(), at_.data + begin, first);
  if (n > first)
    std::memcpy(to.data() + first, at_.data, n - first);
  taken_ += n;
  return n;
}

bool ring_reader::publish() {
  published_ = taken_;
  at_.indices->taken.store(taken_);
  if (at_.indices->writer_sleeps.load() == 0)
    return false;
  // A writer that sleeps writes nothing, so what is there now is all that takes its room.
  const std::uint64_t left = at_.indices->written.load() - taken_;
  if (left <= at_.bytes && at_.bytes - left < at_.bytes / 4)
    return false;
  return take_flag(at_.indices->writer_sleeps);
}

std::optional<const_bytes> ring_reader::view(std::size_t n) {
  if (!has_bytes(n))
    return const_bytes{};
  if (broken_)
    return std::nullopt;
  const std::size_t begin = place_of(at_, taken_);
  const bool is_whole = at_.mirrored || begin + n <= at_.bytes;
  return is_whole ? const_bytes{at_.data + begin, n} : const_bytes{};
}

bool ring_reader::has_bytes(std::size_t n) {
  if (written_seen_ - taken_ < n)
    look();
  return broken_ || written_seen_ - taken_ >= n;
}

bool ring_reader::sleep_unless_bytes(std::size_t n) {
  at_.indices->reader_sleeps.store(1);
  return has_bytes(n);
}

} // namespace troupe::detail
