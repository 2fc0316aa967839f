// Goal: equal workers that come to nothing, because some are killed or stopped all the time, say
// so: whom they wait for, in what, and how their tries ended, instead of trying in silence. Method:
// 150 s of a storm, of which a worker that lives through it must not be silent for 11.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <troupe/sim/world.hpp>
#include <troupe/troupe.hpp>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

constexpr duration storm_length = 150s;
constexpr duration silence_max = 11s;

/// What was told, and when.
struct line {
  duration at{};
  std::string text{};
};

/// A storm over equal workers, seen from worker 0.
struct storm {
  explicit storm(std::uint32_t n) : workers{n} {}

  runtime_options options_of(process& p) const {
    auto out = p.options();
    out.task.reset();
    out.peer = p.name().task.index;
    for (std::uint32_t i = 0; i < workers; ++i)
      out.peers.push_back(to_string(sim::worker{i}) + ":4300");
    out.token = "simulated";
    out.cpu_devices = 1;
    return out;
  }

  /// One process: strategies one after the other, steps for as long as one lasts.
  void work(process& p) {
    const auto me = p.name().task.index;
    if (me != 0)
      p.env().threads.spend(start_takes);
    runtime rt{options_of(p), p.host()};
    while (at->now() < storm_length)
      try {
        multi_worker_mirrored_strategy s{
          rt, {.devices = std::vector<std::string>{"cpu:0"}, .on_wait = [&, me](const auto& text) {
                 if (me == 0)
                   lines.push_back({at->now(), text});
               }}};
        while (at->now() < storm_length) {
          s.run([env = p.env()](replica_context& ctx) {
            env.threads.spend(400ms);
            (void)ctx.all_reduce(reduce_op::sum, 1.0f);
          });
          if (me == 0) {
            ++steps;
            lines.push_back({at->now(), {}}); // a step is no silence
          }
        }
      } catch (const error& why) {
        last = why.what();
      }
  }

  void run(world& w) {
    at = &w;
    w.coordinator([this](process& p) {
      while (at->now() < storm_length)
        p.env().threads.spend(1s);
    });
    w.workers(workers, [this](process& p) { work(p); });
    const auto out = w.run();
    INFO(out.text());
    CHECK(out.violations.empty());
  }

  bool was_told(const std::string& text) const {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const line& each) { return each.text.find(text) != std::string::npos; });
  }
  /// The longest time without a line or a step.
  duration silence() const {
    duration out{};
    duration before{};
    for (const auto& each : lines) {
      out = std::max(out, each.at - before);
      before = each.at;
    }
    return std::max(out, storm_length - before);
  }

  const std::uint32_t workers;
  duration start_takes{};
  world* at = nullptr;
  std::vector<line> lines{};
  std::int64_t steps = 0;
  std::string last{};
};

world_options unchecked() {
  world_options out;
  out.seed = 7;
  out.checks = world_checks::none;
  return out;
}

} // namespace

TEST_CASE("equal workers under kills every 700 ms say what came of their tries") {
  storm all{4};
  all.start_takes = 1500ms; // so they are never all there
  world w{unchecked()};
  std::uint32_t next = 0;
  for (auto at = 700ms; at < storm_length; at += 700ms) {
    const sim::worker victim{1 + next++ % 3};
    w.at(at).crash(victim);
    w.at(at + 10ms).restart(victim);
  }
  all.run(w);
  CHECK(all.steps == 0);
  CHECK(all.silence() <= silence_max);
  CHECK(all.was_told("worker:0: rendezvous of all workers"));
  CHECK(all.was_told("waits for worker:"));
  CHECK(all.was_told("attempts in "));
}

TEST_CASE("equal workers of which some are stopped all the time say whom a step waits for") {
  storm all{3};
  world w{unchecked()};
  std::uint32_t next = 0;
  for (duration at = 3s; at < storm_length; at += 3s)
    w.at(at).pause(sim::worker{1 + next++ % 2}, 6s);
  all.run(w);
  CHECK(all.silence() <= silence_max);
  CHECK(all.was_told("worker:0: a step waits for worker:"));
  CHECK(all.was_told("in all_reduce sum f32[]"));
}
