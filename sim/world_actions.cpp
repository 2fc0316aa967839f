// What can be done to a cluster.
#include <troupe/sim/detail/core.hpp>

namespace troupe::sim {

void world::core::call_at(time_point at, std::function<void()> f) {
  events.push(at, calendar::call, calls.put(std::move(f)));
}

void world::core::later(duration d, std::function<void()> f) {
  call_at(after(now, d), std::move(f));
}

void world::core::plan(duration since, std::function<void()> f) {
  ++planned;
  call_at(std::max(now, begin + since), [this, f = std::move(f)] {
    --planned;
    if (!program_over)
      f();
  });
}

bool world::core::crash(machine& m, std::int64_t flags, exit_record::how_t how) {
  if (!m.now || !m.now->is_up())
    return false;
  auto& l = *m.now;
  world_event(how == exit_record::left ? "sim.left" : "sim.crash", m.name, {{"flags", flags}});
  l.freeze(how);
  m.off = flags & crash_silent;
  ++m.pause_round;
  m.paused = false;
  net.process_gone(l, flags);
  if (how == exit_record::left || (flags & crash_keeps_unsynced))
    m.disk.process_gone();
  else
    m.disk.power_fail();
  process_ended(l);
  net.release_held(m.index); // whoever sent them finds nobody there
  return true;
}

bool world::core::pause(machine& m, duration length) {
  if (m.paused || !m.now || !m.now->is_up())
    return false;
  m.paused = true;
  auto round = ++m.pause_round;
  if (length > duration{})
    later(length, [this, &m, round] {
      if (m.pause_round == round)
        resume(m);
    });
  return true;
}

bool world::core::resume(machine& m) {
  if (!m.paused)
    return false;
  m.paused = false;
  ++m.pause_round;
  net.release_held(m.index);
  return true;
}

bool world::core::slow(machine& m, std::int64_t factor, duration length) {
  m.slow = std::max<std::int64_t>(factor, 1);
  auto round = ++m.slow_round;
  if (length > duration{})
    later(length, [&m, round] {
      if (m.slow_round == round)
        m.slow = 1;
    });
  return true;
}

namespace {

sim_disk::fault disk_fault(action_kind kind) {
  switch (kind) {
    case action_kind::torn_write: return sim_disk::fault::torn_write;
    case action_kind::no_space: return sim_disk::fault::no_space;
    case action_kind::bit_flip: return sim_disk::fault::bit_flip;
    case action_kind::slow_io: return sim_disk::fault::slow;
    default: return sim_disk::fault::io_error;
  }
}

} // namespace

bool world::core::act_on_links(const action& what, machine& a, machine* b) {
  switch (what.kind) {
    case action_kind::isolate:
      for (auto& m : machines)
        if (m.get() != &a) {
          net.block(a.index, m->index, what.length);
          net.block(m->index, a.index, what.length);
        }
      return true;
    case action_kind::heal_all: {
      bool any = false;
      for (auto& x : machines)
        for (auto& y : machines)
          any |= net.heal(x->index, y->index);
      return any;
    }
    default: break;
  }
  if (!b || b == &a)
    return false;
  switch (what.kind) {
    case action_kind::partition: net.block(b->index, a.index, what.length); [[fallthrough]];
    case action_kind::partition_one_way: net.block(a.index, b->index, what.length); return true;
    case action_kind::stall: net.stall(a.index, b->index, what.length); return true;
    case action_kind::heal: {
      bool one = net.heal(a.index, b->index);
      return net.heal(b->index, a.index) || one;
    }
    case action_kind::reset:
      return net.reset(a.index, b->index, (what.flags & reset_channels) != 0);
    case action_kind::delay:
      net.delay(a.index, b->index, duration{what.amount}, what.length);
      return true;
    default: return false;
  }
}

bool world::core::act_on_machine(const action& what, machine& m) {
  switch (what.kind) {
    case action_kind::crash: return crash(m, what.flags, exit_record::crashed);
    case action_kind::restart:
      if (m.now && m.now->is_up())
        return false;
      start(m);
      return true;
    case action_kind::pause: return pause(m, what.length);
    case action_kind::resume: return resume(m);
    case action_kind::slow: return slow(m, what.amount, what.length);
    case action_kind::clock_offset: m.clock.offset_ms += what.amount; return true;
    case action_kind::clock_drift: m.clock.set_drift(now, what.amount); return true;
    default:
      m.disk.inject(disk_fault(what.kind), static_cast<std::uint64_t>(what.amount), what.length);
      return true;
  }
}

bool world::core::act(const action& what) {
  auto* a = what.kind == action_kind::heal_all ? machines.front().get() : find(what.target);
  if (!a)
    return false;
  const bool on_links = what.kind >= action_kind::partition && what.kind <= action_kind::delay;
  world_event("sim.action", a->name,
              {{"kind", to_string(what.kind)},
               {"other", to_string(what.other)},
               {"length", what.length.count()},
               {"amount", what.amount}});
  if (on_links ? !act_on_links(what, *a, find(what.other)) : !act_on_machine(what, *a))
    return false;
  ++actions_done[what.kind];
  return true;
}

} // namespace troupe::sim
