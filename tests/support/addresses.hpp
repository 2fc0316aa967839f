#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/core/production_ports.hpp>
#include <troupe/transport/asio_transport.hpp>

namespace troupe::testing {

/// Addresses of this machine that nobody listens at.
inline std::vector<std::string> free_addresses(std::size_t n) {
  auto ports = make_production_ports();
  auto transport = make_asio_transport(ports->clock());
  std::vector<std::unique_ptr<channel_listener>> held;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < n; ++i) {
    held.push_back(transport->listen("127.0.0.1:0").value_or_throw());
    out.push_back(held.back()->address());
  }
  return out;
}

} // namespace troupe::testing
