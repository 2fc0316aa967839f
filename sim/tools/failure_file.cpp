#include <troupe/sim/tools/failure_file.hpp>

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include <troupe/sim/tools/json_members.hpp>
#include <troupe/sim/tools/pick_text.hpp>
#include <caf/config.hpp>

#ifndef TROUPE_SANITIZED // set by the build
#define TROUPE_SANITIZED ""
#endif

namespace troupe::sim {

namespace {

std::string hex(std::uint64_t x) {
  char out[24];
  std::snprintf(out, sizeof out, "0x%016" PRIx64, x);
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
  json out;
  if (f.mark.empty() || f.at != duration{})
    out["at_ns"] = f.at.count();
  out["kind"] = to_string(f.what.kind);
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
    return make_failure(errc::corrupt, "'" + std::string{text} + "' is not a node name");
  return out;
}

std::string to_json(const failure_file& file) {
  const auto& spec = file.spec;
  json out{{"format", failure_format}, {"scenario", spec.scenario}, {"seed", spec.seed}};
  out["invariant"] = file.invariant;
  out["text"] = file.text;
  out["hash"] = hex(file.hash);
  out["events"] = file.events;
  if (!file.bug.empty())
    out["bug"] = file.bug;
  out["build"] = file.build;
  put(out, "commit", file.commit);
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

result<void> write_failure(const std::string& path, const failure_file& file) {
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  out << to_json(file);
  out.close();
  if (!out)
    return make_failure(errc::io_failed, path + ": cannot write");
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
