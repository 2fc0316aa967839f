// Scenarios around the witness of the protocol's part 3.4: closure k adds 1 to cell k on every
// server; in the end every cell of a finished closure must be 1.
#include <troupe/troupe.hpp>

#include <troupe/sim/draws.hpp>

#include "scenario.hpp"

namespace troupe::sim {

namespace {

using namespace std::chrono_literals;

void witness_step(worker_context& ctx, const variable_list& witness, std::int64_t rows,
                  std::int64_t cell) {
  ctx.compute(2ms);
  auto servers = rows;
  tensor at{dtype::i64, {servers}};
  tensor ones{dtype::i64, {servers}};
  tensor attempts{dtype::i64, {servers}};
  auto cells = witness[0].spec().shape[0] / servers;
  for (std::int64_t s = 0; s < servers; ++s) {
    at.mutable_as<std::int64_t>()[static_cast<std::size_t>(s)] = s * cells + cell;
    ones.mutable_as<std::int64_t>()[static_cast<std::size_t>(s)] = 1;
    attempts.mutable_as<std::int64_t>()[static_cast<std::size_t>(s)] =
      static_cast<std::int64_t>(value_of(ctx.attempt()));
  }
  witness[0].scatter_add(at, ones);
  witness[1].scatter_update(at, attempts);
}
TROUPE_FUNCTION(witness_step);

/// Runs `n` closures, then compares the cells.
void witness_program(world& w, process& p, std::int64_t n, duration idle = {}) {
  runtime rt{p.options(), p.host()};
  const auto servers = static_cast<std::int64_t>(p.options().servers);
  parameter_server_strategy strategy{rt, {.partitioner = fixed_shards_partitioner{servers}}};
  cluster_coordinator coordinator{strategy};
  std::vector<variable> both;
  for (const char* name : {"cells", "attempts"})
    both.push_back(
      strategy.create_variable({.name = name, .shape = {servers * n}, .type = dtype::i64}));
  variable_list witness{both};
  for (std::int64_t k = 0; k < n; ++k)
    coordinator.schedule(witness_step, witness, servers, k);
  coordinator.join();
  p.env().lanes.spend(idle);
  auto cells = witness[0].read();
  std::int64_t lost = 0, doubled = 0;
  for (auto x : cells.as<std::int64_t>()) {
    lost += x < 1 ? 1 - x : 0;
    doubled += x > 1 ? x - 1 : 0;
  }
  if (lost != 0 || doubled != 0)
    w.fail("INV-X1", std::to_string(lost) + " effects lost, " + std::to_string(doubled)
                       + " doubled of " + std::to_string(servers * n));
}

report run_calm(world& w) {
  w.coordinator([&w](process& p) { witness_program(w, p, 100); });
  w.workers(3);
  w.servers(2);
  return w.run();
}
const scenario_registration calm{"closures", "100 witnessed closures, no faults", run_calm};

report run_faults(world& w) {
  w.coordinator([&w](process& p) { witness_program(w, p, 300); });
  w.workers(3);
  w.servers(2);
  w.at(40ms).crash(worker{1});
  w.at(400ms).restart(worker{1});
  w.at(60ms).partition(chief, worker{0}, 1500ms);
  w.at(100ms).pause(worker{2}, 300ms);
  return w.run();
}
const scenario_registration faults{
  "crash_and_partition", "300 witnessed closures, a crash, a partition, a pause", run_faults};

report run_chief(world& w) {
  w.coordinator([&w](process& p) { witness_program(w, p, 200); });
  w.workers(3);
  w.servers(2);
  w.at(40ms).crash(chief);
  w.at(300ms).restart(chief);
  return w.run();
}
const scenario_registration chief_crash{
  "coordinator_restart", "200 witnessed closures, the coordinator crashes and starts again",
  run_chief};

/// Faults that effect once survives: anything but servers and the coordinator going.
void plan_storm(world& w, std::uint64_t n, duration length) {
  draw_stream draws{w.seed(), "storm"};
  for (std::uint64_t i = 0; i < n; ++i) {
    duration at{static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(length.count())))};
    duration lasts = std::chrono::milliseconds{20 + draws.below(3000)};
    auto who = worker{static_cast<std::uint32_t>(draws.below(3))};
    node_name other =
      draws.below(3) == 0 ? chief : node_name{server{static_cast<std::uint32_t>(draws.below(2))}};
    auto m = w.at(at);
    switch (draws.below(9)) {
      case 0:
      case 1:
        m.crash(who, static_cast<std::int64_t>(draws.below(8)));
        w.at(at + lasts).restart(who);
        break;
      case 2: m.partition(who, other, lasts); break;
      case 3: m.partition_one_way(who, other, lasts); break;
      case 4: m.partition_one_way(other, who, lasts); break;
      case 5: m.reset(who, other); break;
      case 6: m.pause(who, lasts); break;
      case 7: m.slow(who, 20, lasts); break;
      default: m.delay(who, other, 5ms, lasts);
    }
  }
}

report run_storm(world& w) {
  w.coordinator([&w](process& p) { witness_program(w, p, 400); });
  w.workers(3);
  w.servers(2);
  plan_storm(w, 12, 1500ms);
  return w.run();
}
const scenario_registration storm{"worker_storm", "400 witnessed closures, worker faults",
                                  run_storm};

/// Faults that nothing promises to survive: the program may end with a clear error, within bounded
/// time.
report run_any_storm(world& w) {
  w.coordinator([&w](process& p) { witness_program(w, p, 150); });
  w.workers(3);
  w.servers(2);
  w.settings().start_timeout = 20s;
  w.settings().coordinator_lost_ms_max = 10'000;
  w.settings().no_worker_ms_max = 20'000;
  draw_stream draws{w.seed(), "any_storm"};
  const node_name all[] = {chief, worker{0}, worker{1}, worker{2}, server{0}, server{1}};
  for (int i = 0; i < 10; ++i) {
    auto at = std::chrono::microseconds{draws.below(600'000)};
    auto lasts = std::chrono::milliseconds{20 + draws.below(4000)};
    auto a = all[draws.below(6)], b = all[draws.below(6)];
    switch (draws.below(6)) {
      case 0:
      case 1:
        w.at(at).crash(a, static_cast<std::int64_t>(draws.below(8)));
        w.at(at + lasts).restart(a);
        break;
      case 2: w.at(at).partition(a, b, lasts); break;
      case 3: w.at(at).pause(a, lasts); break;
      case 4: w.at(at).reset(a, b); break;
      default: w.at(at).isolate(a, lasts);
    }
  }
  return w.run();
}
const scenario_registration any_storm{
  "any_storm", "150 witnessed closures, faults that nothing promises to survive", run_any_storm};

report run_idle(world& w) {
  w.coordinator([&w](process& p) { witness_program(w, p, 10, 10min); });
  w.workers(3);
  w.servers(2);
  return w.run();
}
const scenario_registration idle{"idle", "10 closures, then ten minutes of heartbeats", run_idle};

report run_many(world& w) {
  w.coordinator([&w](process& p) { witness_program(w, p, 20'000); });
  w.workers(3);
  w.servers(2);
  return w.run();
}
const scenario_registration many{"many_closures", "20,000 witnessed closures, no faults", run_many};

report run_server(world& w) {
  w.coordinator([&w](process& p) { witness_program(w, p, 200); });
  w.workers(3);
  w.servers(2);
  w.at(40ms).crash(server{1});
  w.at(300ms).restart(server{1});
  return w.run();
}
const scenario_registration server_crash{
  "server_restart", "200 witnessed closures, a server crashes: a clear error", run_server};

} // namespace

} // namespace troupe::sim
