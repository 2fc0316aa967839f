// Work that takes long because there is much of it, on slow links and slow machines: whoever makes
// progress is waited for, whoever makes none is named. All waits are longer than every limit.

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>

#include <troupe/sim/world.hpp>
#include <troupe/troupe.hpp>

#include "../support/failures.hpp"
#include "../support/tensors.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t numbers = 2 << 20; // 8 MiB of f32

struct cluster_parts {
  explicit cluster_parts(process& p)
    : rt{p.options(), p.host()},
      strategy{rt, {.partitioner = fixed_shards_partitioner{2}}},
      coordinator{strategy} {}
  runtime rt;
  parameter_server_strategy strategy;
  cluster_coordinator coordinator;
};

report run(program main, world_options options = {}, std::function<void(world&)> faults = {}) {
  options.seed = 11;
  world w{std::move(options)};
  w.coordinator(std::move(main));
  w.workers(2);
  w.servers(2);
  if (faults)
    faults(w);
  auto out = w.run();
  INFO(out.text());
  CHECK(out.ok());
  return out;
}

/// 8 MiB take 80 s.
world_options slow_links() {
  world_options out;
  out.bytes_per_second = 100'000;
  out.channel_bytes = 64 << 10; // packets overlap: a window of one bounds the rate
  return out;
}

tensor plus_one_step(worker_context& ctx, const variable& v, const tensor& x) {
  const auto now = ctx.read(v).to_tensor();
  CHECK(now.as<float>()[0] == 3.0f);
  auto out = x.clone();
  for (auto& each : out.mutable_as<float>())
    each += 1.0f;
  ctx.apply(v, x);
  return out;
}
TROUPE_FUNCTION(plus_one_step);

/// With a call of Troupe each second.
void long_step(worker_context& ctx, const variable& v) {
  for (int i = 0; i < 100; ++i) {
    ctx.host().env().threads.spend(1s);
    (void)ctx.read(v);
  }
}
TROUPE_FUNCTION(long_step);

/// A function of its own: nobody knows yet how long it may be silent.
void silent_step(worker_context& ctx) { ctx.host().env().threads.spend(100s); }
TROUPE_FUNCTION(silent_step);

std::int64_t making_step(worker_context& ctx) {
  return ctx.get_or_create({.name = "made in a step", .shape = {numbers}, .optimizer = adam{0.1f}})
    .shape()[0];
}
TROUPE_FUNCTION(making_step);

} // namespace

TEST_CASE("limits: transfers that take longer than a request may are waited for") {
  float last = 0;
  tensor got;
  const auto out = run(
    [&](process& p) {
      cluster_parts c{p};
      auto v = c.strategy.create_variable(
        {.name = "v", .initial = filled({numbers}, 3), .optimizer = sgd{1.0f}});
      got = c.coordinator.schedule(plus_one_step, v, filled({numbers}, 1)).fetch();
      c.coordinator.join();
      c.coordinator.save("checkpoints");
      v.assign(filled({numbers}, 9));
      c.coordinator.restore("checkpoints");
      last = v.read().at<float>(numbers - 1);
    },
    slow_links());
  CHECK(got.as<float>()[numbers - 1] == 2.0f);
  CHECK(last == 2.0f);
  CHECK(out.time > 4min); // the limits are 30 s
}

TEST_CASE("limits: a variable that servers need minutes for is made") {
  std::int64_t in_step = 0;
  std::optional<shape_t> made;
  const auto out = run(
    [&](process& p) {
      cluster_parts c{p};
      made = c.strategy.create_variable({.name = "v", .shape = {numbers}, .optimizer = adam{0.1f}})
               .shape();
      in_step = c.coordinator.schedule(making_step).fetch();
    },
    {}, [](world& w) { w.at(0ms).slow(server{1}, 5'000); });
  CHECK(made == shape_t{numbers});
  CHECK(in_step == numbers);
  CHECK(out.time > 2min);
}

TEST_CASE("limits: a variable that is given up is nowhere, also where it was being made") {
  failure why;
  std::uint64_t left = 1;
  std::size_t there = 0;
  run(
    [&](process& p) {
      cluster_parts c{p};
      why = failure_of([&] {
        c.strategy.create_variable({.name = "v", .shape = {numbers}, .optimizer = adam{0.1f}});
      });
      p.env().threads.spend(90s); // by now the slow one has made, or dropped, what it had begun
      const auto servers = c.coordinator.statistics().servers;
      there = servers.size();
      left = 0;
      for (const auto& s : servers)
        left += s.bytes;
      c.coordinator.save("checkpoints"); // it has no such variable
    },
    {},
    [](world& w) {
      w.at(0ms).slow(server{0}, 5'000); // still at work when the other one is lost
      w.at(10s).crash(server{1});
      w.at(12s).restart(server{1});
    });
  CHECK(why.code == errc::unavailable);
  CHECK(says(why, "ps:1"));
  CHECK(there == 2);
  CHECK(left == 0);
}

TEST_CASE("limits: a save waits for a step that works, and names one that does not") {
  failure silent;
  std::string saved;
  run([&](process& p) {
    cluster_parts c{p};
    auto v = c.strategy.create_variable({.name = "v", .shape = {4}});
    c.coordinator.schedule(long_step, v);
    p.env().threads.spend(1s);
    saved = c.coordinator.save("checkpoints");
    c.coordinator.schedule(silent_step);
    p.env().threads.spend(1s);
    silent = failure_of([&] { c.coordinator.save("checkpoints"); });
    c.coordinator.join();
  });
  CHECK_FALSE(saved.empty());
  CHECK(silent.code == errc::deadline);
  CHECK(says(silent, "worker:"));
}

TEST_CASE("limits: a server that is stopped in the middle of a transfer is named") {
  failure why;
  run(
    [&](process& p) {
      cluster_parts c{p};
      auto v = c.strategy.create_variable({.name = "v", .shape = {numbers}});
      why = failure_of([&] { (void)v.read(); });
    },
    slow_links(), [](world& w) { w.at(10s).pause(server{1}, 10min); });
  CHECK(why.code != errc::none);
  CHECK(says(why, "ps:1"));
}
