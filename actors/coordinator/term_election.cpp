#include <troupe/actors/coordinator/term_election.hpp>

#include <algorithm>

namespace troupe {

auto term_election::answered(std::uint32_t server, const incarnation& inc, term_no asked, errc code,
                             term_no highest, bool dispatched) -> outcome {
  auto at = servers_.find(server);
  if (at == servers_.end() || at->second.inc != inc)
    return outcome::stale;
  if (asked != term_)
    return outcome::late;
  if (code == errc::superseded && !dispatched) {
    term_ = next(highest);
    for (auto& [index, s] : servers_)
      s.granted = false;
    return outcome::raised;
  }
  if (code != errc::none)
    return outcome::superseded;
  at->second.granted = true;
  return outcome::granted;
}

bool term_election::is_open(std::uint32_t server, const incarnation& inc, term_no asked) const {
  auto at = servers_.find(server);
  return at != servers_.end() && at->second.inc == inc && asked == term_;
}

bool term_election::have_granted(std::span<const std::uint32_t> servers) const {
  return std::all_of(servers.begin(), servers.end(),
                     [this](std::uint32_t server) { return has_granted(server); });
}

} // namespace troupe
