#include <troupe/transport/detail/address.hpp>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace troupe::detail {

namespace {

failure malformed(const std::string& address) {
  return make_failure(
    errc::invalid_argument,
    "address \"" + address + "\": expected host:port or [host]:port, port 0 to 65535");
}

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), port);
  return ec == std::errc{} && end == text.data() + text.size();
}

} // namespace

result<host_and_port> split_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || !is_port(std::string_view{address}.substr(colon + 1)))
    return malformed(address);
  host_and_port out{address.substr(0, colon), address.substr(colon + 1)};
  const bool bracketed = out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']';
  if (bracketed)
    out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host.empty() || out.host.find_first_of("[] ") != std::string::npos)
    return malformed(address);
  // Without brackets nobody can tell where the host ends.
  if (!bracketed && out.host.find(':') != std::string::npos)
    return malformed(address);
  return out;
}

} // namespace troupe::detail
