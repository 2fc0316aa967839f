// Input that a thread makes ahead, in simulated processes. Goal: the thread is a fiber like any
// other: runs are a function of the seed, and whatever ends the process ends the thread.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include <troupe/sim/world.hpp>
#include <troupe/troupe.hpp>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

distribute_options ahead(std::uint32_t steps) {
  distribute_options out;
  out.input.prefetch_to_device = true;
  out.input.per_replica_buffer_size = steps;
  return out;
}

TEST_CASE("input: a simulated process makes steps ahead too, and the same ones by a seed") {
  const auto run = [](std::uint64_t seed) {
    auto seen = std::make_shared<std::vector<std::int64_t>>();
    auto refused = std::make_shared<std::string>();
    sim::world w{seed};
    w.coordinator([seen, refused](sim::process& p) {
      runtime rt{p.options(), p.host()};
      one_device_strategy s{rt, "cpu:0"};
      for (auto& batch : distribute_dataset(s, dataset::range(20).shuffle(20).batch(2), ahead(2)))
        for (const auto x : batch.piece(0).only().as<std::int64_t>())
          seen->push_back(x);
      auto dropped = distribute_dataset(s, dataset::range(20).batch(2), ahead(2)).iterate();
      (void)dropped.next();
      try {
        (void)distribute_dataset(strategy{}, dataset::range(2)).iterate();
      } catch (const error& e) {
        *refused = to_string(e.details());
      }
    });
    w.workers(1);
    w.servers(1);
    const auto r = w.run();
    CHECK_MESSAGE(r.ok(), r.text());
    CHECK(refused->find("wrong_state") != std::string::npos);
    CHECK(refused->find("simulated process") != std::string::npos);
    return *seen;
  };
  const auto seen = run(3);
  CHECK(seen.size() == 20);
  CHECK(run(3) == seen);
  CHECK(run(4) != seen);
}

TEST_CASE("input: a simulated process that crashes takes its thread along") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    sim::world w{seed};
    w.coordinator([](sim::process& p) {
      runtime rt{p.options(), p.host()};
      one_device_strategy s{rt, "cpu:0"};
      auto input = distribute_dataset(s, dataset::range(9).repeat().batch(2), ahead(2)).iterate();
      while (p.start() == 1) {
        (void)input.next();
        p.env().threads.spend(1ms);
      }
    });
    w.workers(1);
    w.servers(1);
    w.at(2s).crash(sim::chief);
    w.at(3s).restart(sim::chief);
    const auto r = w.run();
    CHECK_MESSAGE(r.ok(), r.text());
  }
}

} // namespace
