#include <troupe/sim/event_log.hpp>

#include <algorithm>
#include <cstring>

#include <troupe/sim/run_hash.hpp>

namespace troupe::sim {

void event_log::on_event(const observed& what) {
  run_hash hash;
  hash.fold(static_cast<std::uint64_t>(what.at.time_since_epoch().count()));
  hash.fold(static_cast<std::uint64_t>(what.node.task.job) << 32 | what.node.task.index);
  hash.fold(what.start);
  hash.fold(what.id);
  for (const auto& f : what.fields) {
    hash.fold(f.key);
    std::visit(
      [&hash](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string_view>) {
          hash.fold(v);
        } else {
          std::uint64_t bits = 0;
          std::memcpy(&bits, &v, sizeof bits);
          hash.fold(bits);
        }
      },
      f.value);
  }
  entries_.push_back({.hash = hash.value(),
                      .name = number_of(what.id),
                      .node = what.node,
                      .start = what.start,
                      .at = what.at});
}

std::uint32_t event_log::number_of(std::string_view name) {
  auto at = std::find(names_.begin(), names_.end(), name); // some dozens of names
  if (at == names_.end())
    at = names_.insert(at, std::string{name});
  return static_cast<std::uint32_t>(at - names_.begin());
}

std::string event_log::line(std::size_t at) const {
  if (at >= entries_.size())
    return "the end";
  const auto& e = entries_[at];
  return names_[e.name] + " of " + to_string(e.node) + "/" + std::to_string(e.start) + " at "
         + std::to_string(e.at.time_since_epoch().count()) + " ns";
}

std::optional<std::string> event_log::difference(const event_log& a, const event_log& b) {
  auto [x, y] =
    std::mismatch(a.entries_.begin(), a.entries_.end(), b.entries_.begin(), b.entries_.end(),
                  [](const entry& one, const entry& two) { return one.hash == two.hash; });
  if (x == a.entries_.end() && y == b.entries_.end())
    return std::nullopt;
  auto at = static_cast<std::size_t>(x - a.entries_.begin());
  return "event " + std::to_string(at + 1) + " is " + a.line(at) + " in one run and " + b.line(at)
         + " in the other";
}

} // namespace troupe::sim
