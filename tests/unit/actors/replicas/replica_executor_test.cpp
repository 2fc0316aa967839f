// Threads of replicas without a strategy around them: what of their waits can be told exactly.

#include <doctest/doctest.h>

#include <atomic>
#include <memory>

#include <troupe/actors/replicas/replica_executor.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/transport/memory_transport.hpp>

using namespace troupe;

TEST_CASE("replica_executor: a merge call that all replicas have reached is not late") {
  const auto ports = make_production_ports();
  const auto transport = make_memory_transport(ports->waits());
  const environment env{ports->clock(),   ports->random(), ports->storage(),
                        ports->threads(), ports->waits(),  *transport};
  // It is late as soon as it waits for anybody: here it only waits for who asked for the run.
  const auto executor =
    std::make_shared<replica_executor>(env, replica_executor_options{.call_timeout = duration{}});
  int merged = 0;
  executor->run([&](std::uint32_t local) {
    (void)executor->merge(local, {.kind = "merge_call"}, nullptr, [&](const merge_values& x) {
      ++merged;
      return x;
    });
  });
  CHECK(merged == 1);
  CHECK(executor->close(after(env.clock.now(), std::chrono::seconds{10})));
}

TEST_CASE("replica_executor: a thread has lost no place that is another replica's") {
  const auto ports = make_production_ports();
  const auto transport = make_memory_transport(ports->waits());
  const environment env{ports->clock(),   ports->random(), ports->storage(),
                        ports->threads(), ports->waits(),  *transport};
  const auto executor =
    std::make_shared<replica_executor>(env, replica_executor_options{.replicas = 2});
  std::atomic<int> in_place{0};
  executor->run([&](std::uint32_t) {
    for (const std::uint32_t local : {0u, 1u})
      in_place += executor->why_not_in_place(local) ? 0 : 1;
  });
  CHECK(in_place == 4);
  CHECK_FALSE(executor->why_not_in_place(0));
  CHECK(executor->close(after(env.clock.now(), std::chrono::seconds{10})));
}
