#include <troupe/sim/tools/seed_run.hpp>

#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include <troupe/sim/scenarios/registry.hpp>
#include <troupe/sim/tools/pick_text.hpp>
#include <troupe/sim/twice.hpp>

namespace troupe::sim {

namespace {

using json = nlohmann::json;
using steady = std::chrono::steady_clock;

seed_outcome outcome_of_run(const run_result& from) {
  seed_outcome out;
  out.rule = from.rule();
  if (!from.ok())
    out.text = from.text();
  out.events = from.rep.events;
  out.hash = from.rep.hash;
  out.closures = from.closures;
  out.faults = from.faults;
  out.trouble = from.trouble;
  out.time_ns = from.rep.time.count();
  out.marks = from.rep.marks;
  for (const auto& [kind, n] : from.rep.actions)
    out.actions.emplace(to_string(kind), n);
  return out;
}

/// The line that says what broke, of what a child wrote before it died.
std::string telling_line(const std::string& errors, std::string_view sign) {
  auto at = errors.rfind(sign);
  if (at == std::string::npos)
    return {};
  auto begin = errors.rfind('\n', at);
  begin = begin == std::string::npos ? 0 : begin + 1;
  return errors.substr(begin, errors.find('\n', at) - begin);
}

} // namespace

seed_outcome run_seed(const scenario& s, const run_spec& spec, bool twice) {
  auto begin = steady::now();
  compared_run run{s, spec};
  auto out = outcome_of_run(run.first());
  out.wall_ns = std::chrono::nanoseconds{steady::now() - begin}.count();
  if (!twice && out.ok())
    return out;
  out.twice = true;
  auto parted = run.again(!out.ok());
  out.picks = picks_to_text(run.second().picks);
  if (parted.empty())
    return out;
  if (out.ok()) {
    out.rule = "INV-D1";
    out.text = "two runs of this seed differ: " + parted;
  } else {
    out.text += "\n  INV-D1: a second run of this seed differs: " + parted;
  }
  return out;
}

seed_outcome run_seed(const run_spec& spec, bool twice) {
  return run_seed(get_scenario(spec.scenario), spec, twice);
}

std::string to_text(const seed_outcome& out) {
  json j{{"rule", out.rule},       {"text", out.text},         {"events", out.events},
         {"hash", out.hash},       {"closures", out.closures}, {"faults", out.faults},
         {"trouble", out.trouble}, {"time_ns", out.time_ns},   {"wall_ns", out.wall_ns},
         {"twice", out.twice},     {"picks", out.picks},       {"marks", out.marks},
         {"actions", out.actions}};
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

result<seed_outcome> outcome_from_text(std::string_view text) {
  try {
    auto j = json::parse(text);
    seed_outcome out;
    j.at("rule").get_to(out.rule);
    j.at("text").get_to(out.text);
    j.at("events").get_to(out.events);
    j.at("hash").get_to(out.hash);
    j.at("closures").get_to(out.closures);
    j.at("faults").get_to(out.faults);
    j.at("trouble").get_to(out.trouble);
    j.at("time_ns").get_to(out.time_ns);
    j.at("wall_ns").get_to(out.wall_ns);
    j.at("twice").get_to(out.twice);
    j.at("picks").get_to(out.picks);
    j.at("marks").get_to(out.marks);
    j.at("actions").get_to(out.actions);
    return out;
  } catch (const json::exception& e) {
    return make_failure(errc::corrupt, e.what());
  }
}

seed_outcome outcome_of(child_end end) {
  if (end.how == child_end::answered) {
    auto out = outcome_from_text(end.answer);
    if (out)
      return std::move(*out);
    end.errors += out.error().text;
  }
  seed_outcome out;
  out.text = end.errors.substr(end.errors.size() - std::min<std::size_t>(end.errors.size(), 2'000));
  if (end.how == child_end::too_long) {
    out.rule = "wall_limit";
  } else if (auto line = telling_line(end.errors, "troupe: invariant "); !line.empty()) {
    constexpr std::size_t before = std::string_view{"troupe: invariant "}.size();
    out.rule = line.substr(before, line.find(" broken") - before);
    out.rule = out.rule.substr(0, out.rule.find(' '));
    if (out.rule.find('-') == std::string::npos) // a sentence, not an id
      out.rule = "assertion";
    out.text = line;
  } else if (!telling_line(end.errors, "ERROR: AddressSanitizer").empty()) {
    out.rule = "asan";
  } else if (!telling_line(end.errors, "ERROR: LeakSanitizer").empty()) {
    out.rule = "leak";
  } else if (!telling_line(end.errors, "runtime error:").empty()) {
    out.rule = "ubsan";
  } else {
    out.rule =
      end.signal != 0 ? "signal " + std::to_string(end.signal) : "exit " + std::to_string(end.code);
  }
  return out;
}

seed_outcome run_contained(const run_spec& spec, bool twice, const child_limits& limits) {
  child_pool pool{1, limits};
  pool.start(0, [&] { return to_text(run_seed(spec, twice)); });
  return outcome_of(pool.wait());
}

} // namespace troupe::sim
