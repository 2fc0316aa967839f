#include <troupe/actors/support/wait_log.hpp>

namespace troupe {

namespace {

std::string times(std::uint64_t n) { return n == 1 ? "once" : std::to_string(n) + " times"; }

} // namespace

void wait_log::ended(const failure& why) {
  ++tries_;
  ++ends_[why.code];
  last_ = why;
}

std::string wait_log::text(time_point now) const {
  if (tries_ == 0)
    return {};
  std::string out = std::to_string(tries_) + (tries_ == 1 ? " attempt" : " attempts") + " in "
                    + std::to_string(to_ms(now - begun_) / 1000) + " s failed (";
  const char* between = "";
  for (const auto& [code, n] : ends_) {
    out += between + std::string{to_string(code)} + " " + times(n);
    between = ", ";
  }
  return out + "); last error: " + to_string(last_);
}

std::optional<std::string> wait_log::due(time_point now) {
  if (now < tell_at_ || tries_ == 0)
    return std::nullopt;
  tell_at_ = after(now, tell_every_);
  return text(now);
}

} // namespace troupe
