#pragma once

#include <string>
#include <vector>

#include "../../tools/free_ports.hpp"

namespace troupe::testing {

/// Addresses of this machine that nobody listens at, and that no listener on port 0 gets.
inline std::vector<std::string> free_addresses(std::size_t n) {
  std::vector<std::string> out;
  for (const auto port : tool::free_loopback_ports(n))
    out.push_back("127.0.0.1:" + std::to_string(port));
  return out;
}

} // namespace troupe::testing
