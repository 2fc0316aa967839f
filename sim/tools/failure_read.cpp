// A failure's file, read. People edit these files, and old ones lie about: every member is checked
// for its type and range, and what is wrong is refused by name.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>

#include <troupe/sim/lists.hpp>
#include <troupe/sim/scenarios/registry.hpp>
#include <troupe/sim/tools/failure_file.hpp>
#include <troupe/sim/tools/json_members.hpp>
#include <troupe/sim/tools/pick_text.hpp>

namespace troupe::sim {

namespace {

constexpr std::size_t file_bytes_max = std::size_t{256} << 20;

// Far beyond what a scenario draws, and small enough that no sum of them overflows.
constexpr number_range times{0, 1'000'000'000'000'000}; // ns: eleven days
constexpr number_range per_mille{0, 1'000};
constexpr number_range sizes{1, std::int64_t{1} << 30};
constexpr number_range machines{0, 1'000};
constexpr number_range closures{0, 1'000'000};

/// What `amount` means for that kind, and how much of it makes sense.
number_range amounts_of(action_kind kind) {
  switch (kind) {
    case action_kind::slow: return {0, 1'000'000};
    case action_kind::delay: return times;
    case action_kind::clock_offset: return {-1'000'000'000'000, 1'000'000'000'000}; // ms
    case action_kind::clock_drift: return {-900'000, 1'000'000};                    // ppm
    case action_kind::torn_write:
    case action_kind::io_error:
    case action_kind::no_space:
    case action_kind::bit_flip:
    case action_kind::slow_io: return {0, 1'000'000};
    default: return {0, 0};
  }
}

number_range flags_of(action_kind kind) {
  constexpr std::int64_t all = crash_loses_sent | crash_silent | crash_keeps_unsynced;
  return {0, kind == action_kind::crash ? all : 0};
}

/// The value of that name among the first `count` of an enum.
template <class Enum>
Enum by_name(json_members& from, const char* name, std::uint8_t count) {
  auto text = from.text(name);
  for (std::uint8_t i = 0; i < count; ++i)
    if (to_string(static_cast<Enum>(i)) == text)
      return static_cast<Enum>(i);
  from.refuse(name, "unknown value '" + text + "'");
}

std::uint64_t hash_of(json_members& from) {
  auto text = from.text_or("hash", "0x0");
  std::uint64_t out = 0;
  auto digits = std::string_view{text}.substr(text.starts_with("0x") ? 2 : 0);
  auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  if (wrong != std::errc{} || end != digits.data() + digits.size())
    from.refuse("hash", "'" + text + "' is not a hexadecimal hash");
  return out;
}

bool exists(const node_name& n, const cluster_shape& shape) {
  switch (n.task.job) {
    case job_kind::worker: return n.task.index < shape.workers;
    case job_kind::ps: return n.task.index < shape.servers;
    default: return n == chief;
  }
}

/// A machine of the shape.
node_name node_of(json_members& from, const char* name, const std::string& text,
                  const cluster_shape& shape) {
  auto node = node_from_text(text);
  if (!node)
    from.refuse(name, node.error().text);
  if (!exists(*node, shape))
    from.refuse(name, text + " is not in the cluster shape");
  return *node;
}

fault fault_of(json_members from, const cluster_shape& shape) {
  fault out;
  out.what.kind = by_name<action_kind>(from, "kind", action_kinds);
  const auto kind = out.what.kind;
  if (from.has("mark")) {
    out.mark = from.text("mark");
    auto known = known_marks();
    if (std::ranges::find(known, out.mark, &list_line::id) == known.end())
      from.refuse("mark", "unknown mark '" + out.mark + "'");
    out.nth = static_cast<std::uint64_t>(from.number("nth", {1, 1'000'000'000}));
    out.at = duration{from.number_or("at_ns", 0, times)};
  } else {
    out.at = duration{from.number("at_ns", times)};
  }
  out.what.target = node_of(from, "target", from.text("target"), shape);
  if (from.has("other"))
    out.what.other = node_of(from, "other", from.text("other"), shape);
  out.what.length = duration{from.number_or("length_ns", 0, times)};
  out.what.amount = from.number_or("amount", 0, amounts_of(kind));
  out.what.flags = from.number_or("flags", 0, flags_of(kind));
  from.end();
  return out;
}

core_plan core_of(json_members from, const cluster_shape& shape) {
  core_plan out;
  out.at = duration{from.number("at_ns", times)};
  std::set<node_name> seen;
  for (const auto& m : from.list("members")) {
    if (!m.is_string())
      from.refuse("members", short_text(m) + " is not a string");
    auto node = node_of(from, "members", m.get<std::string>(), shape);
    if (!seen.insert(node).second)
      from.refuse("members", to_string(node) + " is listed twice");
    out.members.push_back(node);
  }
  auto others = from.text_or("others", "dead");
  if (others != "dead" && others != "cut")
    from.refuse("others", "'" + others + "' must be dead or cut");
  out.others = others == "dead" ? core_plan::dead : core_plan::cut;
  from.end();
  return out;
}

run_conditions conditions_of(json_members from) {
  run_conditions out;
  out.latency_min = duration{from.number("latency_min_ns", times)};
  out.latency_jitter = duration{from.number("latency_jitter_ns", times)};
  from.get("latency_tail_per_mille", out.latency_tail_per_mille, per_mille);
  from.get("segment_bytes", out.segment_bytes, sizes);
  from.get("channel_bytes", out.channel_bytes, sizes);
  from.end();
  return out;
}

step_trouble steps_of(json_members from) {
  step_trouble out;
  std::uint32_t sum = 0;
  for (auto [name, to] : {std::pair{"throws", &out.throws}, std::pair{"hangs", &out.hangs},
                          std::pair{"kills", &out.kills}, std::pair{"slows", &out.slows}}) {
    *to = static_cast<std::uint32_t>(from.number_or(name, 0, per_mille));
    sum += *to;
    if (sum > 1'000)
      from.refuse(name, "the shares up to this one sum to " + std::to_string(sum)
                          + " per mille, at most 1000 allowed");
  }
  from.end();
  return out;
}

void read_order(json_members from, run_spec& to) {
  to.order = by_name<order_kind>(from, "kind", 4);
  to.pct_changes = static_cast<std::uint32_t>(from.number_or("changes", 0, {0, 10'000}));
  auto picks = picks_from_text(from.text_or("picks", {}));
  if (!picks)
    from.refuse("picks", picks.error().text);
  to.picks = std::move(*picks);
  from.end();
}

cluster_shape shape_of(json_members from) {
  cluster_shape out;
  from.get("workers", out.workers, machines);
  from.get("servers", out.servers, machines);
  from.get("closures", out.closures, closures);
  from.end();
  return out;
}

run_spec spec_of(json_members& from) {
  run_spec out;
  out.scenario = from.text("scenario");
  out.seed = from.unsigned_number("seed");
  out.shape = shape_of(from.object("shape"));
  read_order(from.object("order"), out);
  if (from.has("conditions"))
    out.conditions = conditions_of(from.object("conditions"));
  if (from.has("steps"))
    out.plan.steps = steps_of(from.object("steps"));
  if (from.has("core"))
    out.plan.core = core_of(from.object("core"), out.shape);
  std::size_t i = 0;
  for (const auto& f : from.list("faults"))
    out.plan.faults.push_back(fault_of({f, "faults[" + std::to_string(i++) + "]"}, out.shape));
  return out;
}

failure_file file_of(const json& whole) {
  json_members from{whole, ""};
  if (auto format = from.number("format", {0, INT32_MAX}); format != failure_format)
    from.refuse("format", "unsupported format " + std::to_string(format) + ", expected "
                            + std::to_string(failure_format));
  failure_file out;
  out.spec = spec_of(from);
  out.invariant = from.text_or("invariant", {});
  out.text = from.text_or("text", {});
  out.hash = hash_of(from);
  out.events = from.has("events") ? from.unsigned_number("events") : 0;
  out.bug = from.text_or("bug", {});
  out.build = from.text_or("build", {});
  out.commit = from.text_or("commit", {});
  from.end();
  return out;
}

/// All bytes of the file.
std::string bytes_of(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  if (!in)
    throw_failure(errc::not_found, "cannot open the file");
  std::string out, part(std::size_t{1} << 16, '\0');
  while (in) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    out.append(part, 0, static_cast<std::size_t>(in.gcount()));
    if (out.size() > file_bytes_max)
      throw_failure(errc::too_large, "larger than " + std::to_string(file_bytes_max) + " bytes");
  }
  if (in.bad())
    throw_failure(errc::io_failed, "cannot read the file");
  return out;
}

} // namespace

result<failure_file> failure_from_json(std::string_view text) {
  try {
    return file_of(parse_json(text));
  } catch (const error& e) {
    return e.details();
  }
}

result<failure_file> read_failure(const std::string& path) {
  try {
    return file_of(parse_json(bytes_of(path)));
  } catch (const error& e) {
    return make_failure(e.details().code, path + ": " + e.details().text);
  }
}

std::string unusable(const failure_file& file) {
  const auto* s = find_scenario(file.spec.scenario);
  if (!s)
    return "scenario: unknown scenario '" + file.spec.scenario + "'";
  const auto &shape = file.spec.shape, &least = s->shape_min;
  struct {
    const char* name;
    std::uint32_t have, needed;
  } parts[] = {{"workers", shape.workers, least.workers},
               {"servers", shape.servers, least.servers},
               {"closures", shape.closures, 1}};
  for (const auto& part : parts)
    if (part.have < part.needed)
      return "shape." + std::string{part.name} + ": " + std::to_string(part.have)
             + "; the scenario needs at least " + std::to_string(part.needed);
  return {};
}

} // namespace troupe::sim
