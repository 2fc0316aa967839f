#include <troupe/transport/frame.hpp>

#include <troupe/transport/detail/frame_wire.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace troupe {

using detail::get;

namespace {

// Measured on loopback: half of an L2 cache, so that what came is hashed while it is in there.
constexpr std::size_t receive_bytes_max = std::size_t{512} << 10;
constexpr std::size_t scatter_parts_max = 16;

failure bad(const channel& from, const std::string& what) {
  return make_failure(errc::bad_frame, "frame from " + from.peer() + ": " + what);
}

} // namespace

struct frame_reader::hasher {
  XXH3_state_t state;
};

frame_reader::frame_reader(frame_limits limits)
  : limits_{limits}, buffer_(std::size_t{64} << 10), hasher_{std::make_unique<hasher>()} {}

frame_reader::~frame_reader() = default;
frame_reader::frame_reader(frame_reader&&) noexcept = default;
frame_reader& frame_reader::operator=(frame_reader&&) noexcept = default;

result<frame_event> frame_reader::pump(channel& from) {
  if (broken_)
    return *broken_;
  if (state_ == state::complete) {
    if (!view_.empty())
      from.take(std::exchange(view_, {}).size());
    state_ = state::header;
    discard_ = false;
    parts_.clear();
  }
  auto event = advance(from);
  if (!event)
    broken_ = event.error();
  return event;
}

result<frame_event> frame_reader::advance(channel& from) {
  for (std::uint64_t taken = 0;;) {
    result<std::size_t> got = std::size_t{0};
    switch (state_) {
      case state::header:
        if (ahead_bytes() >= frame_header_bytes) {
          if (auto ok = parse_header(from); !ok)
            return ok.error();
          continue;
        }
        got = fill(from, frame_header_bytes - ahead_bytes());
        break;
      case state::meta:
        take_meta_ahead();
        if (meta_filled_bytes_ == meta_.size()) {
          if (XXH3_64bits(meta_.data(), meta_.size()) != meta_checksum_)
            return bad(from, "meta_checksum mismatch");
          state_ = header_.bulk_bytes > 0 ? state::ask : state::complete;
          continue;
        }
        got = receive_meta(from);
        break;
      case state::ask: return frame_event::need_bulk;
      case state::bulk:
        take_bulk_ahead();
        if (bulk_left_bytes_ == 0) {
          if (hashes_bulk_ && XXH3_64bits_digest(&hasher_->state) != bulk_checksum_)
            return bad(from, "bulk_checksum mismatch");
          state_ = state::complete;
          continue;
        }
        if (taken >= detail::pump_bytes_max) // nothing is read ahead here: a poller sees the rest
          return frame_event::idle;
        got = discard_ ? fill(from, bulk_left_bytes_) : receive_bulk(from);
        break;
      case state::view: {
        auto there = look(from);
        if (!there)
          return lost(std::move(there.error()));
        if (!*there)
          return frame_event::idle;
        if (hashes_bulk_ && XXH3_64bits(view_.data(), view_.size()) != bulk_checksum_)
          return bad(from, "bulk_checksum mismatch");
        state_ = state::complete;
        continue;
      }
      case state::complete: return frame_event::complete;
    }
    if (!got)
      return lost(std::move(got.error()));
    if (*got == 0)
      return frame_event::idle;
    taken += *got;
    received_bytes_ += *got;
  }
}

result<void> frame_reader::parse_header(const channel& from) {
  const std::byte* at = buffer_.data() + begin_;
  if (const auto magic = get<std::uint32_t>(at); magic != frame_magic)
    return bad(from,
               "magic " + std::to_string(magic) + ", expected " + std::to_string(frame_magic));
  if (const auto version = get<std::uint16_t>(at + 4); version != frame_version)
    return bad(
      from, "version " + std::to_string(version) + ", expected " + std::to_string(frame_version));
  const auto sum = get<std::uint32_t>(at + detail::header_checksum_offset);
  if (const auto right = detail::header_checksum(at); sum != right)
    return bad(from,
               "header_checksum " + std::to_string(sum) + ", expected " + std::to_string(right));
  header_ = {get<std::uint8_t>(at + 6), get<std::uint8_t>(at + 7), get<std::uint64_t>(at + 8),
             get<std::uint32_t>(at + 40), get<std::uint64_t>(at + 16)};
  meta_checksum_ = get<std::uint64_t>(at + 24);
  bulk_checksum_ = get<std::uint64_t>(at + 32);
  if (auto ok = check_lengths(from); !ok)
    return ok;
  hashes_bulk_ = from.can_damage() || bulk_checksum_ != 0;
  begin_ += frame_header_bytes;
  meta_.resize(header_.meta_bytes);
  meta_filled_bytes_ = 0;
  bulk_left_bytes_ = header_.bulk_bytes;
  state_ = state::meta;
  return {};
}

result<void> frame_reader::check_lengths(const channel& from) const {
  if (header_.kind > limits_.kind_max)
    return bad(from,
               "kind " + std::to_string(header_.kind) + " > " + std::to_string(limits_.kind_max));
  if (header_.meta_bytes > limits_.meta_bytes_max)
    return detail::over_limit("frame from " + from.peer(), "meta_bytes", header_.meta_bytes,
                              limits_.meta_bytes_max);
  if (header_.bulk_bytes > limits_.bulk_bytes_max)
    return detail::over_limit("frame from " + from.peer(), "bulk_bytes", header_.bulk_bytes,
                              limits_.bulk_bytes_max);
  if (header_.bulk_bytes == 0 && bulk_checksum_ != 0)
    return bad(from, "bulk_checksum " + std::to_string(bulk_checksum_) + " without bulk");
  return {};
}

// Over a channel whose bytes can be looked at, nothing is read that may belong to a bulk.
result<std::size_t> frame_reader::fill(channel& from, std::uint64_t wanted_bytes) {
  // What is left is less than a header.
  const std::size_t left = ahead_bytes();
  std::memmove(buffer_.data(), buffer_.data() + begin_, left);
  begin_ = 0;
  end_ = left;
  mutable_bytes to = mutable_bytes{buffer_}.subspan(end_);
  if (from.place_bytes_max() > 0)
    to = to.first(static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), wanted_bytes)));
  const std::array<mutable_bytes, 1> parts{to};
  auto got = from.try_receive(parts);
  if (got)
    end_ += *got;
  return got;
}

result<bool> frame_reader::look(channel& from) {
  auto seen = from.try_view(static_cast<std::size_t>(header_.bulk_bytes));
  if (!seen)
    return seen.error();
  view_ = *seen;
  bulk_left_bytes_ -= view_.size();
  received_bytes_ += view_.size();
  return !view_.empty();
}

void frame_reader::take_meta_ahead() {
  const std::size_t n = std::min(ahead_bytes(), meta_.size() - meta_filled_bytes_);
  std::memcpy(meta_.data() + meta_filled_bytes_, buffer_.data() + begin_, n);
  meta_filled_bytes_ += n;
  begin_ += n;
}

result<std::size_t> frame_reader::receive_meta(channel& from) {
  // The buffer is empty: what follows the meta goes there.
  const mutable_bytes rest = std::as_writable_bytes(std::span{meta_}).subspan(meta_filled_bytes_);
  const bool ahead = from.place_bytes_max() == 0;
  const std::array<mutable_bytes, 2> parts{
    rest, mutable_bytes{buffer_}.first(ahead ? buffer_.size() : 0)};
  auto got = from.try_receive(parts);
  if (got) {
    const std::size_t into_meta = std::min(*got, rest.size());
    meta_filled_bytes_ += into_meta;
    begin_ = 0;
    end_ = *got - into_meta;
  }
  return got;
}

result<void> frame_reader::provide(std::vector<mutable_bytes> parts) {
  TROUPE_ASSERT(state_ == state::ask, "frame_reader: provide answers need_bulk");
  std::uint64_t bytes = 0;
  for (const mutable_bytes& part : parts)
    bytes += part.size();
  if (bytes != header_.bulk_bytes)
    return make_failure(errc::invalid_argument, "frame of kind " + std::to_string(header_.kind)
                                                  + ": bulk_bytes "
                                                  + std::to_string(header_.bulk_bytes)
                                                  + ", destination of " + std::to_string(bytes));
  parts_ = std::move(parts);
  part_ = 0;
  part_filled_bytes_ = 0;
  XXH3_64bits_reset(&hasher_->state);
  state_ = state::bulk;
  return {};
}

void frame_reader::view() {
  TROUPE_ASSERT(state_ == state::ask, "frame_reader: view answers need_bulk");
  TROUPE_ASSERT(ahead_bytes() == 0, "frame_reader: nothing of a bulk in view was read ahead");
  state_ = state::view;
}

void frame_reader::discard() {
  TROUPE_ASSERT(state_ == state::ask, "frame_reader: discard answers need_bulk");
  discard_ = true;
  XXH3_64bits_reset(&hasher_->state);
  state_ = state::bulk;
}

void frame_reader::place(std::size_t n, const std::byte* from) {
  bulk_left_bytes_ -= n;
  if (discard_) {
    if (hashes_bulk_)
      XXH3_64bits_update(&hasher_->state, from, n);
    return;
  }
  while (n > 0) {
    const mutable_bytes to = parts_[part_].subspan(part_filled_bytes_);
    const std::size_t piece = std::min(n, to.size());
    // An empty part may have no address at all.
    if (from != nullptr && piece > 0) {
      std::memcpy(to.data(), from, piece);
      from += piece;
    }
    if (piece > 0 && hashes_bulk_)
      XXH3_64bits_update(&hasher_->state, to.data(), piece);
    n -= piece;
    part_filled_bytes_ += piece;
    if (piece == to.size()) {
      ++part_;
      part_filled_bytes_ = 0;
    }
  }
}

void frame_reader::take_bulk_ahead() {
  const std::size_t n =
    static_cast<std::size_t>(std::min<std::uint64_t>(ahead_bytes(), bulk_left_bytes_));
  if (n == 0)
    return;
  place(n, buffer_.data() + begin_);
  begin_ += n;
}

result<std::size_t> frame_reader::receive_bulk(channel& from) {
  std::array<mutable_bytes, scatter_parts_max + 1> parts;
  std::size_t count = 0;
  std::size_t wanted = 0;
  std::size_t skip = part_filled_bytes_;
  for (std::size_t i = part_;
       i < parts_.size() && count < scatter_parts_max && wanted < receive_bytes_max; ++i) {
    const mutable_bytes rest = parts_[i].subspan(std::exchange(skip, 0));
    if (rest.empty())
      continue;
    parts[count] = rest.first(std::min(rest.size(), receive_bytes_max - wanted));
    wanted += parts[count++].size();
  }
  if (wanted == bulk_left_bytes_
      && from.place_bytes_max() == 0) // the buffer is empty: the next frames' beginning goes there
    parts[count++] = buffer_;
  auto got = from.try_receive({parts.data(), count});
  if (got) {
    const std::size_t into_bulk = std::min(*got, wanted);
    place(into_bulk, nullptr);
    begin_ = 0;
    end_ = *got - into_bulk;
  }
  return got;
}

failure frame_reader::lost(failure why) const {
  if (state_ == state::header && ahead_bytes() == 0)
    return why;
  why.text += ", inside a frame";
  if (state_ != state::header)
    why.text += " of kind " + std::to_string(header_.kind) + ": "
                + std::to_string(meta_filled_bytes_) + " of " + std::to_string(header_.meta_bytes)
                + " meta_bytes and " + std::to_string(header_.bulk_bytes - bulk_left_bytes_)
                + " of " + std::to_string(header_.bulk_bytes) + " bulk_bytes received";
  return why;
}

} // namespace troupe
