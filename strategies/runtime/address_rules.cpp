#include <troupe/strategies/runtime/detail/address_rules.hpp>

#include <map>
#include <stdexcept>

#include <troupe/core/mac.hpp>

namespace troupe::detail {

result<host_port> parse_host_port(const std::string& text, const std::string& field) {
  constexpr unsigned long port_max = 65535;
  const auto colon = text.rfind(':');
  host_port out;
  unsigned long port = 0;
  try {
    if (colon == std::string::npos || colon == 0)
      throw std::invalid_argument{"no colon"};
    std::size_t used = 0;
    port = std::stoul(text.substr(colon + 1), &used);
    if (used != text.size() - colon - 1 || port > port_max)
      throw std::invalid_argument{"port"};
  } catch (const std::exception&) {
    return make_failure(errc::bad_config, "runtime: " + field + " is '" + text
                                            + "', expected host:port with a port from 0 to 65535");
  }
  out.host = text.substr(0, colon);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  out.port = static_cast<std::uint16_t>(port);
  return out;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

result<void> check_reach(const std::string& text, const std::string& field,
                         std::string_view token) {
  const auto at = parse_host_port(text, field);
  if (!at)
    return at.error();
  if (!is_loopback(at->host) && token.empty())
    return make_failure(errc::bad_config,
                        "runtime: " + field + " is " + text
                          + ", which is reachable from other machines: a token is required; "
                          + std::string{token_advice});
  return {};
}

std::string with_free_port(const std::string& address) {
  return address.substr(0, address.rfind(':')) + ":0";
}

namespace {

/// A worker or server calls the coordinator at a port that it knows, and listens at another.
result<void> check_apart(const runtime_options& options) {
  const auto& names = options.names;
  const auto to = parse_host_port(options.coordinator_address, names.coordinator);
  const auto at = parse_host_port(options.listen_address, names.listen);
  if (!to || !at)
    return to ? at.error() : to.error();
  if (to->port == 0)
    return make_failure(errc::bad_config, "runtime: " + names.coordinator + " is "
                                            + options.coordinator_address + ": "
                                            + to_string(*options.task)
                                            + " needs the coordinator's port, not 0");
  if (at->port != 0 && options.listen_address == options.coordinator_address)
    return make_failure(errc::bad_config, "runtime: " + names.coordinator + " and " + names.listen
                                            + " are the same address, " + options.listen_address);
  return {};
}

} // namespace

result<void> check_process_addresses(const runtime_options& options) {
  struct named_address {
    const std::string& text;
    const std::string& field;
  };
  for (const auto& [text, field] :
       {named_address{options.coordinator_address, options.names.coordinator},
        named_address{options.listen_address, options.names.listen},
        named_address{options.data_listen_address, options.names.data_listen}})
    if (auto verdict = check_reach(text, field, options.token); !verdict)
      return verdict;
  return options.task->job == job_kind::chief ? result<void>{} : check_apart(options);
}

namespace {

/// "TF_CONFIG worker:1"; "peers[1]" of one that was given by hand.
std::string peer_name(const runtime_options& options, std::size_t i) {
  if (options.described_by.empty() || i >= options.peer_tasks.size())
    return "peers[" + std::to_string(i) + "]";
  return options.described_by + " " + options.peer_tasks[i];
}

} // namespace

result<void> check_peer_addresses(const runtime_options& options) {
  if (options.peers.size() == 1)
    return {};
  std::map<std::string, std::string> whose;
  for (std::size_t i = 0; i < options.peers.size(); ++i) {
    const auto& text = options.peers[i];
    const auto field = peer_name(options, i);
    if (auto verdict = check_reach(text, field, options.token); !verdict)
      return verdict;
    const auto at = parse_host_port(text, field);
    if (at && at->port == 0)
      return make_failure(errc::bad_config,
                          "runtime: " + field + " is " + text + ": the port must be fixed, not 0");
    if (const auto [first, is_new] = whose.emplace(text, field); !is_new)
      return make_failure(errc::bad_config, "runtime: " + first->second + " and " + field
                                              + " have the same address, " + text);
  }
  return {};
}

} // namespace troupe::detail
