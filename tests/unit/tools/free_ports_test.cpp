#include <doctest/doctest.h>

#include <fstream>
#include <set>

#include <troupe/core/production_ports.hpp>
#include <troupe/transport/asio_transport.hpp>

#include "free_ports.hpp"

using namespace troupe;
using tool::free_loopback_ports;

TEST_CASE(
  "free ports: an address was taken by a listener on port 0 before its own process had started") {
  std::uint32_t ephemeral = 0;
  std::ifstream{"/proc/sys/net/ipv4/ip_local_port_range"} >> ephemeral;
  REQUIRE(ephemeral > 0);
  const bool has_room_below = ephemeral >= 4'096;
  const auto ports = make_production_ports();
  const auto transport = make_asio_transport(ports->clock());
  const auto got = free_loopback_ports(20);
  CHECK(got.size() == 20);
  CHECK(std::set(got.begin(), got.end()).size() == 20);
  for (const auto port : got) {
    CHECK((port < ephemeral || !has_room_below)); // nobody gets it who does not ask for it
    CHECK(transport->listen("127.0.0.1:" + std::to_string(port)));
  }
}

TEST_CASE("free ports: one that somebody listens on is not given out, and too many are refused") {
  const auto ports = make_production_ports();
  const auto transport = make_asio_transport(ports->clock());
  const auto taken = free_loopback_ports(1).front();
  const auto holds = transport->listen("127.0.0.1:" + std::to_string(taken));
  REQUIRE(holds);
  std::set<std::uint16_t> seen;
  for (int i = 0; i < 40'000; i += 1'000) // once round the whole range, and more
    for (const auto port : free_loopback_ports(1'000)) {
      CHECK(port != taken);
      seen.insert(port);
    }
  CHECK(seen.size() > 1'000);
  CHECK_THROWS_AS(free_loopback_ports(70'000), error);
}
