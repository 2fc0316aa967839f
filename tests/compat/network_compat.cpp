// Goal: what actors see of the simulated network is what they see of CAF's. Method: one script of
// actors on three processes, on simulated links and on CAF's network over loopback; every outcome
// must be the same.
#include <doctest/doctest.h>

#include <thread>

#include <caf/actor_system_config.hpp>

#include <troupe/core/caf_compat.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/messages/registration.hpp>
#include <troupe/sim/world.hpp>
#include <troupe/transport/memory_transport.hpp>

#include "network_script.hpp"

using namespace compat;
using namespace troupe;

namespace {

using outcomes = std::vector<std::pair<std::string, std::string>>;
using role = void (*)(const place&, script&);

/// A process with threads and sockets of its own.
void run_real(role what, script& shared) {
  auto ports = make_production_ports();
  auto transport = make_memory_transport(ports->waits());
  environment env{ports->clock(),   ports->random(), ports->storage(),
                  ports->threads(), ports->waits(),  *transport};
  caf::actor_system_config config;
  configure_system(config, init_messages);
  load_network(config);
  caf::actor_system system{config};
  what({.system = system, .env = env, .network = network_of(system), .host = "127.0.0.1"}, shared);
}

outcomes on_real_network() {
  script shared;
  std::vector<std::thread> all;
  for (role r : {run_alpha, run_beta, run_gamma})
    all.emplace_back([r, &shared] { run_real(r, shared); });
  for (auto& t : all)
    t.join();
  return shared.outcomes();
}

outcomes on_simulated_network(std::uint64_t seed) {
  script shared;
  sim::world w{seed};
  auto as = [&shared](role what) {
    return [&shared, what](sim::process& p) {
      what({.system = p.host().system,
            .env = p.env(),
            .network = p.host().network,
            .host = to_string(p.name())},
           shared);
    };
  };
  w.coordinator(as(run_alpha));
  w.workers(1, as(run_beta));
  w.servers(1, as(run_gamma));
  auto out = w.run();
  CHECK_MESSAGE(out.ok(), out.text());
  return shared.outcomes();
}

} // namespace

TEST_CASE("network: actors see the same on simulated links as on CAF's network") {
  auto real = on_real_network();
  CHECK(real.size() >= 30);
  for (const auto& [what, how] : real)
    CHECK_MESSAGE(how != "no end", what);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto simulated = on_simulated_network(seed);
    REQUIRE(simulated.size() == real.size());
    for (std::size_t i = 0; i < real.size(); ++i) {
      CHECK(simulated[i].first == real[i].first);
      CHECK_MESSAGE(simulated[i].second == real[i].second, real[i].first << ", seed " << seed);
    }
  }
}
