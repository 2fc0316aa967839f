#include <troupe/actors/coordinator/quiesce_watch.hpp>

#include <algorithm>
#include <map>

namespace troupe {

auto quiesce_watch::look(time_point now, std::span<const running_closure> running) const
  -> verdict {
  const auto waited_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(0, to_ms(now - since_)));
  std::map<std::uint32_t, std::uint64_t> least; // by worker
  for (const auto& c : running) {
    auto [at, is_new] = least.try_emplace(c.worker, waited_ms);
    at->second = std::min(at->second, c.silent_ms.value_or(waited_ms));
  }
  verdict out{.overdue = {}, .look_again_ms = quiet_ms_max_};
  if (running.empty())
    out.look_again_ms = quiet_ms_max_ > waited_ms ? quiet_ms_max_ - waited_ms : 0;
  for (auto c : running) {
    const auto silent_ms = std::min(waited_ms, c.silent_ms.value_or(least.at(c.worker)));
    const auto limit_ms = std::max(quiet_ms_max_, 20 * c.median_ms);
    c.silent_ms = silent_ms;
    if (silent_ms >= limit_ms)
      out.overdue.push_back(c);
    else
      out.look_again_ms = std::min(out.look_again_ms, limit_ms - silent_ms);
  }
  return out;
}

} // namespace troupe
