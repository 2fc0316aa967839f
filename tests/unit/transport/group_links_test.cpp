#include <doctest/doctest.h>

#include <memory>

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
