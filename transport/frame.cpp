#include <troupe/transport/frame.hpp>

#include <troupe/transport/detail/frame_wire.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace troupe {

using detail::put;

namespace {

// Bulk parts up to here are copied into the batch: cheaper than an entry of their own in a write.
constexpr std::size_t copy_bytes_max = 4096;
constexpr std::size_t batch_bytes_max = std::size_t{64} << 10;
constexpr std::size_t gather_parts_max = 64;
// Measured on loopback: larger sends bring nothing more.
constexpr std::size_t send_bytes_max = std::size_t{1} << 20;

void write_header(std::byte* to, const outgoing_frame& frame, const_bytes meta,
                  std::uint64_t bulk_bytes, std::uint64_t bulk_checksum) {
  put(to, frame_magic);
  put(to + 4, frame_version);
  put(to + 6, frame.kind);
  put(to + 7, frame.flags);
  put(to + 8, frame.request);
  put(to + 16, bulk_bytes);
  put(to + 24, static_cast<std::uint64_t>(XXH3_64bits(meta.data(), meta.size())));
  put(to + 32, bulk_checksum);
  put(to + 40, static_cast<std::uint32_t>(meta.size()));
  put(to + detail::header_checksum_offset, detail::header_checksum(to));
}

} // namespace

frame_writer::frame_writer(frame_limits limits, bool checksums)
  : limits_{limits}, checksums_{checksums} {}

const_bytes frame_writer::segment::bytes() const noexcept {
  return owned.empty() ? view : std::as_bytes(std::span{owned});
}

result<void> frame_writer::check(const outgoing_frame& frame, std::uint64_t bulk_bytes) const {
  if (frame.kind > limits_.kind_max)
    return make_failure(errc::bad_frame, "frame to send: kind " + std::to_string(frame.kind) + " > "
                                           + std::to_string(limits_.kind_max));
  if (frame.meta.size() > limits_.meta_bytes_max)
    return detail::over_limit("frame to send", "meta_bytes", frame.meta.size(),
                              limits_.meta_bytes_max);
  if (bulk_bytes > limits_.bulk_bytes_max)
    return detail::over_limit("frame to send", "bulk_bytes", bulk_bytes, limits_.bulk_bytes_max);
  return {};
}

std::string& frame_writer::batch() {
  if (queue_.empty() || !queue_.back().batch || queue_.back().owned.size() >= batch_bytes_max) {
    segment fresh;
    fresh.owned = std::exchange(spare_, {});
    fresh.batch = true;
    queue_.push_back(std::move(fresh));
  }
  return queue_.back().owned;
}

void frame_writer::append(const_bytes small) {
  if (!small.empty())
    batch().append(reinterpret_cast<const char*>(small.data()), small.size());
}

result<void> frame_writer::push(outgoing_frame frame) {
  std::uint64_t bulk_bytes = 0;
  for (const bulk_part& part : frame.bulk)
    bulk_bytes += part.bytes.size();
  if (auto ok = check(frame, bulk_bytes); !ok)
    return ok.error();

  std::uint64_t bulk_checksum = 0;
  if (bulk_bytes > 0 && checksums_) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (const bulk_part& part : frame.bulk)
      XXH3_64bits_update(&state, part.bytes.data(), part.bytes.size());
    bulk_checksum = XXH3_64bits_digest(&state);
  }
  std::array<std::byte, frame_header_bytes> header;
  write_header(header.data(), frame, std::as_bytes(std::span{frame.meta}), bulk_bytes,
               bulk_checksum);

  queued_bytes_ += frame_header_bytes + frame.meta.size() + bulk_bytes;
  position_ += frame_header_bytes + frame.meta.size() + bulk_bytes;
  append(header);
  if (frame.meta.size() <= copy_bytes_max)
    append(std::as_bytes(std::span{frame.meta}));
  else
    queue_.push_back({std::move(frame.meta), false, {}, {}});
  for (bulk_part& part : frame.bulk)
    if (part.bytes.size() <= copy_bytes_max)
      append(part.bytes);
    else
      queue_.push_back({{}, false, part.bytes, std::move(part.keepalive)});
  return {};
}

std::optional<frame_writer::placed_frame> frame_writer::place(channel& to, outgoing_frame head,
                                                              std::size_t meta_bytes,
                                                              std::size_t bulk_bytes) {
  head.meta.clear();
  const std::size_t all = frame_header_bytes + meta_bytes + bulk_bytes;
  if (checksums_ || !queue_.empty() || meta_bytes > limits_.meta_bytes_max
      || all > to.place_bytes_max() || !check(head, bulk_bytes))
    return std::nullopt;
  const mutable_bytes room = to.try_room(all);
  if (room.size() != all)
    return std::nullopt;
  return placed_frame{std::move(head), room.subspan(frame_header_bytes, meta_bytes),
                      room.subspan(frame_header_bytes + meta_bytes)};
}

void frame_writer::send_placed(channel& to, const placed_frame& frame) {
  write_header(frame.meta.data() - frame_header_bytes, frame.head, frame.meta, frame.bulk.size(),
               0);
  const std::size_t all = frame_header_bytes + frame.meta.size() + frame.bulk.size();
  position_ += all;
  sent_bytes_ += all;
  to.give(all);
}

std::size_t frame_writer::gather(std::span<const_bytes> parts) const {
  std::size_t count = 0;
  std::size_t room = send_bytes_max;
  std::size_t skip = front_sent_bytes_;
  for (const segment& from : queue_) {
    if (count == parts.size() || room == 0)
      break;
    const const_bytes rest = from.bytes().subspan(skip);
    skip = 0;
    parts[count++] = rest.first(std::min(rest.size(), room));
    room -= parts[count - 1].size();
  }
  return count;
}

void frame_writer::drop_sent(std::size_t n) {
  queued_bytes_ -= n;
  sent_bytes_ += n;
  front_sent_bytes_ += n;
  while (!queue_.empty() && front_sent_bytes_ >= queue_.front().bytes().size()) {
    segment& front = queue_.front();
    front_sent_bytes_ -= front.bytes().size();
    if (front.batch && spare_.capacity() < front.owned.capacity()) {
      front.owned.clear();
      spare_ = std::move(front.owned);
    }
    queue_.pop_front();
  }
}

result<bool> frame_writer::pump(channel& to) {
  std::array<const_bytes, gather_parts_max> parts;
  std::uint64_t taken = 0;
  while (!queue_.empty() && taken < detail::pump_bytes_max) {
    const std::size_t count = gather(parts);
    auto sent = to.try_send({parts.data(), count});
    if (!sent)
      return sent.error();
    if (*sent == 0)
      return false;
    drop_sent(*sent);
    taken += *sent;
  }
  return queue_.empty();
}

void frame_writer::clear() {
  queue_.clear();
  front_sent_bytes_ = 0;
  queued_bytes_ = 0;
}

} // namespace troupe
