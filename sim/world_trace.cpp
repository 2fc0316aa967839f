// What a run lets see of itself.
#include <cinttypes>

#include <troupe/sim/detail/core.hpp>

namespace troupe::sim {

void world::core::trace(process_instance* of, node_name node, std::uint32_t start,
                        std::string_view id, std::span<const trace_field> fields) {
  (void)of;
  ++traced;
  hash.fold(id);
  for (const auto& f : fields) {
    hash.fold(f.key);
    std::visit(
      [this](const auto& v) {
        using value = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<value, std::string_view>) {
          hash.fold(v);
        } else {
          std::uint64_t bits = 0;
          std::memcpy(&bits, &v, sizeof bits);
          hash.fold(bits);
        }
      },
      f.value);
  }
  ++event_counts[id];
  if (observers.empty() && !options.trace_to)
    return;
  observed what{
    .at = now, .node = node, .start = start, .number = traced, .id = id, .fields = fields};
  if (options.trace_to)
    print(what);
  for (auto* o : observers)
    o->on_event(what);
}

void world::core::world_event(std::string_view id, const node_name& node,
                              std::initializer_list<trace_field> fields) {
  auto* m = find(node);
  trace(nullptr, node, m ? m->starts : 0, id, {fields.begin(), fields.size()});
}

void world::core::mark(process_instance& l, std::string_view id) {
  ++marks[id];
  hash.fold(id);
  for (auto* o : observers)
    o->on_mark(l.name(), id);
  for (std::size_t i = 0; i < mark_actions.size(); ++i) {
    auto& m = mark_actions[i];
    if (m.left == 0 || m.where != l.name() || m.mark != id || --m.left > 0)
      continue;
    auto what = m.what;
    if (!program_over)
      act(what);
  }
}

void world::core::fail(std::string rule, std::string text) {
  if (options.trace_to)
    std::fprintf(options.trace_to, "violated: %s: %s\n", rule.c_str(), text.c_str());
  violations.push_back({std::move(rule), std::move(text), since_start()});
}

namespace {

void print_value(std::FILE* to, const trace_field& f) {
  std::fprintf(to, " %.*s=", static_cast<int>(f.key.size()), f.key.data());
  std::visit(
    [to](const auto& v) {
      using value = std::decay_t<decltype(v)>;
      if constexpr (std::is_same_v<value, std::string_view>)
        std::fprintf(to, "%.*s", static_cast<int>(v.size()), v.data());
      else if constexpr (std::is_same_v<value, double>)
        std::fprintf(to, "%g", v);
      else if constexpr (std::is_same_v<value, std::int64_t>)
        std::fprintf(to, "%" PRId64, v);
      else
        std::fprintf(to, "%" PRIu64, v);
    },
    f.value);
}

} // namespace

void world::core::print(const observed& what) {
  auto* to = options.trace_to;
  std::fprintf(to, "%14.6f %s/%u %.*s", static_cast<double>(since_start().count()) / 1e9,
               to_string(what.node).c_str(), what.start, static_cast<int>(what.id.size()),
               what.id.data());
  for (const auto& f : what.fields)
    print_value(to, f);
  std::fputc('\n', to);
}

std::string_view to_string(outcome how) {
  switch (how) {
    case outcome::ended: return "ended";
    case outcome::violated: return "violated";
    case outcome::stuck: return "stuck";
    case outcome::step_limit: return "step_limit";
    case outcome::time_limit: return "time_limit";
  }
  return "outcome(?)";
}

std::string report::text() const {
  auto out = std::string{to_string(how)} + " after " + std::to_string(events) + " events, "
             + std::to_string(to_ms(time)) + " ms";
  if (!replay.empty())
    out += ", seed " + std::to_string(seed);
  for (const auto& v : violations)
    out += "\n  " + v.rule + " at " + std::to_string(to_ms(v.at)) + " ms: " + v.text;
  for (const auto& e : exits)
    if (e.how == exit_record::threw || e.how == exit_record::running || e.code != 0)
      out += "\n  " + to_string(e.node) + "/" + std::to_string(e.start) + " "
             + (e.how == exit_record::running ? "still runs" : "ended") + " with "
             + std::to_string(e.code) + " " + e.text;
  if (!replay.empty())
    out += "\n  replay: " + replay;
  return out;
}

} // namespace troupe::sim
