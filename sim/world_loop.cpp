// The loop: one action a step.
#include <algorithm>

#include <troupe/sim/detail/core.hpp>
#include <troupe/sim/replay.hpp>

namespace troupe::sim {

namespace {

/// What could run now, in the order of machines: tasks, then the timer; then links, then calls.
class enabled_choices final : public choices {
public:
  enabled_choices(const world::core& w, std::size_t n) : world_{w}, size_{n} {}
  std::size_t size() const override { return size_; }

  choice at(std::size_t i) const override {
    for (const auto& e : world_.enabled_now) {
      if (i < e.tasks)
        return of_task(*e.of, i);
      i -= e.tasks;
      if (e.timer && i-- == 0)
        return {.kind = choice::timer, .machine = e.of->index};
    }
    const auto& due = world_.net.due();
    if (i < due.size())
      return {
        .kind = choice::link, .machine = due[i].to, .task = due[i].from, .since = due[i].since};
    return {.kind = choice::call, .since = world_.calls_due.front().second};
  }

  std::size_t oldest() const override {
    std::size_t i = 0, best = 0;
    std::uint64_t least = ~std::uint64_t{0};
    auto look = [&](std::size_t at, std::uint64_t since) {
      if (since < least) {
        best = at;
        least = since;
      }
    };
    for (const auto& e : world_.enabled_now) {
      if (e.tasks > 0)
        look(i, e.of->now->ready.front().since);
      i += e.tasks;
      if (e.timer)
        look(i++, 0);
    }
    for (const auto& d : world_.net.due())
      look(i++, d.since);
    if (!world_.calls_due.empty())
      look(i, world_.calls_due.front().second);
    return best;
  }

private:
  static choice of_task(const machine& m, std::size_t i) {
    const auto& task = m.now->ready[i];
    auto number = task.is_thread ? static_cast<thread_fiber*>(task.what)->number
                                 : m.now->actors().number_of(task.what);
    return {.kind = task.is_thread ? choice::thread : choice::actor,
            .machine = m.index,
            .task = number,
            .since = task.since};
  }
  const world::core& world_;
  std::size_t size_;
};

} // namespace

/// What has become due is ready; then what could run.
std::size_t world::core::count_enabled() {
  while (events.next() <= now) {
    auto e = events.pop();
    if (e.kind == calendar::packet_arrives)
      net.become_due(e.index, ++ready_seq);
    else
      calls_due.emplace_back(e.index, ++ready_seq);
  }
  while (waits.next() <= now) {
    auto& f = waits.first();
    f.owner.wake(f, false);
  }
  enabled_now.clear();
  std::size_t n = 0;
  for (auto& m : machines) {
    if (!m->runs())
      continue;
    enabled e{.of = m.get()};
    if (m->busy_until < now + options.quantum)
      e.tasks = static_cast<std::uint32_t>(m->now->ready.size());
    auto timer = m->now->actors().next_timer();
    e.timer = timer != never && timer <= m->clock.local(now);
    if (e.tasks == 0 && !e.timer)
      continue;
    n += e.tasks + (e.timer ? 1 : 0);
    enabled_now.push_back(e);
  }
  return n + net.due().size() + (calls_due.empty() ? 0 : 1);
}

time_point world::core::next_moment() const {
  auto out = std::min(events.next(), waits.next());
  for (const auto& m : machines) {
    if (!m->runs())
      continue;
    if (!m->now->ready.empty())
      out = std::min(out, m->busy_until - options.quantum + duration{1});
    if (auto timer = m->now->actors().next_timer(); timer != never)
      out = std::min(out, m->clock.world_at(timer));
  }
  if (out == never)
    return out;
  const auto q = options.quantum.count();
  return time_point{duration{(out.time_since_epoch().count() + q - 1) / q * q}};
}

bool world::core::step() {
  std::size_t n = count_enabled();
  while (n == 0) {
    auto next = next_moment();
    if (next == never)
      return false;
    now = next;
    if (since_start() > options.time_max)
      return true;
    n = count_enabled();
  }
  std::size_t k = 0;
  if (n > 1) {
    enabled_choices all{*this, n};
    k = order->pick(all);
    if (options.record_picks)
      picks.push_back(static_cast<std::uint32_t>(k));
  }
  ++steps;
  execute(k);
  return true;
}

void world::core::execute(std::size_t k) {
  for (const auto& e : enabled_now) {
    if (k < e.tasks)
      return run_task(*e.of, k);
    k -= e.tasks;
    if (e.timer && k-- == 0) {
      hash.fold(0x71 + (std::uint64_t{e.of->index} << 8));
      hash.fold(static_cast<std::uint64_t>(now.time_since_epoch().count()));
      auto& l = *e.of->now;
      l.actors().fire_timer();
      return l.actors().flush();
    }
  }
  if (k < net.due().size())
    net.deliver_due(k);
  else
    run_call();
  after_step();
}

void world::core::run_task(machine& m, std::size_t k) {
  auto& l = *m.now;
  auto task = l.ready[k];
  l.ready.erase(l.ready.begin() + static_cast<std::ptrdiff_t>(k));
  m.busy_until = std::max(m.busy_until, now) + options.step_cost * m.slow;
  auto number = l.run(task);
  hash.fold((task.is_thread ? 0x72u : 0x73u) | std::uint64_t{m.index} << 8 | number << 24);
  hash.fold(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  l.actors().flush();
}

void world::core::run_call() {
  auto index = calls_due.front().first;
  calls_due.pop_front();
  hash.fold(0x74);
  calls.take(index)();
}

/// What arrived may have been answered at once.
void world::core::after_step() {
  for (auto& m : machines)
    if (m->now && m->now->actors().has_outgoing())
      m->now->actors().flush();
}

report world::core::run() {
  TROUPE_ASSERT(!std::exchange(ran, true), "sim: a world runs once");
  begin_checks();
  for (auto& m : machines)
    if (m->starts_first)
      start(*m);
  auto how = outcome::ended;
  for (;;) {
    if (!violations.empty()) {
      how = outcome::violated;
      break;
    }
    bool up = std::any_of(machines.begin(), machines.end(),
                          [](const auto& m) { return m->now && m->now->is_up(); });
    if (!up && (program_over || planned == 0))
      break;
    if (!step()) {
      how = outcome::stuck;
      break;
    }
    if (steps >= options.steps_max || since_start() > options.time_max) {
      how = steps >= options.steps_max ? outcome::step_limit : outcome::time_limit;
      break;
    }
  }
  end_checks(how);
  auto out = make_report();
  out.how = how;
  return out;
}

report world::core::make_report() {
  for (auto& m : machines)
    if (m->now && m->now->is_up()) {
      auto e = m->now->ending;
      e.how = exit_record::running;
      e.at = since_start();
      exits.push_back(e);
    }
  report out;
  out.seed = options.seed;
  if (options.from_environment)
    out.replay = replay_here(options.seed, options.replay_arguments);
  out.events = steps;
  out.hash = hash.value();
  out.traced = traced;
  out.frames = net.arrived;
  out.bytes = net.bytes_arrived;
  out.time = since_start();
  out.exits = exits;
  out.violations = violations;
  out.marks = marks.sorted();
  out.event_counts = event_counts.sorted();
  out.actions = actions_done;
  return out;
}

} // namespace troupe::sim
