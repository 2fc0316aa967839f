#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/core/result.hpp>
#include <troupe/strategies/runtime/runtime_options.hpp>

/// The rules for the addresses of a process: how a text is read, which addresses take a token, and
/// which may not be the same. Plain functions, without sockets or name lookup; any thread.
namespace troupe::detail {

/// An address that was read. `host` without the brackets of an IPv6 address.
struct host_port {
  std::string host{};
  std::uint16_t port = 0;
};

/// Reads "host:port". `field`: the user's name for the address, for the error. `bad_config` naming
/// the field and the text where it is none.
result<host_port> parse_host_port(const std::string& text, const std::string& field);

/// True for the names and addresses by which a machine reaches itself alone.
bool is_loopback(std::string_view host);

/// An address that other machines can reach takes a token. `bad_config` for one without, naming the
/// field; also for a text that is no address.
result<void> check_reach(const std::string& text, const std::string& field, std::string_view token);

/// The same host, with a port of the system's choice: where a process listens for more than one
/// conversation and only one port is described.
std::string with_free_port(const std::string& address);

/// The addresses of a process of a cluster: the coordinator's, its own, and that of its data plane.
/// A worker or server calls the coordinator at a port that it knows, and listens at another.
/// `bad_config` naming the field in the user's words.
/// @pre `options.task` is set.
result<void> check_process_addresses(const runtime_options& options);

/// The addresses of peer workers: fixed ports, each its own. One worker alone is called by nobody,
/// and its address is not looked at. `bad_config` naming the peer in the user's words.
result<void> check_peer_addresses(const runtime_options& options);

} // namespace troupe::detail
