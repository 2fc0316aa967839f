#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <troupe/transport/detail/byte_ring.hpp>

#include "support.hpp"

// Goal: a ring carries bytes in order through any wrap, holds no more than its size, never loses a
// wake-up, and believes nothing that the other side writes. Method: a queue as the model, indices
// set by hand, and two threads.
namespace {

using namespace transport_test;
using detail::ring_indices;
using detail::ring_place;
using detail::ring_reader;
using detail::ring_writer;

/// Memory of a ring between two guards that nobody may touch.
struct ring_memory {
  static constexpr std::size_t guard_bytes = 256;
  explicit ring_memory(std::size_t bytes)
    : held(bytes + 2 * guard_bytes, std::byte{0xa5}),
      at{&indices, held.data() + guard_bytes, bytes} {}
  bool guards_hold() const {
    const auto is_guard = [](std::byte x) { return x == std::byte{0xa5}; };
    return std::all_of(held.begin(), held.begin() + guard_bytes, is_guard)
           && std::all_of(held.end() - guard_bytes, held.end(), is_guard);
  }
  ring_indices indices{};
  std::vector<std::byte> held;
  ring_place at;
};

std::string read_text(ring_reader& from, std::size_t at_most) {
  std::string out(at_most, '\0');
  const auto n = from.read(std::as_writable_bytes(std::span{out}));
  REQUIRE(n);
  out.resize(*n);
  return out;
}

} // namespace

TEST_CASE("ring: pieces of any size pass through any wrap, as through a queue") {
  for (const std::size_t bytes : {16u, 64u, 4096u}) {
    ring_memory memory{bytes};
    ring_writer writer{memory.at};
    ring_reader reader{memory.at};
    std::deque<char> model; // published, not taken
    std::deque<char> hidden;
    std::uint64_t random = bytes;
    std::size_t room = bytes; // of which the writer knows, once the reader published
    std::size_t returned = 0;
    for (std::uint64_t step = 0; step < 20'000; ++step) {
      const std::size_t n = next_random(random) % (bytes + bytes / 2);
      if (next_random(random) % 2 == 0) {
        const std::string text = pattern(n, step);
        const auto wrote = writer.write(bytes_of(text));
        REQUIRE(wrote == std::min(n, room));
        room -= *wrote;
        hidden.insert(hidden.end(), text.begin(), text.begin() + static_cast<long>(*wrote));
        CHECK(writer.unpublished_bytes() == hidden.size());
        if (next_random(random) % 3 != 0) {
          CHECK(!writer.publish()); // nobody sleeps
          model.insert(model.end(), hidden.begin(), hidden.end());
          hidden.clear();
        }
      } else {
        const std::string got = read_text(reader, n);
        REQUIRE(got.size() == std::min(n, model.size()));
        REQUIRE(std::equal(got.begin(), got.end(), model.begin()));
        model.erase(model.begin(), model.begin() + static_cast<long>(got.size()));
        returned += got.size();
        if (next_random(random) % 3 != 0) {
          CHECK(!reader.publish());
          room += std::exchange(returned, 0);
        }
      }
      CHECK(reader.has_bytes() == !model.empty());
      CHECK(writer.has_room() == (room >= bytes / 4));
    }
    CHECK(memory.guards_hold());
  }
}

TEST_CASE("ring: indices wrap around the numbers they are counted in") {
  ring_memory memory{64};
  const std::uint64_t near_end = std::numeric_limits<std::uint64_t>::max() - 100;
  // As after that many bytes: both sides start where the shared indices stand.
  ring_writer writer{memory.at, near_end};
  ring_reader reader{memory.at, near_end};
  memory.indices.written = near_end;
  memory.indices.taken = near_end;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::string text = pattern(37, i);
    REQUIRE(writer.write(bytes_of(text)) == text.size());
    writer.publish();
    REQUIRE(read_text(reader, 64) == text);
    reader.publish();
  }
  CHECK(memory.guards_hold());
}

TEST_CASE("ring: an index that can't be is seen by every call and nothing is touched for it") {
  const std::string text = pattern(40, 1);
  for (const std::uint64_t lie : {std::uint64_t{65}, std::uint64_t{41}, std::uint64_t{1} << 63,
                                  std::numeric_limits<std::uint64_t>::max(), std::uint64_t{105}}) {
    CAPTURE(lie);
    {
      ring_memory memory{64};
      ring_writer writer{memory.at};
      REQUIRE(writer.write(bytes_of(text)) == 40u);
      writer.publish();
      memory.indices.taken = lie; // more than was written, or behind by more than the ring
      CHECK(writer.write(bytes_of(text)) == std::nullopt);
      CHECK(writer.has_room()); // so that its thread looks and finds out
      CHECK(!writer.rest());
      memory.indices.taken = 40; // it stays so
      CHECK(writer.write(bytes_of(text)) == std::nullopt);
      CHECK(memory.guards_hold());
    }
    if (lie <= 64)
      continue;
    {
      ring_memory memory{64};
      ring_reader reader{memory.at};
      memory.indices.written = lie;
      std::string out(100, 'x');
      CHECK(reader.has_bytes());
      CHECK(reader.read(std::as_writable_bytes(std::span{out})) == std::nullopt);
      CHECK(out == std::string(100, 'x'));
      CHECK(!reader.publish());
    }
  }
}

TEST_CASE("ring: a side that sleeps is woken once, a writer only when a quarter is free") {
  ring_memory memory{64};
  ring_writer writer{memory.at};
  ring_reader reader{memory.at};
  CHECK(!reader.sleep_unless_bytes());
  REQUIRE(writer.write(bytes_of(pattern(64, 1))) == 64u);
  CHECK(writer.publish());
  CHECK(!writer.publish());
  CHECK(reader.sleep_unless_bytes()); // there are some already
  CHECK(!writer.sleep_unless_room());
  CHECK(read_text(reader, 15).size() == 15);
  CHECK(!reader.publish());
  CHECK(!writer.has_room());
  CHECK(read_text(reader, 1).size() == 1);
  CHECK(reader.publish());
  CHECK(!reader.publish());
  CHECK(writer.sleep_unless_room());
}

TEST_CASE("ring: what a reader did not take can be taken back in order") {
  ring_memory memory{64};
  ring_writer writer{memory.at};
  ring_reader reader{memory.at};
  const std::string first = pattern(50, 1);
  const std::string second = pattern(40, 2);
  REQUIRE(writer.write(bytes_of(first)) == 50u);
  writer.publish();
  REQUIRE(read_text(reader, 45).size() == 45);
  reader.publish();
  REQUIRE(writer.write(bytes_of(second)) == 40u); // wraps
  std::string rest;
  for (int guard = 0; guard < 100; ++guard) {
    const auto pieces = writer.rest();
    REQUIRE(pieces);
    if (pieces->first.empty())
      break;
    const std::size_t n = std::min<std::size_t>(7, pieces->first.size());
    rest.append(reinterpret_cast<const char*>(pieces->first.data()), n);
    writer.drop(n);
  }
  CHECK(rest == first.substr(45) + second);
}

TEST_CASE("ring: two threads that sleep whenever they may lose no byte and no wake-up") {
  ring_memory memory{256};
  // A wake-up is a count that the other one waits on.
  std::atomic<std::uint32_t> to_reader{0};
  std::atomic<std::uint32_t> to_writer{0};
  constexpr std::size_t total = 2'000'000;
  const std::string text = pattern(total, 3);
  std::thread thread{[&] {
    ring_writer writer{memory.at};
    std::uint64_t random = 5;
    for (std::size_t at = 0; at < total;) {
      const std::size_t n = std::min<std::size_t>(1 + next_random(random) % 200, total - at);
      const std::uint32_t seen = to_writer;
      const auto wrote = writer.write(bytes_of(text).subspan(at, n));
      at += wrote.value();
      if (writer.publish()) {
        ++to_reader;
        to_reader.notify_one();
      }
      if (*wrote == 0 && !writer.sleep_unless_room())
        to_writer.wait(seen);
    }
  }};
  ring_reader reader{memory.at};
  std::string got;
  std::uint64_t random = 6;
  while (got.size() < total) {
    const std::uint32_t seen = to_reader;
    const std::string more = read_text(reader, 1 + next_random(random) % 200);
    got += more;
    if (reader.publish()) {
      ++to_writer;
      to_writer.notify_one();
    }
    if (more.empty() && !reader.sleep_unless_bytes())
      to_reader.wait(seen);
  }
  thread.join();
  CHECK(got == text);
  CHECK(memory.guards_hold());
}

TEST_CASE("ring: bytes are looked at and written where they lie, when they are in one piece") {
  ring_memory memory{64};
  ring_writer writer{memory.at};
  ring_reader reader{memory.at};
  CHECK(reader.view(10).value().empty());
  const auto room = writer.room_for(40);
  REQUIRE(room.value().size() == 40);
  std::memcpy(room->data(), pattern(40, 1).data(), 40);
  CHECK(reader.view(1).value().empty()); // not shown yet
  writer.wrote(40);
  writer.publish();
  CHECK(reader.view(41).value().empty());
  CHECK(!reader.has_bytes(41));
  CHECK(!reader.sleep_unless_bytes(41));
  const auto there = reader.view(40);
  REQUIRE(there.value().size() == 40);
  CHECK(std::memcmp(there->data(), pattern(40, 1).data(), 40) == 0);
  CHECK(writer.room_for(25).value().empty()); // no more than is free
  reader.took(40);
  reader.publish();
  CHECK(writer.room_for(25).value().empty()); // free, with a seam in it
  CHECK(writer.room_for(24).value().size() == 24);
  memory.indices.taken = 1000;
  CHECK(writer.has_room());
  CHECK(!writer.room_for(1));
  memory.indices.written = 1000;
  CHECK(reader.has_bytes(10));
  CHECK(!reader.view(10));
}
