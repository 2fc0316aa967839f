// Streams of frames, in any pieces.
#include <limits>

#include <troupe/actors/data_plane/parameter_protocol.hpp>
#include <troupe/transport/detail/frame_wire.hpp>
#include <troupe/transport/detail/group_hello.hpp>

#include "frame_decoders.hpp"

namespace fuzz {

using namespace troupe;
using transport_test::scripted_channel;
using troupe::detail::get;
using troupe::detail::put;

std::string repaired(std::string stream) {
  auto* bytes = reinterpret_cast<std::byte*>(stream.data());
  for (std::size_t at = 0; stream.size() - at >= frame_header_bytes;) {
    auto* header = bytes + at;
    put(header, frame_magic);
    put(header + 4, frame_version);
    const std::uint64_t meta_bytes = get<std::uint32_t>(header + 40);
    const auto bulk_bytes = get<std::uint64_t>(header + 16);
    std::uint64_t left = stream.size() - at - frame_header_bytes;
    const auto* body = header + frame_header_bytes;
    if (meta_bytes <= left)
      put(header + 24, static_cast<std::uint64_t>(XXH3_64bits(body, meta_bytes)));
    left -= std::min(meta_bytes, left);
    if (bulk_bytes == 0)
      put(header + 32, std::uint64_t{0});
    else if (bulk_bytes <= left)
      put(header + 32, static_cast<std::uint64_t>(XXH3_64bits(body + meta_bytes, bulk_bytes)));
    put(header + troupe::detail::header_checksum_offset, troupe::detail::header_checksum(header));
    left -= std::min(bulk_bytes, left);
    at = stream.size() - left;
  }
  return stream;
}

std::function<std::size_t()> cuts_of(std::uint8_t seed) {
  if (seed == 0)
    return [] { return std::numeric_limits<std::size_t>::max(); };
  return
    [state = std::uint64_t{seed}]() mutable { return 1 + transport_test::next_random(state) % 61; };
}

namespace {

const frame_limits& limits_of(unsigned choice) {
  static const frame_limits all[] = {data_limits(std::uint64_t{1} << 30),
                                     troupe::detail::group_frame_limits,
                                     {.kind_max = 19, .meta_bytes_max = 64, .bulk_bytes_max = 256},
                                     {}};
  return all[choice % 4];
}

/// What a reader makes of a stream.
struct outcome {
  std::vector<transport_test::arrived_frame> frames{};
  std::vector<bool> discarded{};
  failure end{};
};

bool operator==(const outcome& a, const outcome& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.header.kind == y.header.kind && x.header.flags == y.header.flags
           && x.header.request == y.header.request && x.meta == y.meta && x.bulk == y.bulk;
  };
  return a.discarded == b.discarded && a.end.code == b.end.code && a.end.text == b.end.text
         && std::equal(a.frames.begin(), a.frames.end(), b.frames.begin(), b.frames.end(), same);
}

/// Memory for the bulk in three parts, one of which may be empty.
std::vector<mutable_bytes> parts_of(std::string& bulk, std::uint8_t seed) {
  const auto all = std::as_writable_bytes(std::span{bulk});
  const auto first = seed % (all.size() + 1);
  const auto second = (all.size() - first) / (1 + seed % 3);
  return {all.first(first), all.subspan(first, second), all.subspan(first + second)};
}

outcome read_all(const std::string& stream, const frame_limits& limits, std::uint8_t seed,
                 bool may_discard) {
  scripted_channel from;
  from.incoming = stream;
  from.ends = true;
  from.chunk = cuts_of(seed);
  frame_reader reader{limits};
  outcome out;
  std::string bulk;
  for (;;) {
    auto event = reader.pump(from);
    if (!event) {
      out.end = event.error();
      auto again = reader.pump(from);
      require(!again && again.error().text == out.end.text, "a reader's error is final");
      return out;
    }
    if (*event == frame_event::need_bulk) {
      const auto bytes = reader.header().bulk_bytes;
      if (bytes > stream.size() || (may_discard && reader.header().flags % 2 == 1)) {
        reader.discard();
        continue;
      }
      bulk.assign(bytes, '\0');
      require(reader.provide(parts_of(bulk, seed)).operator bool(), "a bulk's place is taken");
    } else if (*event == frame_event::complete) {
      out.frames.push_back({reader.header(), std::string{reader.meta()}, std::exchange(bulk, {})});
      out.discarded.push_back(reader.discarded());
    }
  }
}

/// What the frames are on the wire.
std::string written(const outcome& x, const frame_limits& limits) {
  std::vector<outgoing_frame> frames;
  for (const auto& frame : x.frames) {
    auto& out = frames.emplace_back();
    out.kind = frame.header.kind;
    out.flags = frame.header.flags;
    out.request = frame.header.request;
    out.meta = frame.meta;
    if (!frame.bulk.empty())
      out.bulk.push_back({transport_test::bytes_of(frame.bulk), nullptr});
  }
  return transport_test::wire_of(std::move(frames), limits);
}

/// Choices (bit 0: as it is, not repaired; 1: discard some bulks; from 2: limits), a seed for the
/// pieces, the stream.
bool decode_stream(std::string_view input) {
  pieces in{input};
  const auto choices = in.byte();
  const auto seed = in.byte();
  std::string stream{in.rest()};
  if ((choices & 1) == 0)
    stream = repaired(std::move(stream));
  const auto& limits = limits_of(choices >> 2);
  const bool may_discard = (choices & 2) != 0;
  const auto whole = read_all(stream, limits, 0, may_discard);
  const auto cut = read_all(stream, limits, seed, may_discard);
  require(whole == cut, "a stream reads differently in pieces");
  require(whole.end.code == errc::bad_frame || whole.end.code == errc::too_large
            || whole.end.code == errc::connection_lost,
          "a stream ends by its end or for what is wrong with it");
  const bool all_kept =
    std::find(whole.discarded.begin(), whole.discarded.end(), true) == whole.discarded.end();
  if (!all_kept)
    return false;
  const auto again = written(whole, limits);
  require(stream.starts_with(again), "frames that were read are written otherwise");
  return again.size() == stream.size() && !stream.empty();
}

std::vector<std::string> stream_seeds() {
  using transport_test::make_frame;
  using transport_test::wire_of;
  const auto raw = [](char choices, const std::string& stream) {
    return std::string{choices, '\7'} + stream;
  };
  return {raw(0, wire_of({make_frame(1, 2, "meta")})),
          raw(1, wire_of({make_frame(1, 2, "meta", {"bulk"}), make_frame(2, 3, "")})),
          raw(2, wire_of({make_frame(7, 2, "m", {"bulk", "", "parts"}), make_frame(9, 3, "xyz")})),
          raw(4, wire_of({make_frame(7, 1, std::string(300, 'm'))})),
          raw(9, wire_of({make_frame(1, 1, "meta", {std::string(256, 'b')})})),
          raw(12, wire_of({make_frame(200, 1, "", {transport_test::pattern(3000, 1)})}))};
}

} // namespace

void add_streams(std::vector<decoder>& to) {
  to.push_back({"stream", decode_stream, stream_seeds});
}

} // namespace fuzz
