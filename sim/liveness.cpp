#include <troupe/sim/liveness.hpp>

#include <algorithm>
#include <array>

#include <troupe/sim/draws.hpp>

namespace troupe::sim {

liveness_driver::liveness_driver(world& w, const run_spec& spec, duration due,
                                 std::function<std::string()> waiting)
  : world_{w},
    spec_{spec},
    due_{due},
    waiting_{std::move(waiting)},
    core_{spec.plan.core.members.begin(), spec.plan.core.members.end()} {}

void liveness_driver::plan() {
  const auto& core = spec_.plan.core;
  const bool has_core = core.at > duration{};
  for (const auto& f : spec_.plan.faults)
    if (!f.mark.empty())
      at_marks_.push_back({&f, f.nth});
    else if (!has_core || f.at < core.at)
      world_.call_at(f.at, [this, &f] { inject(f.what); });
  if (has_core)
    world_.call_at(core.at, [this] { heal(); });
  world_.call_at(due_, [this] {
    auto all = world_.machines();
    if (std::ranges::none_of(all, [this](const auto& n) { return world_.is_up(n); }))
      return; // they have all ended, the program too, in whatever way
    world_.fail("INV-L1",
                "no end " + std::to_string(to_ms(due_ - spec_.plan.core.at)) + " ms after "
                  + (healed_ ? "the faults of the core ended: " : "the start: ") + waiting_());
  });
}

bool liveness_driver::inject(const action& what) {
  if (!world_.act(what))
    return false;
  ++done_[what.kind];
  return true;
}

void liveness_driver::heal() {
  healed_ = true;
  world_.act({.kind = action_kind::heal_all});
  for (const auto& n : world_.machines())
    if (core_.contains(n))
      heal_machine(n);
    else
      forsake(n);
  for (auto& [n, since] : outside_)
    since = world_.now();
  check_members();
}

/// Members tell it themselves.
void liveness_driver::note_membership(const observed& what) {
  constexpr std::array<std::string_view, 5> out{"sim.start", "member.fenced", "member.link_lost",
                                                "member.coordinator_lost", "member.ended"};
  constexpr std::array<std::string_view, 3> down{"sim.crash", "sim.left", "sim.exit"};
  is_cluster_ |= what.id == "member.admitted";
  if (what.id == "member.admitted" || std::ranges::find(down, what.id) != down.end())
    outside_.erase(what.node);
  else if (std::ranges::find(out, what.id) != out.end())
    outside_.insert_or_assign(what.node, world_.now());
}

void liveness_driver::check_members() {
  if (world_.program_over())
    return;
  for (const auto& [n, since] : outside_)
    if (is_cluster_ && core_.contains(n) && world_.is_up(n) && world_.now() - since >= rejoin_bound)
      return world_.fail("INV-L2", to_string(n) + " is up and reachable but not a member for "
                                     + std::to_string(to_ms(world_.now() - since)) + " ms");
  world_.call_at(world_.now() + std::chrono::seconds{5}, [this] { check_members(); });
}

void liveness_driver::heal_machine(const node_name& n) {
  world_.act({.kind = action_kind::resume, .target = n});
  world_.act({.kind = action_kind::slow, .target = n, .amount = 1});
  world_.disk(n).clear_faults();
  if (!world_.is_up(n))
    world_.act({.kind = action_kind::restart, .target = n});
}

void liveness_driver::forsake(const node_name& n) {
  world_.act({.kind = action_kind::resume, .target = n});
  if (spec_.plan.core.others == core_plan::dead)
    world_.act({.kind = action_kind::crash, .target = n});
  else
    world_.act({.kind = action_kind::isolate, .target = n});
}

void liveness_driver::on_event(const observed& what) {
  if (what.id == "program.broke")
    return world_.fail(std::string{what.text("rule")}, std::string{what.text("text")});
  if (what.node.task.job != job_kind::worker)
    return;
  note_membership(what);
  if (what.id == "sim.left" || (what.id == "sim.exit" && what.integer("code") != 0))
    start_again(what.node, what.start, 0);
}

/// A crash holds from that very point on; what crashed comes back as if it had left.
void liveness_driver::on_mark(const node_name& where, std::string_view mark) {
  for (auto& m : at_marks_) {
    if (healed_ || m.left == 0 || m.what->what.target != where || m.what->mark != mark
        || --m.left > 0 || world_.program_over())
      continue;
    if (!inject(m.what->what))
      continue;
    if (where.task.job == job_kind::worker)
      start_again(where, static_cast<std::uint32_t>(m.what->nth), 0);
    else // with the next term, unless the liveness phase is quicker
      world_.call_at(world_.now() + std::chrono::seconds{2}, [this, where] {
        if (!world_.is_up(where))
          world_.act({.kind = action_kind::restart, .target = where});
      });
  }
}

bool liveness_driver::may_start(const node_name& n) const {
  return !healed_ || core_.contains(n) || spec_.plan.core.others == core_plan::cut;
}

/// Where there is no coordinator, it waits for one, but not for ever.
void liveness_driver::start_again(const node_name& n, std::uint32_t start, int tries) {
  constexpr int tries_max = 10;
  if (!may_start(n) || tries == tries_max)
    return;
  auto draws = draw_stream{spec_.seed, "launcher"}.at(n.task.index).at(start);
  auto wait = std::chrono::milliseconds{
    20 + draw_stream::scaled(draws.value(static_cast<std::uint64_t>(tries)), 1500)};
  world_.call_at(world_.now() + wait, [this, n, start, tries] {
    if (!world_.is_up(chief))
      return start_again(n, start, tries + 1);
    if (may_start(n))
      world_.act({.kind = action_kind::restart, .target = n});
  });
}

} // namespace troupe::sim
