#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <troupe/transport/detail/group_links.hpp>

#include "support.hpp"

using namespace troupe;
using namespace troupe::detail;
using transport_test::scripted_channel;

TEST_CASE("group links: a peer that asks and does not read makes nothing grow") {
  auto wire = std::make_unique<scripted_channel>();
  auto& peer = *wire;
  for (std::uint64_t i = 0; i < 10'000; ++i)
    peer.incoming += transport_test::wire_of(
      {transport_test::make_frame(static_cast<std::uint8_t>(group_frame::ping), i, "")});
  peer.outgoing_max = 0;
  std::vector<peer_channels> peers(2);
  peers[1].control = std::move(wire);
  transport_test::thread_waits waits;
  group_links links{waits, std::move(peers)};
  CHECK_FALSE(links.listen());
  CHECK(peer.read_at == peer.incoming.size());
  peer.outgoing_max = std::string::npos;
  CHECK(links.flush());
  CHECK_FALSE(peer.outgoing.empty());
  CHECK(peer.outgoing.size() <= 4096 + frame_header_bytes);
  // It is answered again once it reads.
  const auto before = peer.outgoing.size();
  peer.incoming += transport_test::wire_of(
    {transport_test::make_frame(static_cast<std::uint8_t>(group_frame::ping), 1, "")});
  CHECK_FALSE(links.listen());
  CHECK(peer.outgoing.size() == before + frame_header_bytes);
}

TEST_CASE(
  "wait teller: tells every five seconds whom a thread waits for, and nobody without need") {
  using namespace std::chrono_literals;
  std::vector<std::string> told;
  const wait_listener to = [&](const std::string& missing) { told.push_back(missing); };
  const auto begun = after(time_point{}, 1s);
  wait_teller teller{to, begun};
  int asked = 0;
  const auto missing = [&] { return "member " + std::to_string(++asked); };
  for (auto at = begun; at < after(begun, 16s); at = after(at, 500ms)) {
    CHECK(teller.next() > at - 500ms);
    teller.look(at, missing);
  }
  CHECK(told == std::vector<std::string>{"member 1", "member 2", "member 3"});
  CHECK(asked == 3); // the text is not made in vain
  const wait_listener nobody;
  wait_teller silent{nobody, begun};
  CHECK(silent.next() == never);
  silent.look(after(begun, 1h), missing);
  CHECK(asked == 3);
}
