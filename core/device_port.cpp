#include <troupe/core/device_port.hpp>

#include <charconv>

namespace troupe {

std::string to_string(const device_id& id) {
  return (id.kind == device_kind::cpu ? "cpu:" : "gpu:") + std::to_string(id.index);
}

result<device_id> parse_device(std::string_view text) {
  auto refuse = [&] {
    return make_failure(errc::invalid_argument,
                        "device is '" + std::string{text} + "', expected cpu:N or gpu:N");
  };
  device_id out;
  if (text.starts_with("gpu:"))
    out.kind = device_kind::gpu;
  else if (!text.starts_with("cpu:"))
    return refuse();
  auto digits = text.substr(4);
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out.index);
  if (digits.empty() || code != std::errc{} || end != digits.data() + digits.size()
      || (digits.size() > 1 && digits.front() == '0'))
    return refuse();
  return out;
}

std::string_view to_string(device_status status) {
  switch (status) {
    case device_status::ok: return "ok";
    case device_status::not_ready: return "not_ready";
    case device_status::out_of_memory: return "out_of_memory";
    case device_status::invalid: return "invalid";
    case device_status::unavailable: return "unavailable";
    case device_status::launch_failed: return "launch_failed";
    case device_status::lost: return "lost";
    case device_status::failed: return "failed";
  }
  return "device_status(?)";
}

std::string to_string(const device_answer& answer) {
  std::string out{to_string(answer.status)};
  if (answer.text)
    out += " (" + std::string{answer.text} + ", " + std::to_string(answer.native) + ")";
  else if (answer.native != 0)
    out += " (" + std::to_string(answer.native) + ")";
  return out;
}

} // namespace troupe
