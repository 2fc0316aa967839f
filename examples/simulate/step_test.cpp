// A test of one's own step on a simulated cluster whose workers die: what docs/simulation.md
// quotes.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <troupe/troupe.hpp>

#include <troupe/sim/doctest.hpp> // a failed run names its test case
#include <troupe/sim/world.hpp>

namespace sim = troupe::sim;
using namespace std::chrono_literals;

/// The step under test: adds `x` to a sum that the servers keep.
void add_step(troupe::worker_context& ctx, const troupe::variable& sum, double x) {
  ctx.compute(20ms); // stands for what the step works out
  sum.assign_add(troupe::tensor::scalar(x));
}
TROUPE_FUNCTION(add_step);

TEST_CASE("every step counts once, whatever becomes of its worker") {
  for (auto seed : sim::seeds(20)) { // 1 to 20, or the one that is to be replayed
    double total = 0;
    sim::world w{seed};                  // after what its programs write to
    w.coordinator([&](sim::process& p) { // an ordinary program, on a fiber
      troupe::runtime rt{p.options(), p.host()};
      troupe::parameter_server_strategy strategy{rt};
      troupe::cluster_coordinator coordinator{strategy};
      auto sum = strategy.create_variable({.name = "sum", .shape = {}, .type = troupe::dtype::f64});
      for (int i = 0; i < 100; ++i)
        coordinator.schedule(add_step, sum, 1.0);
      coordinator.join();
      total = sum.read().item<double>();
    });
    w.workers(3);
    w.servers(2);
    w.at(300ms).crash(sim::worker{1});
    w.at(900ms).restart(sim::worker{1});
    w.at(400ms).partition(sim::chief, sim::worker{0}, 200ms);
    auto out = w.run();
    CHECK_MESSAGE(out.ok(), out.text()); // the invariants too: see `world_options::checks`
    CHECK_MESSAGE(total == 100, out.text());
    CHECK(out.actions.at(sim::action_kind::crash) == 1);
  }
}
