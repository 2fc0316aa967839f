// Scenarios around the witness of the protocol's part 3.4: closure k adds 1 to cell k on every
// server; in the end every cell of a finished closure must be 1.
#include <troupe/troupe.hpp>

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
void witness_program(world& w, process& p, std::int64_t n) {
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

} // namespace

} // namespace troupe::sim
