// The cluster: machines and the instances of their processes.
#include <algorithm>

#include <troupe/sim/detail/core.hpp>

namespace troupe::sim {

world::core::core(world& w, world_options o)
  : handle{w},
    options{std::move(o)},
    order{options.order ? std::move(options.order) : make_random_schedule(options.seed)},
    net{*this} {}

/// What crashed lets go of everything only now.
world::core::~core() {
  for (auto& m : machines) {
    for (auto& l : m->dead)
      l->tear_down();
    if (m->now)
      m->now->tear_down();
  }
}

machine& world::core::add_machine(node_name name, program main) {
  TROUPE_ASSERT(!ran && !find(name), "sim: machines are added once, before the run");
  auto index = static_cast<std::uint32_t>(machines.size());
  // clocks of different machines have nothing to do with each other
  machine_clock clock{now, now + index * std::chrono::hours{7}};
  machines.push_back(std::make_unique<machine>(index, name, std::move(main), clock, options.seed));
  net.add_machine();
  return *machines.back();
}

machine* world::core::find(node_name name) {
  for (auto& m : machines)
    if (m->name == name)
      return m.get();
  return nullptr;
}

runtime_options world::core::options_for(const machine& m) const {
  auto out = settings;
  out.task = m.name.task;
  out.workers = 0;
  out.servers = 0;
  for (const auto& other : machines) {
    out.workers += other->name.task.job == job_kind::worker ? 1 : 0;
    out.servers += other->name.task.job == job_kind::ps ? 1 : 0;
  }
  out.coordinator_address = to_string(chief) + ":4242";
  out.listen_address = m.host + ":0";
  out.data_listen_address = m.host + ":0";
  return out;
}

void world::core::start(machine& m) {
  if (m.now)
    m.dead.push_back(std::move(m.now));
  ++m.starts;
  m.off = false;
  m.slow = 1;
  m.busy_until = now;
  m.now = std::make_unique<process_instance>(
    *this, m, process_id{.machine = m.index, .number = ++instances}, options_for(m));
  m.now->routes.resize(machines.size());
  net.machine_on(m);
  world_event("sim.start", m.name, {{"start", m.starts}});
  m.now->start_main();
}

/// The program has returned: what its runtime ended gets a moment to be gone.
void world::core::exit_soon(process_instance& l) {
  l.ending.at = since_start();
  later(std::chrono::milliseconds{20}, [this, &l] { finish_exit(l); });
}

void world::core::finish_exit(process_instance& l) {
  if (!l.is_up())
    return;
  if (l.ending.how == exit_record::returned)
    if (auto left = l.actors().actors_left(); left > 0)
      fail("actors-left", l.home().host + ": " + std::to_string(left)
                            + " actors after its runtime ended: a real process would hang");
  auto how = l.ending.how;
  world_event("sim.exit", l.name(), {{"code", l.ending.code}, {"text", l.ending.text}});
  l.freeze(how);
  net.process_gone(l, crash_plain);
  l.home().disk.process_gone();
  process_ended(l);
}

void world::core::process_ended(process_instance& l) {
  exits.push_back(l.ending);
  auto how = l.ending.how;
  if (l.name() == chief && (how == exit_record::returned || how == exit_record::threw)) {
    program_over = true;
    heal_for_the_end();
  }
}

/// The program is over: every process shall be able to hear of it.
void world::core::heal_for_the_end() {
  for (auto& m : machines) {
    resume(*m);
    m->slow = 1;
    m->disk.clear_faults();
    for (auto& other : machines)
      net.heal(m->index, other->index);
  }
}

} // namespace troupe::sim
