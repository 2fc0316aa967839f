// A host application with an actor system of its own that uses Troupe inside its process: no
// daemon, no sockets, no files. Prints what it computed and ends with 0 when that is right.
#include <troupe/troupe.hpp>

#include <cstdio>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

namespace tr = troupe;

/// A registered step: adds `x` to every element of a variable, and tells the worker's square.
double add_to(tr::worker_context& ctx, const tr::variable& sums, double x) {
  tr::tensor delta{sums.type(), sums.shape()};
  for (auto& e : delta.mutable_as<double>())
    e = x;
  sums.assign_add(delta);
  return ctx.cancelled() ? 0 : x * x;
}
TROUPE_FUNCTION(add_to);

int main() {
  caf::actor_system_config config;
  tr::configure(config); // before the system is built
  caf::actor_system host{config};

  tr::runtime rt{{.workers = 2, .servers = 2}, host};
  tr::parameter_server_strategy strategy{rt, {.partitioner = tr::fixed_shards_partitioner{2}}};
  tr::cluster_coordinator coordinator{strategy};
  auto sums = strategy.scope(
    [] { return tr::create_variable({.name = "sums", .shape = {4}, .type = tr::dtype::f64}); });

  std::vector<tr::remote_value<double>> squares;
  for (int i = 1; i <= 100; ++i)
    squares.push_back(coordinator.schedule(add_to, sums, i));
  auto doubled =
    coordinator.schedule([](tr::worker_context&, double x) { return 2 * x; }, squares[9]);
  coordinator.join(); // raises the first error of any step

  double total = 0;
  for (double square : coordinator.fetch(squares))
    total += square;
  const double sum = sums.read().at<double>(3);
  std::printf("sum 1..100 = %g, squares = %g, twice the tenth = %g\n", sum, total, doubled.fetch());
  rt.shutdown();
  return sum == 5050 && total == 338350 && doubled.fetch() == 200 ? 0 : 1;
}
