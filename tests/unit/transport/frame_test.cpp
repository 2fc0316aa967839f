#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <troupe/transport/frame.hpp>

#include <troupe/transport/detail/frame_wire.hpp>

#include "support.hpp"

// Goal: the codec gives back what was written, whatever pieces the channel moves, and refuses
// everything else. Method: the writer's bytes go through a scripted channel, whole, in pieces, cut
// and corrupted.
namespace {

using namespace transport_test;

std::vector<outgoing_frame> some_frames() {
  std::vector<outgoing_frame> out;
  out.push_back(make_frame(1, 1, ""));
  out.push_back(make_frame(2, 2, "meta"));
  out.push_back(make_frame(3, ~std::uint64_t{0}, "with bulk", {pattern(10, 1)}));
  out.push_back(
    make_frame(4, 4, pattern(9000, 2), {pattern(5000, 3), "", pattern(1, 4), pattern(70000, 5)}));
  out.push_back(make_frame(5, 5, "", {pattern(4096, 6), pattern(4097, 7)}));
  out.push_back(make_frame(6, 6, "last"));
  return out;
}

void check_some_frames(const std::vector<arrived_frame>& got) {
  const std::vector<outgoing_frame> sent = some_frames();
  REQUIRE(got.size() == sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CAPTURE(i);
    std::string bulk;
    for (const bulk_part& part : sent[i].bulk)
      bulk.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
    CHECK(got[i].header.kind == sent[i].kind);
    CHECK(got[i].header.flags == sent[i].flags);
    CHECK(got[i].header.request == sent[i].request);
    CHECK(got[i].header.meta_bytes == sent[i].meta.size());
    CHECK(got[i].header.bulk_bytes == bulk.size());
    CHECK(got[i].meta == sent[i].meta);
    CHECK(got[i].bulk == bulk);
  }
}

// A header with one field overwritten and its checksum made right again.
template <class T>
std::string forged(std::size_t offset, T value) {
  std::string wire = wire_of({make_frame(3, 7, "")});
  auto* header = reinterpret_cast<std::byte*>(wire.data());
  troupe::detail::put(header + offset, value);
  troupe::detail::put(header + troupe::detail::header_checksum_offset,
                      troupe::detail::header_checksum(header));
  return wire;
}

failure refusal_of(std::string wire, frame_limits limits = {}) {
  scripted_channel from;
  from.incoming = std::move(wire);
  collector to{limits};
  auto ok = to.pump(from);
  REQUIRE(!ok);
  CHECK(to.frames.empty());
  CHECK(to.reader.meta().empty());
  // Nothing after the refusal is read.
  const std::size_t receives = from.receives;
  auto again = to.pump(from);
  REQUIRE(!again);
  CHECK(again.error().text == ok.error().text);
  CHECK(from.receives == receives);
  return ok.error();
}

} // namespace

TEST_CASE("frame: what is written is read again, byte by byte") {
  frame_writer writer;
  for (outgoing_frame& frame : some_frames())
    REQUIRE(writer.push(std::move(frame)));
  scripted_channel out;
  out.chunk = [] { return std::size_t{1}; };
  while (!writer.pump(out).value_or_throw()) {
  }
  CHECK(writer.empty());
  CHECK(writer.queued_bytes() == 0);

  scripted_channel in;
  in.incoming = out.outgoing;
  in.chunk = [] { return std::size_t{1}; };
  collector to;
  REQUIRE(to.pump(in));
  check_some_frames(to.frames);
}

TEST_CASE("frame: what is written is read again in pieces of any size") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    std::uint64_t random = seed;
    const auto chunk = [&random, seed]() -> std::size_t {
      return next_random(random) % (seed * 400);
    };
    frame_writer writer;
    for (outgoing_frame& frame : some_frames())
      REQUIRE(writer.push(std::move(frame)));
    scripted_channel out;
    out.chunk = chunk;
    std::uint64_t before = writer.queued_bytes();
    while (!writer.pump(out).value_or_throw())
      REQUIRE(writer.queued_bytes() <= std::exchange(before, writer.queued_bytes()));
    scripted_channel in;
    in.incoming = out.outgoing;
    in.chunk = chunk;
    collector to;
    while (in.read_at < in.incoming.size())
      REQUIRE(to.pump(in));
    check_some_frames(to.frames);
  }
}

TEST_CASE("frame: many small frames leave in one call and arrive in one read") {
  constexpr std::uint64_t count = 600;
  frame_writer writer;
  for (std::uint64_t i = 0; i < count; ++i)
    REQUIRE(writer.push(make_frame(9, i, "0123456789", {pattern(20, i)})));
  CHECK(writer.queued_bytes() == count * (frame_header_bytes + 30));
  scripted_channel link;
  REQUIRE(*writer.pump(link));
  CHECK(link.sends == 1);

  link.incoming = link.outgoing;
  collector to;
  REQUIRE(to.pump(link));
  REQUIRE(to.frames.size() == count);
  for (std::uint64_t i = 0; i < count; ++i)
    REQUIRE(to.frames[i].header.request == i);
  CHECK(link.receives == 2); // all of it, and the look that finds nothing
}

TEST_CASE("frame: large bulk goes from and to its own memory") {
  const std::string bulk = pattern(std::size_t{3} << 20, 1);
  frame_writer writer;
  REQUIRE(writer.push({1, 0, 1, "m", {{bytes_of(bulk), nullptr}}}));
  scripted_channel link;
  REQUIRE(*writer.pump(link));
  CHECK(std::count(link.sent_from.begin(), link.sent_from.end(), bytes_of(bulk).data()) == 1);

  link.incoming = link.outgoing;
  frame_reader reader;
  REQUIRE(*reader.pump(link) == frame_event::need_bulk);
  CHECK(*reader.pump(link) == frame_event::need_bulk);
  std::string a(1000, '\0');
  std::string b(bulk.size() - 1000, '\0');
  REQUIRE(reader.provide(
    {std::as_writable_bytes(std::span{a}), {}, std::as_writable_bytes(std::span{b})}));
  REQUIRE(*reader.pump(link) == frame_event::complete);
  CHECK(a + b == bulk);
  const auto* begin = reinterpret_cast<std::byte*>(b.data());
  CHECK(std::any_of(link.received_into.begin(), link.received_into.end(),
                    [&](const std::byte* at) { return at > begin && at < begin + b.size(); }));
}

TEST_CASE("frame: one pump moves a bounded amount, so that a fast peer can't hold the thread") {
  const std::string bulk = pattern(std::size_t{20} << 20, 1);
  frame_writer writer;
  REQUIRE(writer.push({1, 0, 1, "", {{bytes_of(bulk), nullptr}}}));
  scripted_channel link;
  REQUIRE(!*writer.pump(link));
  CHECK(link.outgoing.size() >= std::size_t{8} << 20);
  CHECK(link.outgoing.size() < std::size_t{10} << 20);
  while (!*writer.pump(link)) {
  }
  link.incoming = std::move(link.outgoing);
  frame_reader reader;
  REQUIRE(*reader.pump(link) == frame_event::need_bulk);
  std::string to(bulk.size(), '\0');
  REQUIRE(reader.provide({std::as_writable_bytes(std::span{to})}));
  int pumps = 1;
  while (*reader.pump(link) != frame_event::complete)
    ++pumps;
  CHECK(pumps == 3);
  CHECK(to == bulk);
}

TEST_CASE(
  "frame: bad header fields are refused, named with their value, and nothing is made for them") {
  const frame_limits limits{12, 1000, 5000};
  CHECK(refusal_of(forged(0, std::uint32_t{77}), limits).code == errc::bad_frame);
  CHECK(says(refusal_of(forged(0, std::uint32_t{77}), limits), "magic 77"));
  CHECK(says(refusal_of(forged(4, std::uint16_t{9}), limits), "version 9"));
  const failure kind = refusal_of(forged(6, std::uint8_t{13}), limits);
  CHECK(kind.code == errc::bad_frame);
  CHECK(says(kind, "frame from scripted:1: kind 13 > 12"));
  const failure meta = refusal_of(forged(40, std::uint32_t{0xffffffff}), limits);
  CHECK(meta.code == errc::too_large);
  CHECK(says(meta, "meta_bytes 4294967295 > 1000"));
  const failure bulk = refusal_of(forged(16, std::uint64_t{1} << 60), limits);
  CHECK(bulk.code == errc::too_large);
  CHECK(says(bulk, "bulk_bytes 1152921504606846976 > 5000"));
  CHECK(says(refusal_of(forged(32, std::uint64_t{5}), limits), "bulk_checksum 5 without bulk"));
  std::string wire = wire_of({make_frame(3, 7, "")});
  wire[8] = 8; // another request, the old checksum
  CHECK(says(refusal_of(wire, limits), "header_checksum"));
  // The limits themselves are allowed.
  scripted_channel from;
  from.incoming = wire_of({make_frame(12, 1, pattern(1000, 1), {pattern(5000, 1)})});
  collector to{limits};
  REQUIRE(to.pump(from));
  CHECK(to.frames.size() == 1);
}

TEST_CASE("frame: a stream that ends at any byte gives no part of a frame") {
  const std::string wire = wire_of({make_frame(3, 7, "some meta", {pattern(33, 1)})});
  for (std::size_t cut = 0; cut < wire.size(); ++cut) {
    CAPTURE(cut);
    scripted_channel from;
    from.incoming = wire.substr(0, cut);
    from.ends = true;
    collector to;
    auto ok = to.pump(from);
    REQUIRE(!ok);
    CHECK(ok.error().code == errc::connection_lost);
    CHECK(says(ok.error(), "scripted:1"));
    CHECK(says(ok.error(), "inside a frame") == (cut > 0));
    CHECK(to.frames.empty());
  }
}

TEST_CASE("frame: frames before the end of the stream still arrive") {
  scripted_channel from;
  from.incoming = wire_of(some_frames());
  from.ends = true;
  collector to;
  auto ok = to.pump(from);
  REQUIRE(!ok);
  CHECK(ok.error().code == errc::connection_lost);
  CHECK(!says(ok.error(), "inside"));
  check_some_frames(to.frames);
}

TEST_CASE("frame: a flipped bit anywhere is refused") {
  const std::string wire = wire_of({make_frame(3, 7, "some meta", {pattern(33, 1)})});
  for (std::size_t bit = 0; bit < 8 * wire.size(); ++bit) {
    CAPTURE(bit);
    std::string bad = wire;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    scripted_channel from;
    from.incoming = bad;
    collector to;
    auto ok = to.pump(from);
    REQUIRE(!ok);
    CHECK(ok.error().code == errc::bad_frame);
    CHECK(to.frames.empty());
  }
}

TEST_CASE("frame: corrupted meta is refused before its owner is asked where the bulk goes") {
  std::string wire = wire_of({make_frame(3, 7, "some meta", {pattern(33, 1)})});
  wire[frame_header_bytes] = 'S';
  scripted_channel from;
  from.incoming = wire;
  frame_reader reader;
  auto event = reader.pump(from);
  REQUIRE(!event);
  CHECK(says(event.error(), "meta_checksum"));
}

TEST_CASE("frame: a destination of another size than the bulk is refused and may be given again") {
  scripted_channel from;
  from.incoming = wire_of({make_frame(3, 7, "m", {pattern(33, 1)})});
  frame_reader reader;
  REQUIRE(*reader.pump(from) == frame_event::need_bulk);
  std::string to(33, '\0');
  const auto whole = std::as_writable_bytes(std::span{to});
  auto ok = reader.provide({whole.first(32)});
  REQUIRE(!ok);
  CHECK(ok.error().code == errc::invalid_argument);
  CHECK(says(ok.error(), "bulk_bytes 33"));
  CHECK(says(ok.error(), "32"));
  REQUIRE(reader.provide({mutable_bytes{}, whole.first(32), mutable_bytes{}, whole.subspan(32)}));
  REQUIRE(*reader.pump(from) == frame_event::complete);
  CHECK(to == pattern(33, 1));
  CHECK(reader.take_meta() == "m");
}

TEST_CASE("frame: discarded bulk passes by, is still checked, and the next frame is whole") {
  std::string wire = wire_of(
    {make_frame(1, 1, "skip", {pattern(300000, 1)}), make_frame(2, 2, "keep", {pattern(5, 2)})});
  SUBCASE("intact") {
    scripted_channel from;
    from.incoming = wire;
    frame_reader reader;
    REQUIRE(*reader.pump(from) == frame_event::need_bulk);
    reader.discard();
    REQUIRE(*reader.pump(from) == frame_event::complete);
    CHECK(reader.discarded());
    CHECK(reader.meta() == "skip");
    REQUIRE(*reader.pump(from) == frame_event::need_bulk);
    CHECK(!reader.discarded());
    CHECK(reader.meta() == "keep");
  }
  SUBCASE("corrupted") {
    wire[200000] = static_cast<char>(~wire[200000]);
    scripted_channel from;
    from.incoming = wire;
    frame_reader reader;
    REQUIRE(*reader.pump(from) == frame_event::need_bulk);
    reader.discard();
    auto event = reader.pump(from);
    REQUIRE(!event);
    CHECK(says(event.error(), "bulk_checksum"));
  }
}

TEST_CASE(
  "frame: the writer refuses what a reader with its limits would, and its queue stays as it was") {
  frame_writer writer{{12, 100, 1000}};
  REQUIRE(writer.push(make_frame(12, 1, "ok")));
  const std::uint64_t queued = writer.queued_bytes();
  auto kind = writer.push(make_frame(13, 1, ""));
  auto meta = writer.push(make_frame(1, 1, pattern(101, 1)));
  auto bulk = writer.push(make_frame(1, 1, "", {pattern(500, 1), pattern(501, 1)}));
  REQUIRE(!kind);
  REQUIRE(!meta);
  REQUIRE(!bulk);
  CHECK(says(kind.error(), "kind 13 > 12"));
  CHECK(meta.error().code == errc::too_large);
  CHECK(says(meta.error(), "meta_bytes 101 > 100"));
  CHECK(says(bulk.error(), "bulk_bytes 1001 > 1000"));
  CHECK(writer.queued_bytes() == queued);
}

TEST_CASE("frame: a channel that takes nothing more leaves the rest queued and its memory held") {
  auto kept = std::make_shared<const std::string>(pattern(100000, 1));
  const std::weak_ptr<const std::string> alive = kept;
  frame_writer writer;
  REQUIRE(writer.push({1, 0, 1, "m", {{bytes_of(*kept), kept}}}));
  kept.reset();
  scripted_channel link;
  link.outgoing_max = 50000;
  REQUIRE(!*writer.pump(link));
  CHECK(link.outgoing.size() == 50000);
  CHECK(writer.queued_bytes() == frame_header_bytes + 1 + 100000 - 50000);
  CHECK(!alive.expired());
  link.outgoing_max = 1000000;
  REQUIRE(*writer.pump(link));
  CHECK(writer.queued_bytes() == 0);
  CHECK(alive.expired());
  REQUIRE(writer.push(make_frame(1, 2, "left", {pattern(5000, 1)})));
  writer.clear();
  CHECK(writer.empty());
  CHECK(writer.queued_bytes() == 0);
}
