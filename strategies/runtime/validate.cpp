#include <troupe/strategies/runtime/detail/validate.hpp>

#include <chrono>
#include <string>

#include <troupe/strategies/runtime/detail/address_rules.hpp>

namespace troupe::detail {

namespace {

failure refuse_options(const std::string& what) {
  return make_failure(errc::bad_config, "runtime: " + what);
}

result<void> validate_peers(const runtime_options& options) {
  if (options.task)
    return refuse_options("task is " + to_string(*options.task)
                          + " but peers are given: set either task or peers, not both");
  if (options.peer >= options.peers.size())
    return refuse_options("peer is " + std::to_string(options.peer) + ", there are "
                          + std::to_string(options.peers.size()) + " peers");
  return check_peer_addresses(options);
}

/// Of a cluster in this process; that of another process is the coordinator's to judge.
result<void> validate_counts(const runtime_options& options) {
  if (options.workers == 0)
    return refuse_options("workers is 0, must be at least 1");
  if (options.servers == 0)
    return refuse_options("servers is 0, must be at least 1");
  return {};
}

} // namespace

result<void> validate_on_host(const runtime_options& options) {
  if (options.request_timeout < std::chrono::milliseconds{1})
    return refuse_options("request_timeout is " + std::to_string(options.request_timeout.count())
                          + " ns, must be at least 1 ms");
  if (!options.peers.empty())
    return validate_peers(options);
  return options.task ? result<void>{} : validate_counts(options);
}

result<void> validate(const runtime_options& options) {
  auto verdict = validate_on_host(options);
  if (verdict && options.task)
    verdict = check_process_addresses(options);
  return verdict;
}

} // namespace troupe::detail
