#include <troupe/strategies/replicas/distributed_values.hpp>

namespace troupe::detail {

void nests_differ(const std::string& what, std::size_t replica, std::size_t size,
                  std::size_t first) {
  throw_failure(errc::mismatch, "regroup: " + what + " of replica " + std::to_string(replica)
                                  + " has " + std::to_string(size) + " elements, that of replica 0 "
                                  + std::to_string(first));
}

} // namespace troupe::detail
