#include <troupe/sim/tools/failure_file.hpp>

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include <caf/config.hpp>
#include <nlohmann/json.hpp>

#include <troupe/sim/tools/pick_text.hpp>

#ifndef TROUPE_SANITIZED // set by the build
#define TROUPE_SANITIZED ""
#endif

namespace troupe::sim {

namespace {

using json = nlohmann::ordered_json;

constexpr int format_number = 1;

[[noreturn]] void refuse(const std::string& what) { throw_failure(errc::corrupt, what); }

/// The value of that name among the first `count` of an enum.
template <class Enum>
Enum by_name(const std::string& name, std::uint8_t count, const char* what) {
  for (std::uint8_t i = 0; i < count; ++i)
    if (to_string(static_cast<Enum>(i)) == name)
      return static_cast<Enum>(i);
  refuse(std::string{what} + ": there is none called '" + name + "'");
}

std::string hex(std::uint64_t x) {
  char out[24];
  std::snprintf(out, sizeof out, "0x%016" PRIx64, x);
  return out;
}

std::uint64_t from_hex(const std::string& text) {
  std::uint64_t out = 0;
  auto digits = std::string_view{text}.substr(text.starts_with("0x") ? 2 : 0);
  auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  if (wrong != std::errc{} || end != digits.data() + digits.size())
    refuse("hash: '" + text + "' is none");
  return out;
}

/// Leaves out what is 0 or empty.
template <class T>
void put(json& to, const char* name, const T& value) {
  if (value != T{})
    to[name] = value;
}

// --- writing

json json_of(const fault& f) {
  json out{{"at_ns", f.at.count()}, {"kind", to_string(f.what.kind)}};
  put(out, "mark", f.mark);
  put(out, "nth", f.nth);
  out["target"] = to_string(f.what.target);
  if (f.what.other != node_name{})
    out["other"] = to_string(f.what.other);
  put<std::int64_t>(out, "length_ns", f.what.length.count());
  put(out, "amount", f.what.amount);
  put(out, "flags", f.what.flags);
  return out;
}

json json_of(const core_plan& core) {
  json members = json::array();
  for (const auto& m : core.members)
    members.push_back(to_string(m));
  return {{"at_ns", core.at.count()},
          {"members", std::move(members)},
          {"others", core.others == core_plan::dead ? "dead" : "cut"}};
}

/// Times in nanoseconds.
json json_of(const run_conditions& c) {
  return {{"latency_min_ns", c.latency_min.count()},
          {"latency_jitter_ns", c.latency_jitter.count()},
          {"latency_tail_per_mille", c.latency_tail_per_mille},
          {"segment_bytes", c.segment_bytes},
          {"channel_bytes", c.channel_bytes}};
}

json order_of(const run_spec& spec) {
  json out{{"kind", to_string(spec.order)}};
  put(out, "changes", spec.pct_changes);
  if (!spec.picks.empty())
    out["picks"] = picks_to_text(spec.picks);
  return out;
}

// --- reading

node_name node_of(const json& from, const char* name) {
  auto node = node_from_text(from.at(name).get<std::string>());
  if (!node)
    refuse(std::string{name} + ": " + node.error().text);
  return *node;
}

fault fault_of(const json& from) {
  fault out;
  out.at = duration{from.at("at_ns").get<std::int64_t>()};
  out.mark = from.value("mark", std::string{});
  out.nth = from.value("nth", std::uint64_t{0});
  out.what.kind = by_name<action_kind>(from.at("kind").get<std::string>(), action_kinds, "kind");
  out.what.target = node_of(from, "target");
  if (from.contains("other"))
    out.what.other = node_of(from, "other");
  out.what.length = duration{from.value("length_ns", std::int64_t{0})};
  out.what.amount = from.value("amount", std::int64_t{0});
  out.what.flags = from.value("flags", std::int64_t{0});
  return out;
}

core_plan core_of(const json& from) {
  core_plan out;
  out.at = duration{from.at("at_ns").get<std::int64_t>()};
  for (const auto& m : from.at("members")) {
    auto node = node_from_text(m.get<std::string>());
    if (!node)
      refuse("members: " + node.error().text);
    out.members.push_back(*node);
  }
  auto others = from.value("others", std::string{"dead"});
  if (others != "dead" && others != "cut")
    refuse("others: '" + others + "' is neither dead nor cut");
  out.others = others == "dead" ? core_plan::dead : core_plan::cut;
  return out;
}

run_conditions conditions_of(const json& from) {
  run_conditions out;
  out.latency_min = duration{from.at("latency_min_ns").get<std::int64_t>()};
  out.latency_jitter = duration{from.at("latency_jitter_ns").get<std::int64_t>()};
  from.at("latency_tail_per_mille").get_to(out.latency_tail_per_mille);
  from.at("segment_bytes").get_to(out.segment_bytes);
  from.at("channel_bytes").get_to(out.channel_bytes);
  return out;
}

void read_order(const json& from, run_spec& to) {
  to.order = by_name<order_kind>(from.at("kind").get<std::string>(), 4, "order");
  to.pct_changes = from.value("changes", 0u);
  auto picks = picks_from_text(from.value("picks", std::string{}));
  if (!picks)
    throw_failure(picks.error());
  to.picks = std::move(*picks);
}

run_spec spec_of(const json& from) {
  run_spec out;
  out.scenario = from.at("scenario").get<std::string>();
  out.seed = from.at("seed").get<std::uint64_t>();
  const auto& shape = from.at("shape");
  out.shape = {.workers = shape.at("workers").get<std::uint32_t>(),
               .servers = shape.at("servers").get<std::uint32_t>(),
               .closures = shape.at("closures").get<std::uint32_t>()};
  read_order(from.at("order"), out);
  if (auto conditions = from.find("conditions"); conditions != from.end())
    out.conditions = conditions_of(*conditions);
  if (auto steps = from.find("steps"); steps != from.end())
    out.plan.steps = {.throws = steps->value("throws", 0u),
                      .hangs = steps->value("hangs", 0u),
                      .kills = steps->value("kills", 0u),
                      .slows = steps->value("slows", 0u)};
  if (auto core = from.find("core"); core != from.end())
    out.plan.core = core_of(*core);
  for (const auto& f : from.at("faults"))
    out.plan.faults.push_back(fault_of(f));
  return out;
}

failure_file file_of(const json& from) {
  if (from.at("format").get<int>() != format_number)
    refuse("format: " + std::to_string(from.at("format").get<int>()) + ", this program reads "
           + std::to_string(format_number));
  failure_file out;
  out.spec = spec_of(from);
  out.invariant = from.value("invariant", std::string{});
  out.text = from.value("text", std::string{});
  out.hash = from_hex(from.value("hash", std::string{"0x0"}));
  out.events = from.value("events", std::uint64_t{0});
  out.bug = from.value("bug", std::string{});
  out.build = from.value("build", std::string{});
  return out;
}

} // namespace

result<node_name> node_from_text(std::string_view text) {
  auto digits = text.find_first_of("0123456789");
  auto job = text.substr(0, digits);
  std::uint32_t index = 0;
  bool good = true;
  if (digits != std::string_view::npos) {
    auto [end, wrong] = std::from_chars(text.data() + digits, text.data() + text.size(), index);
    good = wrong == std::errc{} && end == text.data() + text.size();
  }
  node_name out{task_id{job_kind::chief, index}};
  if (job == "worker")
    out.task.job = job_kind::worker;
  else if (job == "ps")
    out.task.job = job_kind::ps;
  else if (job == "evaluator")
    out.task.job = job_kind::evaluator;
  if (!good || to_string(out) != text)
    return make_failure(errc::corrupt, "'" + std::string{text} + "' is no node");
  return out;
}

std::string to_json(const failure_file& file) {
  const auto& spec = file.spec;
  json out{{"format", format_number}, {"scenario", spec.scenario}, {"seed", spec.seed}};
  out["invariant"] = file.invariant;
  out["text"] = file.text;
  out["hash"] = hex(file.hash);
  out["events"] = file.events;
  if (!file.bug.empty())
    out["bug"] = file.bug;
  out["build"] = file.build;
  out["shape"] = {{"workers", spec.shape.workers},
                  {"servers", spec.shape.servers},
                  {"closures", spec.shape.closures}};
  out["order"] = order_of(spec);
  out["conditions"] = json_of(spec.conditions);
  const auto& steps = spec.plan.steps;
  if (steps != step_trouble{})
    out["steps"] = {{"throws", steps.throws},
                    {"hangs", steps.hangs},
                    {"kills", steps.kills},
                    {"slows", steps.slows}};
  if (spec.plan.core != core_plan{})
    out["core"] = json_of(spec.plan.core);
  out["faults"] = json::array();
  for (const auto& f : spec.plan.faults)
    out["faults"].push_back(json_of(f));
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

result<failure_file> failure_from_json(std::string_view text) {
  try {
    return file_of(json::parse(text));
  } catch (const json::exception& e) {
    return make_failure(errc::corrupt, e.what());
  } catch (const error& e) {
    return e.details();
  }
}

result<failure_file> read_failure(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  if (!in)
    return make_failure(errc::not_found, path + ": cannot be read");
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  auto out = failure_from_json(text);
  if (!out)
    return make_failure(out.error().code, path + ": " + out.error().text);
  return out;
}

result<void> write_failure(const std::string& path, const failure_file& file) {
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  out << to_json(file);
  out.close();
  if (!out)
    return make_failure(errc::io_failed, path + ": cannot be written");
  return {};
}

std::string build_text() {
#if defined(__clang__)
  std::string out = "clang " __clang_version__;
#else
  std::string out = "g++ " __VERSION__;
#endif
  out += ", CAF " + std::to_string(CAF_VERSION);
#ifdef NDEBUG
  out += ", release";
#else
  out += ", debug";
#endif
  if (std::string_view{TROUPE_SANITIZED}.size() > 0)
    out += ", sanitizers " TROUPE_SANITIZED;
#ifdef TROUPE_PLANT_BUGS
  out += ", planted bugs";
#endif
  return out;
}

} // namespace troupe::sim
