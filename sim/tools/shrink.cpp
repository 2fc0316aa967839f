#include <troupe/sim/tools/shrink.hpp>

#include <algorithm>
#include <set>

#include <troupe/sim/tools/ddmin.hpp>
#include <troupe/sim/tools/pick_text.hpp>

namespace troupe::sim {

namespace {

/// Leaves out what names a machine that is no more.
void drop_missing(run_spec& spec) {
  auto exists = [&](const node_name& n) {
    switch (n.task.job) {
      case job_kind::worker: return n.task.index < spec.shape.workers;
      case job_kind::ps: return n.task.index < spec.shape.servers;
      default: return true;
    }
  };
  std::erase_if(spec.plan.faults,
                [&](const fault& f) { return !exists(f.what.target) || !exists(f.what.other); });
  std::erase_if(spec.plan.core.members, [&](const node_name& n) { return !exists(n); });
}

void sort_by_time(fault_plan& plan) {
  std::stable_sort(plan.faults.begin(), plan.faults.end(),
                   [](const fault& a, const fault& b) { return a.at < b.at; });
}

} // namespace

shrinker::shrinker(std::string rule, run_function run, shrink_options options)
  : rule_{std::move(rule)}, run_{std::move(run)}, options_{std::move(options)} {}

void shrinker::say(const std::string& what) {
  if (options_.say)
    options_.say(what + " (" + std::to_string(runs_) + " runs)");
}

bool shrinker::fails(const run_spec& candidate) {
  if (runs_ >= options_.runs_max || (options_.allowed && !options_.allowed(candidate)))
    return false;
  ++runs_;
  auto out = run_(candidate);
  if (out.rule != rule_)
    return false;
  last_ = std::move(out);
  return true;
}

bool shrinker::accept(const run_spec& candidate) {
  if (!fails(candidate))
    return false;
  best_ = candidate;
  return true;
}

template <class F>
bool shrinker::accept_with(F change) {
  auto candidate = best_;
  change(candidate);
  return accept(candidate);
}

/// Halves the distance of a number to `least` for as long as that fails, then smaller steps.
template <class Get>
bool shrinker::lower(Get get, std::int64_t least) {
  bool any = false;
  for (auto step = get(best_) - least; step > 0; step /= 2) {
    auto stop_below = std::max<std::int64_t>((get(best_) - least) / 16, 1);
    if (step < stop_below)
      break;
    while (get(best_) - step >= least && accept_with([&](run_spec& s) { get(s) -= step; }))
      any = true;
  }
  return any;
}

run_spec shrinker::shrink(run_spec from) {
  best_ = std::move(from);
  bool replays = best_.order == order_kind::replay; // its picks fit nothing else
  for (int round = 0; round < 3 && !replays; ++round) {
    bool any = features_off();
    any |= fewer_faults();
    any |= smaller_shape();
    any |= milder_faults();
    if (!any)
      break;
  }
  if (replays || replay_recorded())
    fewer_picks();
  return best_;
}

bool shrinker::features_off() {
  bool any = false;
  if (best_.order != order_kind::fifo)
    any |= accept_with([](run_spec& s) {
      s.order = order_kind::fifo;
      s.pct_changes = 0;
      s.picks.clear();
    });
  using part = std::uint32_t step_trouble::*;
  for (part p :
       {&step_trouble::throws, &step_trouble::hangs, &step_trouble::kills, &step_trouble::slows})
    if (best_.plan.steps.*p > 0)
      any |= accept_with([p](run_spec& s) { s.plan.steps.*p = 0; });
  if (best_.conditions != run_conditions{})
    any |= accept_with([](run_spec& s) { s.conditions = {}; });
  if (best_.plan.core != core_plan{})
    any |= accept_with([](run_spec& s) { s.plan.core = {}; });
  std::set<action_kind> kinds;
  for (const auto& f : best_.plan.faults)
    kinds.insert(f.what.kind);
  for (auto kind : kinds)
    any |= accept_with([kind](run_spec& s) {
      std::erase_if(s.plan.faults, [kind](const fault& f) { return f.what.kind == kind; });
    });
  say("features: " + std::to_string(best_.plan.faults.size()) + " faults left, schedule "
      + std::string{to_string(best_.order)});
  return any;
}

bool shrinker::fewer_faults() {
  auto before = best_.plan.faults.size();
  if (before == 0)
    return false;
  auto candidate = best_;
  ddmin(best_.plan.faults, [&](const std::vector<fault>& some) {
    candidate.plan.faults = some;
    return accept(candidate);
  });
  say("faults: " + std::to_string(before) + " to " + std::to_string(best_.plan.faults.size()));
  return best_.plan.faults.size() < before;
}

bool shrinker::smaller_shape() {
  bool any = false;
  auto fewer = [&](std::uint32_t cluster_shape::*part) {
    while (best_.shape.*part > options_.shape_min.*part) {
      bool lower = accept_with([part](run_spec& s) {
        --(s.shape.*part);
        drop_missing(s);
      });
      if (!lower)
        return;
      any = true;
    }
  };
  fewer(&cluster_shape::workers);
  fewer(&cluster_shape::servers);
  any |= lower(
    [](auto& s) -> auto& { return s.shape.closures; }, options_.shape_min.closures);
  say("shape: " + std::to_string(best_.shape.workers) + " workers, "
      + std::to_string(best_.shape.servers) + " servers, " + std::to_string(best_.shape.closures)
      + " closures");
  return any;
}

bool shrinker::milder_faults() {
  bool any = false;
  constexpr std::int64_t ms = 1'000'000;
  for (std::size_t i = 0; i < best_.plan.faults.size(); ++i) {
    auto halve = [&](auto get, std::int64_t least) {
      while (get(best_.plan.faults[i]) / 2 >= least
             && accept_with([&](run_spec& s) { get(s.plan.faults[i]) /= 2; }))
        any = true;
    };
    halve(
      [](auto& f) -> auto& { return f.what.amount; }, 1);
    if (best_.plan.faults[i].what.length > duration::zero()) // 0 would be: for ever
      while (best_.plan.faults[i].what.length.count() / 2 >= ms
             && accept_with([&](run_spec& s) { s.plan.faults[i].what.length /= 2; }))
        any = true;
    while (best_.plan.faults[i].at.count() / 2 >= ms && accept_with([&](run_spec& s) {
             s.plan.faults[i].at /= 2;
             sort_by_time(s.plan);
           }))
      any = true;
  }
  if (best_.plan.core.at > duration::zero())
    any |= accept_with([](run_spec& s) { s.plan.core.at /= 2; });
  say("faults reduced in length and strength");
  return any;
}

/// What the best run picked, as a run of its own.
bool shrinker::replay_recorded() {
  auto picks = picks_from_text(last_.picks);
  if (!picks || picks->empty())
    return false;
  return accept_with([&](run_spec& s) {
    s.order = order_kind::replay;
    s.pct_changes = 0;
    s.picks = std::move(*picks);
  });
}

void shrinker::fewer_picks() {
  std::vector<std::size_t> ours;
  for (std::size_t i = 0; i < best_.picks.size(); ++i)
    if (best_.picks[i] != fifo_pick)
      ours.push_back(i);
  auto before = ours.size();
  const auto all = best_.picks;
  auto candidate = best_;
  auto kept = ddmin(ours, [&](const std::vector<std::size_t>& some) {
    candidate.picks.assign(some.empty() ? 0 : some.back() + 1, fifo_pick);
    for (auto i : some)
      candidate.picks[i] = all[i];
    return accept(candidate);
  });
  if (kept.empty())
    accept_with([](run_spec& s) {
      s.order = order_kind::fifo;
      s.picks.clear();
    });
  say("picks: " + std::to_string(before) + " to " + std::to_string(kept.size()));
}

} // namespace troupe::sim
