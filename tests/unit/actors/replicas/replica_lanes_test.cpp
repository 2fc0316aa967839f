// Lanes of replicas without a strategy around them: what of their waits can be told exactly.

#include <doctest/doctest.h>

#include <memory>

#include <troupe/actors/replicas/replica_lanes.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/transport/memory_transport.hpp>

using namespace troupe;

TEST_CASE("replica_lanes: a merge call that all replicas have reached is not late") {
  const auto ports = make_production_ports();
  const auto transport = make_memory_transport(ports->waits());
  const environment env{ports->clock(), ports->random(), ports->storage(),
                        ports->lanes(), ports->waits(),  *transport};
  // It is late as soon as it waits for anybody: here it only waits for who asked for the run.
  const auto lanes =
    std::make_shared<replica_lanes>(env, replica_lanes_options{.call_timeout = duration{}});
  int merged = 0;
  lanes->run([&](std::uint32_t local) {
    (void)lanes->merge(local, {.kind = "merge_call"}, nullptr, [&](const merge_values& x) {
      ++merged;
      return x;
    });
  });
  CHECK(merged == 1);
  CHECK(lanes->close(after(env.clock.now(), std::chrono::seconds{10})));
}
