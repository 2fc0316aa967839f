// User code in the simulator: steps that throw, hang, kill their worker, move large values;
// programs that save and restore; every kind of schedule.

#include <doctest/doctest.h>

#include <set>
#include <string>

#include <troupe/sim/world.hpp>
#include <troupe/troupe.hpp>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

void throwing_step(worker_context& ctx) {
  ctx.compute(1ms);
  throw std::runtime_error("on purpose");
}
TROUPE_FUNCTION(throwing_step);

/// Hangs in its first attempt, deaf to cancels.
std::int64_t hanging_step(worker_context& ctx) {
  while (value_of(ctx.attempt()) == 1)
    ctx.host().env().threads.spend(1s);
  return 7;
}
TROUPE_FUNCTION(hanging_step);

/// Takes its worker with it in its first two attempts.
std::int64_t deadly_step(worker_context& ctx) {
  ctx.compute(1ms);
  if (value_of(ctx.attempt()) <= 2)
    ctx.host().env().threads.leave_now(9);
  return value_of(ctx.attempt());
}
TROUPE_FUNCTION(deadly_step);

tensor big_step(worker_context&, const tensor& x) {
  auto out = x.clone();
  for (auto& v : out.mutable_as<float>())
    v += 1.0f;
  return out;
}
TROUPE_FUNCTION(big_step);

void add_step(worker_context& ctx, const variable& to) {
  ctx.compute(500us);
  to.assign_add(tensor::scalar(1.0f));
}
TROUPE_FUNCTION(add_step);

struct cluster_parts {
  explicit cluster_parts(process& p)
    : rt{p.options(), p.host()}, strategy{rt}, coordinator{strategy} {}
  runtime rt;
  parameter_server_strategy strategy;
  cluster_coordinator coordinator;
};

/// Runs `main` as the coordinator of 3 workers and 2 servers, twice, which must agree.
struct twice {
  explicit twice(program main, std::function<void(world&)> faults = {}) {
    std::uint64_t hashes[2]{};
    for (auto& h : hashes) {
      world w{7};
      w.coordinator(main);
      w.workers(3);
      w.servers(2);
      if (faults)
        faults(w);
      out = w.run();
      h = out.hash;
    }
    CHECK(hashes[0] == hashes[1]);
    INFO(out.text());
    CHECK(out.ok());
  }
  const exit_record& end_of(node_name n) const {
    for (const auto& e : out.exits)
      if (e.node == n)
        return e;
    FAIL("no such exit");
    return out.exits.front();
  }
  report out{};
};

} // namespace

TEST_CASE("steps: what a step throws is raised by join") {
  failure why;
  twice run{[&](process& p) {
    cluster_parts c{p};
    for (int i = 0; i < 20; ++i)
      c.coordinator.schedule(throwing_step);
    try {
      c.coordinator.join();
    } catch (const error& e) {
      why = e.details();
    }
  }};
  CHECK(why.code == errc::user_code);
  CHECK(why.text.find("on purpose") != std::string::npos);
}

TEST_CASE("steps: a hung step is given up, its worker leaves and the closure runs elsewhere") {
  std::int64_t got = 0;
  twice run{[&](process& p) {
    cluster_parts c{p};
    got = c.coordinator.schedule({.deadline = 3s}, hanging_step).fetch();
  }};
  CHECK(got == 7);
  int left = 0;
  for (const auto& e : run.out.exits)
    if (e.how == exit_record::left) {
      ++left;
      CHECK(e.code == 75);
    }
  CHECK(left == 1);
  CHECK(run.out.marks.at("worker.hung_step_given_up") == 1);
}

TEST_CASE("steps: a step that kills its worker runs again on another") {
  std::int64_t got = 0;
  twice run{[&](process& p) {
    cluster_parts c{p};
    got = c.coordinator.schedule(deadly_step).fetch();
  }};
  CHECK(got == 3);
  CHECK(run.out.event_counts.at("sim.left") == 2);
}

TEST_CASE("steps: large arguments and results travel the data plane, also over a reset") {
  float sum = 0;
  twice run{[&](process& p) {
              cluster_parts c{p};
              sum = 0;
              tensor x{dtype::f32, {200'000}};
              for (auto& v : x.mutable_as<float>())
                v = 1;
              std::vector<remote_value<tensor>> all;
              for (int i = 0; i < 12; ++i)
                all.push_back(c.coordinator.schedule(big_step, x));
              for (auto& r : all)
                sum += r.fetch().at<float>(199'999);
            },
            [](world& w) {
              for (std::uint32_t i = 0; i < 3; ++i)
                w.at(8ms).reset(worker{i}, chief);
            }};
  CHECK(sum == 24);
  CHECK(run.out.bytes > 20'000'000);
  CHECK(run.out.actions.at(action_kind::reset) == 3);
}

TEST_CASE("steps: a checkpoint on the simulated disk outlives the coordinator") {
  std::vector<float> seen;
  twice run{[&](process& p) {
              if (p.start() == 1)
                seen.clear();
              cluster_parts c{p};
              auto v = c.strategy.create_variable({.name = "v", .shape = {}});
              if (p.start() > 1)
                c.coordinator.restore("checkpoints");
              seen.push_back(v.read().item<float>());
              for (int i = 0; i < 10; ++i)
                c.coordinator.schedule(add_step, v);
              c.coordinator.join();
              c.coordinator.save("checkpoints");
              seen.push_back(v.read().item<float>());
              if (p.start() == 1)
                p.env().threads.spend(10s);
            },
            [](world& w) {
              w.at(5s).crash(chief);
              w.at(6s).restart(chief);
            }};
  CHECK(seen == std::vector<float>{0, 10, 10, 20});
}

TEST_CASE("steps: a full disk is a clear error, and the cluster goes on") {
  failure why;
  float after = 0;
  twice run{[&](process& p) {
              cluster_parts c{p};
              auto v = c.strategy.create_variable({.name = "v", .shape = {}});
              p.env().threads.spend(1s);
              try {
                c.coordinator.save("checkpoints");
              } catch (const error& e) {
                why = e.details();
              }
              c.coordinator.schedule(add_step, v);
              c.coordinator.join();
              c.coordinator.save("checkpoints");
              after = v.read().item<float>();
            },
            [](world& w) { w.at(500ms).storage(action_kind::no_space, chief); }};
  CHECK(why.code == errc::no_space);
  CHECK(after == 1);
}

TEST_CASE("schedules: fifo, random, pct and a replay of recorded picks give runs that end well") {
  auto run = [](std::unique_ptr<schedule> order, std::vector<std::uint32_t>* picks) {
    world_options options;
    options.seed = 3;
    options.order = std::move(order);
    options.record_picks = picks != nullptr;
    world w{std::move(options)};
    w.coordinator([](process& p) {
      cluster_parts c{p};
      auto v = c.strategy.create_variable({.name = "v", .shape = {}});
      for (int i = 0; i < 60; ++i)
        c.coordinator.schedule(add_step, v);
      c.coordinator.join();
      CHECK(v.read().item<float>() == 60);
    });
    w.workers(3);
    w.servers(2);
    w.at(10ms).crash(worker{2});
    auto out = w.run();
    CHECK(out.ok());
    if (picks)
      *picks = w.picks();
    return out.hash;
  };
  std::vector<std::uint32_t> picks;
  auto random = run(make_random_schedule(3), &picks);
  CHECK(picks.size() > 200);
  CHECK(run(make_replay_schedule(picks), nullptr) == random);
  CHECK(run(make_fifo_schedule(), nullptr) != random);
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    run(make_pct_schedule(seed, 3, 1'000), nullptr);
}

TEST_CASE("bounds: a step and a time limit end a run, and the world still goes cleanly") {
  for (std::uint64_t steps = 50; steps < 4'000; steps += 61) {
    world_options options;
    options.steps_max = steps;
    world w{std::move(options)};
    w.coordinator([](process& p) {
      cluster_parts c{p};
      auto v = c.strategy.create_variable({.name = "v", .shape = {}});
      for (int i = 0; i < 60; ++i)
        c.coordinator.schedule(add_step, v);
      c.coordinator.join();
    });
    w.workers(3);
    w.servers(2);
    auto how = w.run().how;
    CHECK((how == outcome::step_limit || how == outcome::ended));
  }
}
