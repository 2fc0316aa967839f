#include <troupe/device/health.hpp>

#include <utility>

namespace troupe {

errc code_of(device_status status) {
  switch (status) {
    case device_status::ok: return errc::none;
    case device_status::not_ready: return errc::device_timeout;
    case device_status::out_of_memory: return errc::device_memory;
    case device_status::invalid: return errc::invalid_argument;
    case device_status::unavailable: return errc::device_unavailable;
    case device_status::launch_failed: return errc::launch_failed;
    case device_status::lost:
    case device_status::failed: return errc::device_lost;
  }
  return errc::device_lost;
}

bool is_final(device_status status) {
  return status == device_status::launch_failed || status == device_status::lost
         || status == device_status::failed;
}

failure device_failure(const device_id& device, const std::string& stream, const char* operation,
                       const device_answer& answer) {
  std::string text = to_string(device);
  if (!stream.empty())
    text += " stream '" + stream + "'";
  if (answer.blame)
    text += std::string{": operation '"} + answer.blame + "' broke";
  else if (operation)
    text += std::string{": operation '"} + operation
            + (is_final(answer.status) ? "', or an earlier one," : "'");
  text += ": " + to_string(answer);
  return make_failure(code_of(answer.status), std::move(text));
}

std::optional<failure> device_health::why() const {
  std::lock_guard lock{mutex_};
  return why_;
}

bool device_health::fail(failure why) {
  std::vector<std::function<void(const failure&)>> tell;
  {
    std::lock_guard lock{mutex_};
    if (why_)
      return false;
    why_ = why;
    failed_.store(true, std::memory_order_release);
    tell = std::exchange(listeners_, {});
  }
  for (auto& call : tell)
    call(why);
  return true;
}

void device_health::listen(std::function<void(const failure&)> call) {
  std::unique_lock lock{mutex_};
  if (!why_) {
    listeners_.push_back(std::move(call));
    return;
  }
  auto why = *why_;
  lock.unlock();
  call(why);
}

} // namespace troupe
