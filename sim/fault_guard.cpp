#include <troupe/sim/fault_guard.hpp>

#include <algorithm>
#include <cstdlib>

namespace troupe::sim {

namespace {

bool is_worker(const node_name& n) { return n.task.job == job_kind::worker; }

bool takes_two(action_kind kind) {
  return kind == action_kind::partition || kind == action_kind::partition_one_way
         || kind == action_kind::heal || kind == action_kind::reset || kind == action_kind::stall
         || kind == action_kind::delay;
}

/// Whether it keeps a machine, or two from each other, for its length.
bool silences(action_kind kind) {
  return kind == action_kind::pause || kind == action_kind::isolate
         || kind == action_kind::partition || kind == action_kind::partition_one_way
         || kind == action_kind::stall;
}

bool is_storage(action_kind kind) {
  return kind >= action_kind::torn_write && kind <= action_kind::slow_io;
}

constexpr std::int64_t offset_ms_max = 10'000;
constexpr std::int64_t drift_ppm_max = 200;

} // namespace

bool fault_guard::may_be_silent(const node_name& n) const {
  switch (n.task.job) {
    case job_kind::worker: return true;
    case job_kind::ps: return profile_.servers_may_be_silent;
    default: return profile_.chief_may_be_silent;
  }
}

bool fault_guard::exists(const node_name& n) const {
  switch (n.task.job) {
    case job_kind::worker: return n.task.index < shape_.workers;
    case job_kind::ps: return n.task.index < shape_.servers;
    default: return n == chief;
  }
}

/// Between two that must not lose each other: the coordinator and its servers.
static bool is_vital(const action& what) {
  return takes_two(what.kind) && !is_worker(what.target) && !is_worker(what.other);
}

std::string fault_guard::complaint(const fault& f) const {
  const auto& what = f.what;
  auto name = std::string{to_string(what.kind)} + " of " + to_string(what.target);
  if (what.kind != action_kind::heal_all && !exists(what.target))
    return name + ": unknown machine";
  if (takes_two(what.kind) && (!exists(what.other) || what.other == what.target))
    return name + ": unknown other machine";
  bool crash = what.kind == action_kind::crash;
  if (crash && what.target.task.job == job_kind::ps && !profile_.servers_may_crash)
    return name + ": not survivable without a checkpoint";
  if (crash && what.target == chief && !profile_.chief_may_crash)
    return name + ": the program restores no checkpoint";
  bool silent = !may_be_silent(what.target) || (takes_two(what.kind) && !may_be_silent(what.other));
  if (what.kind == action_kind::reset && is_vital(what) && silent)
    return name + ": a lost socket acts at once";
  bool spared = takes_two(what.kind) ? is_vital(what) && silent : !may_be_silent(what.target);
  // a judge that sleeps condemns nobody
  if (what.kind == action_kind::pause && what.target == chief)
    spared = false;
  if (silences(what.kind) && spared
      && (what.length == duration{} || what.length > silence_forgiven))
    return name + ": longer than silence is forgiven";
  if (what.kind == action_kind::delay && spared && duration{what.amount} > silence_forgiven / 2)
    return name + ": as good as silence";
  if (what.kind == action_kind::slow && spared && what.amount > 50)
    return name + ": as good as silence";
  if (what.kind == action_kind::clock_offset && std::abs(what.amount) > offset_ms_max)
    return name + ": past 10 s";
  if (what.kind == action_kind::clock_drift && std::abs(what.amount) > drift_ppm_max)
    return name + ": past 200 ppm";
  if (is_storage(what.kind) && what.target != chief)
    return name + ": it stores nothing";
  return {};
}

/// Makes `what` milder, where that can make it fit.
void fault_guard::shorten(fault& f) const {
  auto& what = f.what;
  if (silences(what.kind) && (what.length == duration{} || what.length > silence_forgiven))
    what.length = silence_forgiven;
  if (what.kind == action_kind::delay)
    what.amount = std::min<std::int64_t>(what.amount, (silence_forgiven / 2).count());
  if (what.kind == action_kind::slow)
    what.amount = std::min<std::int64_t>(what.amount, 50);
}

/// Two short silences of one machine, one after the other, are a long one: the number of the first
/// fault that comes too early after another; the plan's size when there is none.
/// @pre sorted by time.
std::size_t fault_guard::too_close(const fault_plan& plan) const {
  duration quiet_until{};
  for (std::size_t i = 0; i < plan.faults.size() && !profile_.servers_may_be_silent; ++i) {
    const auto& f = plan.faults[i];
    bool spared = !is_worker(f.what.target) && (takes_two(f.what.kind) ? is_vital(f.what) : true)
                  && (silences(f.what.kind) || f.what.kind == action_kind::delay);
    if (!spared || (f.what.kind == action_kind::pause && f.what.target == chief))
      continue;
    if (f.at < quiet_until)
      return i;
    quiet_until = f.at + f.what.length + std::chrono::seconds{1};
  }
  return plan.faults.size();
}

fault_plan fault_guard::keep(fault_plan plan) const {
  for (auto& f : plan.faults)
    if (!complaint(f).empty())
      shorten(f);
  std::erase_if(plan.faults, [this](const fault& f) { return !complaint(f).empty(); });
  std::stable_sort(plan.faults.begin(), plan.faults.end(),
                   [](const fault& a, const fault& b) { return a.at < b.at; });
  for (auto no = too_close(plan); no < plan.faults.size(); no = too_close(plan))
    plan.faults.erase(plan.faults.begin() + static_cast<std::ptrdiff_t>(no));
  return plan;
}

std::vector<std::string> fault_guard::complaints(const fault_plan& plan) const {
  std::vector<std::string> out;
  for (const auto& f : plan.faults)
    if (auto why = complaint(f); !why.empty())
      out.push_back(std::to_string(to_ms(f.at)) + " ms: " + why);
  auto sorted = plan;
  std::stable_sort(sorted.faults.begin(), sorted.faults.end(),
                   [](const fault& a, const fault& b) { return a.at < b.at; });
  if (auto i = too_close(sorted); i < sorted.faults.size())
    out.push_back(std::to_string(to_ms(sorted.faults[i].at))
                  + " ms: two silences in a row are a long one");
  if (plan.core.at == duration{})
    return out;
  const auto& core = plan.core.members;
  auto has = [&](const node_name& n) {
    return std::find(core.begin(), core.end(), n) != core.end();
  };
  if (!has(chief))
    out.push_back("the core is without the coordinator");
  for (std::uint32_t i = 0; i < shape_.servers; ++i)
    if (!has(server{i}))
      out.push_back("the core is without " + to_string(node_name{server{i}}));
  if (std::none_of(core.begin(), core.end(), is_worker))
    out.push_back("the core is without a worker");
  return out;
}

} // namespace troupe::sim
