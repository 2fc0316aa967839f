#include <troupe/sim/scenario.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include <troupe/sim/checkers.hpp>
#include <troupe/sim/liveness.hpp>
#include <troupe/sim/scenario_run.hpp>

namespace troupe::sim {

std::string_view to_string(order_kind kind) {
  constexpr std::array<std::string_view, 4> names{"fifo", "random", "pct", "replay"};
  auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : "order(?)";
}

std::string run_result::rule() const {
  if (!rep.violations.empty())
    return rep.violations.front().rule;
  return rep.how == outcome::ended ? std::string{} : std::string{to_string(rep.how)};
}

// --- drawing
// -----------------------------------------------------------------------------------------------------

namespace {

using namespace std::chrono_literals;

/// Uniform in [from, to], by the counter.
template <class T>
T between(const draw_stream& draws, std::uint64_t counter, T from, T to) {
  auto span = static_cast<std::uint64_t>(to - from) + 1;
  return from + static_cast<T>(draw_stream::scaled(draws.value(counter), span));
}

run_conditions draw_conditions(const draw_stream& draws) {
  run_conditions out;
  out.latency_min = std::chrono::microseconds{between(draws, 0, 20, 300)};
  out.latency_jitter = std::chrono::microseconds{between(draws, 1, 10, 500)};
  out.latency_tail_per_mille = between(draws, 2, 0u, 12u);
  constexpr std::array<std::size_t, 4> segments{64, 512, 4'096, 32'768};
  out.segment_bytes = segments[between<std::size_t>(draws, 3, 0, segments.size() - 1)];
  constexpr std::array<std::size_t, 4> windows{256, 2'048, 65'536, 1'048'576};
  out.channel_bytes = windows[between<std::size_t>(draws, 4, 0, windows.size() - 1)];
  return out;
}

order_kind draw_order(const draw_stream& draws) {
  auto x = between(draws, 0, 0, 9);
  return x < 2 ? order_kind::fifo : x < 8 ? order_kind::random : order_kind::pct;
}

} // namespace

run_spec draw_spec(const scenario& s, std::uint64_t seed) {
  const draw_stream all{seed, s.name};
  run_spec out;
  out.scenario = std::string{s.name};
  out.seed = seed;
  auto shape = all.at(1);
  const auto &from = s.shape_min, &to = s.shape_max;
  out.shape.workers = between(shape, 0, from.workers, std::max(from.workers, to.workers));
  out.shape.servers = between(shape, 1, from.servers, std::max(from.servers, to.servers));
  out.shape.closures = between(shape, 2, from.closures, std::max(from.closures, to.closures));
  out.conditions = draw_conditions(all.at(2));
  out.order = draw_order(all.at(3));
  out.pct_changes = between(all.at(3), 1, 1u, 6u);
  if (!s.fault_free)
    out.plan = draw_plan(seed, s.faults, out.shape);
  return out;
}

// --- running
// -----------------------------------------------------------------------------------------------------

namespace {

std::unique_ptr<schedule> make_order(const run_spec& spec) {
  constexpr std::uint64_t pct_steps = 30'000;
  switch (spec.order) {
    case order_kind::fifo: return make_fifo_schedule();
    case order_kind::random: return make_random_schedule(spec.seed);
    case order_kind::pct: return make_pct_schedule(spec.seed, spec.pct_changes, pct_steps);
    case order_kind::replay: return make_replay_schedule(spec.picks);
  }
  return nullptr;
}

/// When the program must have returned, since the start of the run.
duration due(const scenario& s, const run_spec& spec) {
  return spec.plan.core.at + s.finish_within;
}

/// How long processes may take to end once the program is over: they look for their coordinator.
constexpr duration ending_max = std::chrono::minutes{3};

world_options options_of(const scenario& s, const run_spec& spec, const run_settings& settings) {
  world_options out;
  out.seed = spec.seed;
  out.checks = world_checks::none; // the runner's own
  out.from_environment = false;
  out.order = make_order(spec);
  out.trace_to = settings.trace_to;
  out.record_picks = settings.record_picks;
  out.steps_max = settings.steps_max;
  out.time_max = due(s, spec) + ending_max;
  out.latency_min = spec.conditions.latency_min;
  out.latency_jitter = spec.conditions.latency_jitter;
  out.latency_tail_per_mille = spec.conditions.latency_tail_per_mille;
  out.segment_bytes = spec.conditions.segment_bytes;
  out.channel_bytes = spec.conditions.channel_bytes;
  return out;
}

checker_options options_for_checkers(const scenario& s, const runtime_options& of) {
  return {.queue_len_max = of.queue_len_max,
          .threads = of.threads_per_worker,
          .infrastructure_errors = s.beyond_guard};
}

/// How the program came to its end.
void judge_program(const scenario& s, const scenario_run& run, report& rep) {
  auto broke = [&](std::string rule, std::string text) {
    rep.violations.push_back({std::move(rule), std::move(text), rep.time});
  };
  const exit_record* last = nullptr;
  for (const auto& e : rep.exits)
    if (e.node == chief)
      last = &e;
    else if (e.how == exit_record::threw)
      broke("program", to_string(e.node) + " threw " + e.text);
  if (!last)
    return broke("program", "the program never ran");
  if (last->how == exit_record::threw)
    broke("program", "the program threw " + last->text);
  else if (last->how != exit_record::returned && !s.beyond_guard)
    broke("program", "the program did not return");
  else if (last->how == exit_record::returned && last->code != 0 && run.named_end().empty())
    broke("program", "the program ended with " + std::to_string(last->code));
}

void count(run_result& out) {
  auto& r = out.rep;
  if (auto at = r.event_counts.find("queue.accepted"); at != r.event_counts.end())
    out.closures = at->second;
  for (const auto& [kind, n] : r.actions)
    out.faults += n;
  for (const auto& [id, n] : r.marks)
    if (id.starts_with("sim.step_"))
      out.trouble += n;
}

} // namespace

run_result run_scenario(const scenario& s, const run_spec& spec, const run_settings& settings) {
  TROUPE_ASSERT(spec.scenario == s.name, "sim: a run of another scenario");
  scenario_run run{s, spec};
  std::optional<checker_panel> panel; // watch to the world's very end
  std::optional<liveness_driver> driver;
  run_result out;
  enum { before_end, at_end, over } stage = before_end; // the world's own end is nobody's business
  world w{options_of(s, spec, settings)};
  run.attach(w);
  s.build(run);
  auto sink = [&](std::string rule, std::string text) {
    if (stage == before_end)
      w.fail(std::move(rule), std::move(text));
    else if (stage == at_end)
      out.rep.violations.push_back({std::move(rule), std::move(text), out.rep.time});
  };
  panel.emplace(sink, options_for_checkers(s, w.settings()));
  driver.emplace(w, spec, due(s, spec), [&] { return run.phases() + panel->waiting(); });
  w.watch(*panel);
  w.watch(*driver);
  if (settings.also)
    w.watch(*settings.also);
  driver->plan();
  out.rep = w.run();
  out.rep.actions = driver->done();
  stage = at_end;
  out.picks = w.picks();
  if (out.rep.ok()) {
    panel->at_end();
    judge_program(s, run, out.rep);
  } else if (out.rep.violations.empty()) {
    out.rep.violations.push_back(
      {std::string{to_string(out.rep.how)}, run.phases() + panel->waiting(), out.rep.time});
  }
  count(out);
  stage = over;
  return out;
}

} // namespace troupe::sim
