// Worlds built by hand, around the audit of the protocol's part 3.4: closure k adds 1 to cell k
// on every server; in the end every cell of a finished closure must be 1.
#include "cluster_worlds.hpp"

#include <troupe/troupe.hpp>

#include <troupe/sim/draws.hpp>

namespace worlds {

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

void cell_step(worker_context& ctx, const variable_list& audit, std::int64_t rows,
               std::int64_t cell) {
  ctx.compute(2ms);
  auto servers = rows;
  tensor at{dtype::i64, {servers}};
  tensor ones{dtype::i64, {servers}};
  tensor attempts{dtype::i64, {servers}};
  auto cells = audit[0].spec().shape[0] / servers;
  for (std::int64_t s = 0; s < servers; ++s) {
    at.mutable_as<std::int64_t>()[static_cast<std::size_t>(s)] = s * cells + cell;
    ones.mutable_as<std::int64_t>()[static_cast<std::size_t>(s)] = 1;
    attempts.mutable_as<std::int64_t>()[static_cast<std::size_t>(s)] =
      static_cast<std::int64_t>(value_of(ctx.attempt()));
  }
  audit[0].scatter_add(at, ones);
  audit[1].scatter_update(at, attempts);
}
TROUPE_FUNCTION(cell_step);

/// Runs `n` closures, then compares the cells.
void count_cells(world& w, process& p, std::int64_t n) {
  runtime rt{p.options(), p.host()};
  const auto servers = static_cast<std::int64_t>(p.options().servers);
  parameter_server_strategy strategy{rt, {.partitioner = fixed_shards_partitioner{servers}}};
  cluster_coordinator coordinator{strategy};
  std::vector<variable> both;
  for (const char* name : {"cells", "attempts"})
    both.push_back(
      strategy.create_variable({.name = name, .shape = {servers * n}, .type = dtype::i64}));
  variable_list audit{both};
  for (std::int64_t k = 0; k < n; ++k)
    coordinator.schedule(cell_step, audit, servers, k);
  coordinator.join();
  auto cells = audit[0].read();
  std::int64_t lost = 0, doubled = 0;
  for (auto x : cells.as<std::int64_t>()) {
    lost += x < 1 ? 1 - x : 0;
    doubled += x > 1 ? x - 1 : 0;
  }
  if (lost != 0 || doubled != 0)
    w.fail("INV-X1", std::to_string(lost) + " effects lost, " + std::to_string(doubled)
                       + " doubled of " + std::to_string(servers * n));
}

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

} // namespace

report calm(world& w) {
  w.coordinator([&w](process& p) { count_cells(w, p, 100); });
  w.workers(3);
  w.servers(2);
  return w.run();
}

report crash_and_partition(world& w) {
  w.coordinator([&w](process& p) { count_cells(w, p, 300); });
  w.workers(3);
  w.servers(2);
  w.at(40ms).crash(worker{1});
  w.at(400ms).restart(worker{1});
  w.at(60ms).partition(chief, worker{0}, 1500ms);
  w.at(100ms).pause(worker{2}, 300ms);
  return w.run();
}

report coordinator_restart(world& w) {
  w.coordinator([&w](process& p) { count_cells(w, p, 200); });
  w.workers(3);
  w.servers(2);
  w.at(40ms).crash(chief);
  w.at(300ms).restart(chief);
  return w.run();
}

report worker_storm(world& w) {
  w.coordinator([&w](process& p) { count_cells(w, p, 400); });
  w.workers(3);
  w.servers(2);
  plan_storm(w, 12, 1500ms);
  return w.run();
}

} // namespace worlds
