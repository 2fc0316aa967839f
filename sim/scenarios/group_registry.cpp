#include <troupe/sim/scenarios/group_registry.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe::sim {

namespace {

using namespace std::chrono_literals;

constexpr duration gather_max = 500ms; ///< for others to arrive
constexpr duration return_max = 8s;    ///< for those inside to notice that an epoch has ended
constexpr duration hold_first = 1s;

} // namespace

void group_registry::arrive(duration now, arrival who) {
  if (inside_.erase(who.id) > 0 && first_out_ < 0s)
    first_out_ = now;
  hold(now, who.missing);
  if (waiting_.empty())
    first_waiting_ = now;
  std::erase_if(waiting_, [&](const auto& w) { return w.second.node == who.node; });
  auto id = who.id;
  waiting_.emplace(id, std::move(who));
}

bool group_registry::restarted(std::uint64_t id, const node_name& node) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const auto& w) { return w.second.node == node && w.first != id; });
}

bool group_registry::gives_up_on_those_inside(duration now) const {
  return first_out_ >= 0s && now - first_out_ > return_max;
}

bool group_registry::held(duration now, const node_name& node) const {
  auto at = held_.find(node);
  return at != held_.end() && now < at->second.until;
}

/// Whoever cannot be reached must not spoil epoch after epoch: it waits, longer each time.
void group_registry::hold(duration now, const std::vector<std::uint64_t>& missing) {
  for (auto id : missing)
    for (const auto& m : plan_.members)
      if (m.id == id)
        for (const auto& [known, node] : inside_)
          if (known == id && !held(now, node)) {
            auto& p = held_[node];
            p.length = p.length == 0s ? hold_first : std::min<duration>(2 * p.length, 30s);
            p.until = now + p.length;
          }
}

bool group_registry::gathered(duration now) const {
  auto ready = static_cast<std::size_t>(std::count_if(
    waiting_.begin(), waiting_.end(), [&](const auto& w) { return !held(now, w.second.node); }));
  return ready > 0 && (ready + left_ >= machines_ || now - first_waiting_ >= gather_max);
}

bool group_registry::someone_waits(duration now) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const auto& w) { return !held(now, w.second.node); });
}

/// Those of the last plan keep its order, the others come behind.
void group_registry::close(duration now) {
  epoch_plan next{.epoch = group_epoch{static_cast<std::uint32_t>(plan_.epoch) + 1}, .members = {}};
  inside_.clear();
  auto take = [&](std::uint64_t id) {
    auto at = waiting_.find(id);
    if (at == waiting_.end() || held(now, at->second.node))
      return;
    next.members.push_back({.id = id, .address = at->second.address});
    inside_.emplace(id, at->second.node);
    waiting_.erase(at);
  };
  for (const auto& m : plan_.members)
    take(m.id);
  std::vector<std::uint64_t> others;
  for (const auto& [id, who] : waiting_)
    others.push_back(id);
  for (auto id : others)
    take(id);
  plan_ = std::move(next);
  first_out_ = -1ns;
  first_waiting_ = waiting_.empty() ? duration{-1} : now;
}

void group_registry::leave(duration now, std::uint64_t id) {
  ++left_;
  if (inside_.erase(id) > 0 && first_out_ < 0s)
    first_out_ = now;
  waiting_.erase(id);
}

} // namespace troupe::sim
