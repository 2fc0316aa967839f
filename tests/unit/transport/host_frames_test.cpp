#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "tcp_support.hpp"

// Goal: frames whose bulk is looked at, or written, in the channel's own memory are the same
// frames. Method: both ends in this process.
using namespace transport_test;

TEST_CASE("shared memory: frames are viewed, placed, received and passed by in any order") {
  channel_pair<over_host_memory> ends;
  std::uint64_t random = 11;
  frame_writer writer{{}, ends.dialed->can_damage()};
  frame_reader reader;
  std::deque<std::pair<std::string, std::string>> sent; // meta and bulk
  std::size_t viewed = 0;
  std::size_t placed = 0;
  std::string into;
  const auto read_all = [&] {
    for (;;) {
      const auto event = reader.pump(*ends.accepted).value_or_throw();
      if (event == frame_event::idle)
        return;
      if (event == frame_event::complete) {
        CHECK(reader.meta() == sent.front().first);
        const auto view = reader.viewed();
        viewed += view.empty() ? 0 : 1;
        if (!view.empty())
          into.assign(reinterpret_cast<const char*>(view.data()), view.size());
        if (!reader.discarded())
          CHECK(into == sent.front().second);
        into.clear();
        sent.pop_front();
        continue;
      }
      const std::size_t n = static_cast<std::size_t>(reader.header().bulk_bytes);
      const auto how = next_random(random) % 3;
      if (how == 0 && reader.may_view(*ends.accepted)) {
        reader.view();
      } else if (how == 1) {
        reader.discard();
      } else {
        into.resize(n);
        reader.provide({std::as_writable_bytes(std::span{into})}).value_or_throw();
      }
    }
  };
  for (std::uint64_t i = 0; i < 600; ++i) {
    const std::string meta = pattern(next_random(random) % 200, i);
    const std::string bulk = pattern(next_random(random) % (i % 10 == 0 ? 5'000'000 : 20'000), i);
    sent.emplace_back(meta, bulk);
    outgoing_frame head = make_frame(1, i, "");
    auto place = next_random(random) % 2 == 0
                   ? writer.place(*ends.dialed, std::move(head), meta.size(), bulk.size())
                   : std::nullopt;
    if (place) {
      std::memcpy(place->meta.data(), meta.data(), meta.size());
      std::memcpy(place->bulk.data(), bulk.data(), bulk.size());
      writer.send_placed(*ends.dialed, *place);
      ++placed;
    } else {
      writer.push(make_frame(1, i, meta, {bulk})).value_or_throw();
    }
    writer.pump(*ends.dialed).value_or_throw();
    if (next_random(random) % 4 == 0)
      read_all();
  }
  while (!sent.empty()) {
    writer.pump(*ends.dialed).value_or_throw();
    read_all();
  }
  CHECK(viewed > 20);
  CHECK(placed > 20);
}

TEST_CASE("shared memory: a checksum that is there must hold, also for bytes that are viewed") {
  for (const bool good : {true, false}) {
    channel_pair<over_host_memory> ends;
    std::string wire = wire_of({make_frame(1, 1, "meta", {pattern(1000, 1)})});
    if (!good)
      wire.back() = static_cast<char>(wire.back() ^ 1);
    CHECK(send(*ends.dialed, wire) == wire.size());
    frame_reader reader;
    REQUIRE(reader.pump(*ends.accepted).value_or_throw() == frame_event::need_bulk);
    REQUIRE(reader.may_view(*ends.accepted));
    reader.view();
    const auto end = reader.pump(*ends.accepted);
    CHECK(static_cast<bool>(end) == good);
    if (!good)
      CHECK(end.error().code == errc::bad_frame);
  }
}

TEST_CASE("shared memory: a view as large as can be never waits for a writer that sleeps") {
  // the ring is full before the reader looks, as of a server that is busy with somebody else
  for (const std::size_t before : {std::size_t{0}, std::size_t{600'000}}) {
    channel_pair<over_host_memory> ends;
    const std::size_t ring_bytes = ends.dialed->place_bytes_max() / 3 * 4;
    for (const std::size_t bytes : {ring_bytes / 4 * 3, ring_bytes / 4 * 3 + 1, ring_bytes}) {
      CAPTURE(before);
      CAPTURE(bytes);
      frame_writer writer{{}, ends.dialed->can_damage()};
      frame_reader reader;
      std::size_t frames = before == 0 ? 1 : 2;
      if (before > 0)
        writer.push(make_frame(1, 1, "before", {pattern(before, 1)})).value_or_throw();
      writer.push(make_frame(1, 2, "meta", {pattern(bytes, 2)})).value_or_throw();
      std::string into;
      const auto read = [&] {
        for (;;) {
          const auto event = reader.pump(*ends.accepted).value_or_throw();
          if (event == frame_event::idle)
            return;
          if (event == frame_event::complete) {
            --frames;
          } else if (reader.may_view(*ends.accepted)) {
            reader.view();
          } else {
            into.resize(static_cast<std::size_t>(reader.header().bulk_bytes));
            reader.provide({std::as_writable_bytes(std::span{into})}).value_or_throw();
          }
        }
      };
      auto writes = ends.transport->make_poller();
      auto reads = ends.transport->make_poller();
      bool is_out = writer.pump(*ends.dialed).value_or_throw();
      writes->watch(*ends.dialed, !is_out);
      writes->wait(ends.clock.now() + 1ms); // it sleeps
      read();
      reads->watch(*ends.accepted, false);
      for (int i = 0; i < 1000 && frames > 0; ++i) { // each goes on only when it is woken
        if (reads->wait(ends.clock.now() + 1ms))
          read();
        if (!is_out && writes->wait(ends.clock.now() + 1ms)) {
          is_out = writer.pump(*ends.dialed).value_or_throw();
          writes->watch(*ends.dialed, !is_out);
        }
      }
      REQUIRE(frames == 0);
    }
  }
}

TEST_CASE("shared memory: a peer that ends in the middle of what is viewed is a lost one") {
  channel_pair<over_host_memory> ends;
  const std::string wire = wire_of({make_frame(1, 1, "meta", {pattern(1000, 1)})});
  CHECK(send(*ends.dialed, wire.substr(0, wire.size() - 1)) == wire.size() - 1);
  frame_reader reader;
  REQUIRE(reader.pump(*ends.accepted).value_or_throw() == frame_event::need_bulk);
  reader.view();
  CHECK(reader.pump(*ends.accepted).value_or_throw() == frame_event::idle);
  auto poller = ends.transport->make_poller();
  poller->watch(*ends.accepted, false);
  CHECK(!poller->wait(ends.clock.now() + 2ms)); // it waits for all of it, not for any of it
  ends.dialed.reset();
  REQUIRE(poller->wait(soon()));
  const auto end = reader.pump(*ends.accepted);
  REQUIRE(!end);
  CHECK(end.error().code == errc::connection_lost);
}
