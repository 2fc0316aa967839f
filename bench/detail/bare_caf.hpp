#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "detail/bench.hpp"

/// The peers of dispatch.cpp: CAF alone, with the smallest message that it has.
namespace bench::bare_caf {

/// Counts numbers and tells how many came since it was last asked.
inline caf::behavior sink(caf::event_based_actor*) {
  auto seen = std::make_shared<std::uint64_t>(0);
  return {[seen](std::uint64_t) { ++*seen; },
          [seen](std::int32_t) { return std::exchange(*seen, 0); }};
}

/// An actor system with a scheduler policy; CAF's own default is "stealing".
class host {
public:
  host(const std::string& policy, bool network, std::size_t threads = 2) {
    config_.set("scheduler.policy", caf::atom_from_string(policy));
    config_.set("scheduler.max-threads", threads);
    if (network)
      config_.load<caf::io::middleman>();
    system_ = std::make_unique<caf::actor_system>(config_);
  }
  caf::actor_system& system() { return *system_; }

private:
  caf::actor_system_config config_{};
  std::unique_ptr<caf::actor_system> system_{};
};

/// One coordinator that keeps `in_flight` requests open at each of its workers.
struct coordinator {
  caf::event_based_actor* self = nullptr;
  std::size_t to_send = 0;
  std::size_t to_end = 0;
  std::promise<void>* done = nullptr;

  static void next(const std::shared_ptr<coordinator>& at, const caf::actor& worker) {
    if (at->to_send == 0)
      return;
    --at->to_send;
    at->self->request(worker, caf::infinite, std::int32_t{1}).then([at, worker](std::uint64_t) {
      if (--at->to_end == 0)
        at->done->set_value();
      next(at, worker);
    });
  }
};

/// Requests with their responses a second, from a new coordinator to `workers`.
inline double requests_per_s(caf::actor_system& system, const std::vector<caf::actor>& workers,
                             std::size_t requests, std::size_t in_flight) {
  std::promise<void> done;
  const auto begin = steady::now();
  system.spawn([&](caf::event_based_actor* self) {
    auto at = std::make_shared<coordinator>(coordinator{self, requests, requests, &done});
    for (const auto& worker : workers)
      for (std::size_t i = 0; i < in_flight; ++i)
        coordinator::next(at, worker);
  });
  done.get_future().wait();
  return static_cast<double>(requests) / seconds_since(begin);
}

/// Microseconds of single requests from a thread outside.
inline std::vector<double> request_us(caf::actor_system& system, const caf::actor& to,
                                      std::size_t requests) {
  std::vector<double> out;
  out.reserve(requests);
  caf::scoped_actor self{system};
  for (std::size_t i = 0; i < requests; ++i) {
    const auto begin = steady::now();
    self->request(to, std::chrono::minutes{1}, std::int32_t{1})
      .receive([](std::uint64_t) {}, [](const caf::error&) {});
    out.push_back(1e6 * seconds_since(begin));
  }
  return out;
}

/// One-way messages a second into another process, as fast as they go. 0 when they did not arrive.
inline double messages_per_s(caf::actor_system& system, const caf::actor& to,
                             std::size_t messages) {
  caf::scoped_actor self{system};
  std::uint64_t arrived = 0;
  const auto begin = steady::now();
  for (std::size_t i = 0; i < messages; ++i)
    self->send(to, std::uint64_t{1});
  self->request(to, std::chrono::minutes{1}, std::int32_t{0})
    .receive([&](std::uint64_t n) { arrived = n; }, [](const caf::error&) {});
  const double took = seconds_since(begin);
  return arrived == messages ? static_cast<double>(messages) / took : 0;
}

} // namespace bench::bare_caf
