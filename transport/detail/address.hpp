#pragma once

#include <string>

#include <troupe/core/result.hpp>

namespace troupe::detail {

struct host_and_port {
  std::string host{}; ///< without brackets
  std::string port{}; ///< digits, at most 65535
};

/// The parts of "host:port" or "[host]:port"; `invalid_argument` quoting the address otherwise.
/// Addresses come from peers, too.
result<host_and_port> split_address(const std::string& address);

} // namespace troupe::detail
