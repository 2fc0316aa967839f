// What becomes of attempts that are lost, of closures that lose their workers, and of calls whose
// way to a living server is cut: small worlds by hand, one a fault that users met.

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <troupe/core/execution_context.hpp>
#include <troupe/sim/world.hpp>
#include <troupe/troupe.hpp>

#include "../support/failures.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace troupe::sim;
using namespace std::chrono_literals;

namespace {

constexpr int killed = 9;

/// How often things happened, over all processes of a world: set anew by each test.
struct tally {
  int builds = 0;
  int runs = 0;
};
tally seen;

/// Takes its worker with it in its first six tries.
int deadly_build() {
  if (++seen.builds <= 6)
    current_context().step->env().threads.leave_now(killed);
  return 5;
}

std::int64_t innocent_step(worker_context&, per_worker_value<int>& built) {
  ++seen.runs;
  return built.value;
}
TROUPE_FUNCTION(innocent_step);

void crashing_step(worker_context& ctx) {
  ++seen.runs;
  ctx.host().env().threads.leave_now(killed);
}
TROUPE_FUNCTION(crashing_step);

void endless_step(worker_context& ctx) {
  ++seen.runs;
  for (;;)
    ctx.host().env().threads.spend(1s);
}
TROUPE_FUNCTION(endless_step);

/// As crashing_step, behind others that are well and of no length.
void crashing_among_many(worker_context& ctx, bool crash) {
  ctx.compute(20us);
  if (crash)
    ctx.host().env().threads.leave_now(killed);
}
TROUPE_FUNCTION(crashing_among_many);

void count_step(worker_context&, const variable& to) {
  to.assign_add(tensor::vector<float>({1, 1}));
}
TROUPE_FUNCTION(count_step);

/// Asks its server most of the time.
void chatty_step(worker_context&, const variable& to) {
  for (int i = 0; i < 5; ++i)
    (void)to.read();
  to.assign_add(tensor::vector<float>({1, 1}));
}
TROUPE_FUNCTION(chatty_step);

/// A worker whose process ends is started again a second later.
struct restarter final : observer {
  explicit restarter(world& w) : world_{w} { w.watch(*this); }
  void on_event(const observed& what) override {
    if (what.id == "sim.left" && what.node.task.job == job_kind::worker)
      world_.call_at(world_.now() + 1s, [this, who = what.node] {
        world_.act({.kind = action_kind::restart, .target = who});
      });
  }

private:
  world& world_;
};

struct cluster_parts {
  explicit cluster_parts(process& p, parameter_server_options variables = {})
    : rt{p.options(), p.host()}, strategy{rt, std::move(variables)}, coordinator{strategy} {}
  runtime rt;
  parameter_server_strategy strategy;
  cluster_coordinator coordinator;
};

/// A world with notices and restarts.
struct small_world {
  explicit small_world(std::uint32_t workers, std::uint32_t servers = 1, std::uint64_t seed = 7)
    : w{seed}, again{w} {
    seen = {};
    w.settings().on_notice = [this](const std::string& line) { notices.push_back(line); };
    w.workers(workers);
    w.servers(servers);
  }
  report run(program main) {
    w.coordinator(std::move(main));
    auto out = w.run();
    CHECK_MESSAGE(out.ok(), out.text());
    return out;
  }
  std::vector<std::string> of(const std::string& what) const {
    std::vector<std::string> out;
    std::copy_if(notices.begin(), notices.end(), std::back_inserter(out),
                 [&](const std::string& line) { return says(line, what); });
    return out;
  }
  std::vector<std::string> notices{};
  world w;
  restarter again;
};

} // namespace

// --- innocent closures are poisoned

TEST_CASE(
  "innocent closures: six deaths of a worker that builds a resource poison no closure that "
  "waits for it") {
  small_world s{1};
  std::int64_t got = 0;
  s.run([&](process& p) {
    cluster_parts c{p};
    auto built = c.coordinator.create_per_worker_value([] { return deadly_build(); });
    got = c.coordinator.schedule(innocent_step, built).fetch();
  });
  CHECK(got == 5);
  CHECK(seen.builds == 7);
  CHECK(seen.runs == 1);
}

TEST_CASE(
  "innocent closures: the one that takes its workers is poisoned, those beside it are not") {
  small_world s{1};
  failure why;
  std::size_t well = 0;
  s.run([&](process& p) {
    cluster_parts c{p};
    for (int i = 0; i < 50; ++i) // so that it is known to be of no length
      c.coordinator.schedule(crashing_among_many, false);
    c.coordinator.join();
    std::vector<remote_value<void>> others;
    for (int i = 0; i < 10; ++i)
      others.push_back(c.coordinator.schedule(crashing_among_many, false));
    auto bad = c.coordinator.schedule(crashing_among_many, true);
    for (int i = 0; i < 10; ++i)
      others.push_back(c.coordinator.schedule(crashing_among_many, false));
    why = failure_of([&] { bad.fetch(); });
    for (auto& other : others)
      well += failure_of([&] { other.fetch(); }).code != errc::poisoned;
    (void)failure_of([&] { c.coordinator.join(); });
  });
  CHECK(why.code == errc::poisoned);
  CHECK(says(why.text, "lost 5 workers"));
  CHECK(well == 20);
}

// --- a step that takes its workers with it

TEST_CASE(
  "a step that crashes its worker: the first time names function, attempt and worker, and "
  "how many are left") {
  small_world s{2};
  failure why;
  auto out = s.run([&](process& p) {
    cluster_parts c{p};
    why = failure_of([&] { c.coordinator.schedule(crashing_step).fetch(); });
    (void)failure_of([&] { c.coordinator.join(); });
  });
  CHECK(seen.runs == 5);
  CHECK(out.event_counts.at("sim.left") == 5);
  CHECK(why.code == errc::poisoned);
  CHECK(says(why.text, "closure 1:1 of crashing_step lost 5 workers while it ran: worker:"));
  auto lines = s.of("crashing_step");
  REQUIRE(!lines.empty());
  CHECK(says(lines[0], "closure 1:1 of crashing_step: attempt 1, on worker:"));
  CHECK(says(lines[0], "was lost with that worker ("));
  CHECK(says(lines[0], "fails as poisoned if this happens 4 more times"));
}

TEST_CASE(
  "a step past its deadline: both the chief and the worker say which, and poisoned names "
  "the deadline") {
  small_world s{2};
  failure why;
  auto out = s.run([&](process& p) {
    cluster_parts c{p};
    why = failure_of([&] {
      c.coordinator.schedule(closure_options{.deadline = 500ms, .retries = 3}, endless_step)
        .fetch();
    });
    (void)failure_of([&] { c.coordinator.join(); });
  });
  CHECK(seen.runs == 3);
  CHECK(why.code == errc::poisoned);
  CHECK(says(why.text, "lost 3 workers while it ran: worker:"));
  CHECK(says(why.text, "(exceeded its deadline of 500 ms)"));
  int left = 0;
  for (const auto& e : out.exits)
    left += e.how == exit_record::left && e.code == 75;
  CHECK(left == 3);
  auto of_workers = s.of("exits with code 75");
  REQUIRE(of_workers.size() == 3); // each, before it went
  CHECK(says(of_workers[0],
             "step 'endless_step', closure 1:1, attempt 1 exceeded its deadline of 500 "
             "ms"));
  auto of_chief = s.of("more time");
  REQUIRE(!of_chief.empty());
  CHECK(says(of_chief[0], "closure 1:1 of endless_step: attempt 1, on worker:"));
  CHECK(says(of_chief[0], "was lost: exceeded its deadline of 500 ms"));
  CHECK(says(of_chief[0], "if this happens 2 more times"));
}

// --- one reset of a channel ends the run

TEST_CASE(
  "one reset of a channel: the program's own calls are tried again, each with its effect "
  "once") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    small_world s{1, 2, seed};
    for (int i = 1; i <= 40; ++i)
      s.w.at(i * 25ms).reset(chief, server{static_cast<std::uint32_t>(i % 2)}, reset_channels);
    float total = 0;
    auto out = s.run([&](process& p) {
      cluster_parts c{p};
      auto v = c.strategy.create_variable({.name = "v", .shape = {2}});
      for (int i = 0; i < 200; ++i) {
        v.assign_add(tensor::vector<float>({1, 1}));
        total = v.read().at<float>(1);
        auto row = v.gather(tensor::vector<std::int64_t>({0})).at<float>(0);
        CHECK(row == total);
        p.env().threads.spend(4ms);
      }
    });
    CHECK(total == 200);
    CHECK(out.actions.at(action_kind::reset) > 0);
  }
}

TEST_CASE(
  "one reset of a channel: all channels of many threads to one living server are one hiccup") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    small_world s{4, 1, seed};
    s.w.settings().threads_per_worker = 4;
    for (auto when : {100ms, 250ms})
      for (std::uint32_t i = 0; i < 4; ++i)
        s.w.at(when).reset(worker{i}, server{0});
    float total = 0;
    s.run([&](process& p) {
      cluster_parts c{p};
      auto v = c.strategy.create_variable({.name = "v", .shape = {2}});
      for (int i = 0; i < 3'000; ++i)
        c.coordinator.schedule(chatty_step, v);
      c.coordinator.join(); // throws what ended the run
      total = v.read().at<float>(0);
    });
    CHECK(total == 3'000);
  }
}

// --- late answers that end another request

TEST_CASE("late answers: a snapshot whose save is over completes no other save") {
  // The second server hears of the first save late; its answer comes while the second save waits
  // for it, and what it had taken in between has another closure than the first server's.
  small_world s{1, 2};
  s.w.settings().quiesce_ms_max = 300;
  s.w.at(2s).stall(chief, server{1}, 600ms);
  failure first;
  std::vector<float> restored;
  auto out = s.run([&](process& p) {
    cluster_parts c{p, {.partitioner = fixed_shards_partitioner{2}}};
    auto v = c.strategy.create_variable({.name = "v", .shape = {2}});
    p.env().threads.spend(2010ms - s.w.now());
    first = failure_of([&] { c.coordinator.save("first"); });
    c.coordinator.schedule(count_step, v).fetch();
    for (int tries = 0; tries < 20; ++tries)
      if (failure_of([&] { c.coordinator.save("second"); }).code == errc::none)
        break;
    v.assign(tensor::vector<float>({-1, -1}));
    c.coordinator.restore("second");
    auto back = v.read();
    restored.assign(back.as<float>().begin(), back.as<float>().end());
  });
  CHECK(first.code == errc::deadline);
  CHECK(says(first.text, "ps:1"));
  CHECK(restored == std::vector<float>{1, 1});
  CHECK(out.marks.contains("coordinator.late_cut_dropped"));
}

TEST_CASE("late answers: a save that its caller gave up does not stand in the way of the next") {
  small_world s{1, 2};
  s.w.at(2s).stall(chief, server{1}, 600ms);
  failure first;
  bool second = false;
  s.run([&](process& p) {
    cluster_parts c{p, {.partitioner = fixed_shards_partitioner{2}}};
    auto v = c.strategy.create_variable({.name = "v", .shape = {2}});
    p.env().threads.spend(2010ms - s.w.now());
    first = failure_of([&] { c.coordinator.save("one", {.deadline = 50ms}); });
    c.coordinator.save("two");
    second = true;
  });
  CHECK(first.code == errc::deadline);
  CHECK(second);
}
