#include "stats.hpp"

namespace tool {

namespace tr = troupe;

void stats_tracer::add(counts& to, std::string_view id, std::uint64_t n) {
  const auto at = to.find(id);
  if (at != to.end())
    at->second += n;
  else
    to.emplace(id, n);
}

void stats_tracer::event(std::string_view id, std::span<const tr::trace_field> fields) {
  const std::lock_guard lock{mutex_};
  add(events_, id, 1);
  if (id != "actor.ended")
    return;
  std::string_view actor;
  std::uint64_t messages = 0;
  for (const auto& field : fields)
    if (const auto* text = std::get_if<std::string_view>(&field.value);
        field.key == "actor" && text)
      actor = *text;
    else if (const auto* n = std::get_if<std::uint64_t>(&field.value); field.key == "messages" && n)
      messages = *n;
  add(messages_, actor, messages);
}

void stats_tracer::mark(std::string_view id) {
  const std::lock_guard lock{mutex_};
  add(marks_, id, 1);
}

std::vector<std::string> stats_tracer::lines(const std::string& task) const {
  const std::lock_guard lock{mutex_};
  const auto head = "stats " + task + ": ";
  std::vector<std::string> out;
  for (const auto& [actor, n] : messages_)
    out.push_back(head + "actor " + actor + " messages " + std::to_string(n));
  for (const auto& [id, n] : events_)
    out.push_back(head + "event " + id + " " + std::to_string(n));
  for (const auto& [id, n] : marks_)
    out.push_back(head + "mark " + id + " " + std::to_string(n));
  return out;
}

std::vector<std::string> server_lines(const tr::coordinator_statistics& statistics) {
  std::vector<std::string> out;
  for (const auto& s : statistics.servers)
    out.push_back("stats ps:" + std::to_string(s.server) + ": pushes "
                  + std::to_string(s.pushes_applied) + " duplicates " + std::to_string(s.duplicates)
                  + " refused " + std::to_string(s.refused) + " bytes " + std::to_string(s.bytes));
  return out;
}

void tracer_pair::event(std::string_view id, std::span<const tr::trace_field> fields) {
  for (auto* sink : {a_, b_})
    if (sink)
      sink->event(id, fields);
}

void tracer_pair::mark(std::string_view id) {
  for (auto* sink : {a_, b_})
    if (sink)
      sink->mark(id);
}

} // namespace tool
