#include <doctest/doctest.h>

#include <troupe/strategies/preemption_core.hpp>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

// The protocol is checked in a world of workers, messages in flight and one event at a time: at
// random with four workers, and through every order of events with few calls.

using namespace troupe;
using namespace std::chrono_literals;

namespace {

using kind = preemption_message_kind;
using action = preemption_action;
using steps = std::vector<std::uint64_t>;
using numbers = std::vector<std::uint32_t>;

time_point at(duration since_start) { return time_point{} + since_start; }

// One call of `length`; the action must be `run`.
void run_call(preemption_core& core, duration begin, duration length) {
  REQUIRE(core.before_call(at(begin)) == action::run);
  core.call_finished(at(begin + length));
}

std::string text_of(const preemption_outgoing& out) {
  static const char* names[] = {"proposal", "acknowledgement", "decision"};
  const auto& m = out.message;
  return std::string{names[static_cast<int>(m.kind)]} + " " + std::to_string(m.round) + " from "
         + std::to_string(m.from) + " to " + std::to_string(out.to) + ": " + std::to_string(m.step);
}

struct world {
  std::vector<preemption_core> cores{};
  std::vector<preemption_outgoing> wire{};
  std::vector<steps> saves{};
  std::vector<steps> proposals{}; // by round
  std::vector<bool> saving{};
  std::vector<bool> left{};
  duration now{};
  bool in_lockstep = true; // every call has a collective

  world(std::uint32_t n, preemption_options options, bool lockstep, std::uint64_t restored = 0)
    : saves(n), proposals(2), saving(n), left(n), in_lockstep{lockstep} {
    for (std::uint32_t w = 0; w < n; ++w)
      cores.emplace_back(options, w, n, restored);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(cores.size()); }
  bool is_running(std::uint32_t w) const {
    return cores[w].status().find(", running") != std::string::npos;
  }
  bool all_left() const { return std::find(left.begin(), left.end(), false) == left.end(); }

  void collect(std::uint32_t w) {
    for (auto& out : cores[w].take_outgoing()) {
      const auto& m = out.message;
      if (m.kind == kind::proposal
          && (wire.empty() || wire.back().message != m)) // once for all receivers
        proposals[m.round].push_back(m.step);
      wire.push_back(out);
    }
  }

  void poll(std::uint32_t w) {
    if (cores[w].before_call(at(now)) == action::save)
      saving[w] = true;
    collect(w);
  }
  void finish_save(std::uint32_t w) {
    saving[w] = false;
    saves[w].push_back(cores[w].total_run_calls());
    cores[w].saved();
    left[w] = cores[w].exits().has_value();
  }
  bool can_finish_call(std::uint32_t w) const {
    for (std::uint32_t other = 0; in_lockstep && other < size(); ++other)
      if (cores[other].total_run_calls() + (is_running(other) ? 1 : 0)
          < cores[w].total_run_calls() + 1)
        return false;
    return true;
  }
  void finish_call(std::uint32_t w) { cores[w].call_finished(at(now)); }
  // A duplicate stays on the wire.
  void deliver(std::size_t i, bool once = true) {
    const auto out = wire[i];
    if (once)
      wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(i));
    const auto taken = cores[out.to].on_message(out.message);
    CAPTURE(text_of(out));
    REQUIRE(taken);
    collect(out.to);
  }

  // Events that can happen now; `calls_max` keeps a search finite.
  std::vector<std::function<void(world&)>> events(std::uint64_t calls_max) const {
    std::vector<std::function<void(world&)>> out;
    for (std::size_t i = 0; i < wire.size(); ++i)
      out.push_back([i](world& x) { x.deliver(i); });
    for (std::uint32_t w = 0; w < size(); ++w) {
      if (left[w])
        continue;
      if (saving[w])
        out.push_back([w](world& x) { x.finish_save(w); });
      else if (!is_running(w))
        out.push_back([w](world& x) { x.poll(w); });
      else if (can_finish_call(w) && cores[w].total_run_calls() < calls_max)
        out.push_back([w](world& x) { x.finish_call(w); });
    }
    return out;
  }

  std::string key() const {
    std::string out;
    for (std::uint32_t w = 0; w < size(); ++w)
      out += cores[w].status() + (saving[w] ? " s" : "") + (left[w] ? " l" : "") + "\n";
    std::multiset<std::string> in_flight;
    for (const auto& message : wire)
      in_flight.insert(text_of(message));
    for (const auto& text : in_flight)
      out += text + "\n";
    return out;
  }

  // Nobody ever disagrees, at any time.
  void check_agreement() const {
    for (std::uint32_t round = 0; round < 2; ++round) {
      std::set<std::uint64_t> agreed;
      for (const auto& core : cores)
        if (auto step = core.agreed_step(round))
          agreed.insert(*step);
      REQUIRE(agreed.size() <= 1);
    }
  }
};

// A random order of everything, notices to `noticed` at random moments included.
struct random_run {
  std::mt19937 rng;
  world x;
  numbers noticed;

  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(rng);
  }

  void notice(std::size_t i) {
    x.cores[noticed[i]].on_notice(at(x.now));
    noticed.erase(noticed.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void go() {
    for (int event = 0; !x.all_left(); ++event) {
      REQUIRE(event < 20'000); // nobody holds for ever
      x.now += std::chrono::milliseconds{below(3)};
      if (!noticed.empty() && below(40) == 0) {
        notice(below(noticed.size()));
        continue;
      }
      if (!x.wire.empty() && below(20) == 0) {
        x.deliver(below(x.wire.size()), false);
        continue;
      }
      const auto events = x.events(1'000'000);
      REQUIRE_FALSE(events.empty());
      events[below(events.size())](x);
      x.check_agreement();
    }
    while (!x.wire.empty()) // what arrives late changes nothing
      x.deliver(x.wire.size() - 1);
  }
};

numbers workers_in(unsigned mask) {
  numbers out;
  for (std::uint32_t w = 0; w < 4; ++w)
    if ((mask >> w & 1u) != 0)
      out.push_back(w);
  return out;
}

// Every order of events from a state on. States are told apart by all that a decision depends on
// but the time, which only grows; a notice's grace of 1 ns is over by the next event.
struct search {
  std::set<std::string> seen{};
  std::uint64_t calls_max = 0;
  int ends = 0;

  static std::string key(const world& x, const numbers& noticed) {
    auto out = x.key();
    for (auto w : noticed)
      out += std::to_string(w) + "!";
    return out;
  }

  // Whether the bound on calls is all that stops a worker.
  bool is_cut_off(const world& x) const {
    for (std::uint32_t w = 0; w < x.size(); ++w)
      if (x.is_running(w) && x.cores[w].total_run_calls() >= calls_max)
        return true;
    return false;
  }

  void visit(const world& x, const numbers& noticed) {
    const auto here = key(x, noticed);
    if (!seen.insert(here).second)
      return;
    x.check_agreement();
    for (std::size_t i = 0; i < noticed.size(); ++i) {
      auto next = x;
      auto rest = noticed;
      next.cores[noticed[i]].on_notice(at(x.now));
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      visit(next, rest);
    }
    bool moves = !noticed.empty();
    for (const auto& event : x.events(calls_max)) {
      auto next = x;
      next.now += 1us;
      event(next);
      moves = moves || key(next, noticed) != here;
      visit(next, noticed);
    }
    if (moves)
      return;
    REQUIRE((x.all_left() || is_cut_off(x))); // nobody holds for ever
    if (!x.all_left())
      return;
    ++ends;
    for (const auto& saves : x.saves)
      REQUIRE(saves == x.saves[0]);
  }
};

} // namespace

TEST_CASE("SYNC-PRE-4 calls count over all restarts") {
  preemption_core core{{}, 0, 1, 30};
  CHECK(core.total_run_calls() == 30);
  run_call(core, 0ms, 5ms);
  run_call(core, 5ms, 15ms);
  CHECK(core.total_run_calls() == 32);
  CHECK(core.average_call() == 10ms);
  CHECK_FALSE(core.exits());
}

TEST_CASE("SYNC-PRE-6 the notified worker publishes its counter + 1 and all save there") {
  preemption_core first{{}, 1, 3};
  preemption_core second{{}, 0, 3};
  preemption_core third{{}, 2, 3};
  for (auto* core : {&first, &second, &third})
    run_call(*core, 0ms, 1ms);
  REQUIRE(second.before_call(at(1ms)) == action::run);
  CHECK(first.on_notice(at(1ms)));
  REQUIRE(first.before_call(at(2ms)) == action::hold);
  const auto proposals = first.take_outgoing();
  REQUIRE(proposals.size() == 2);
  CHECK(text_of(proposals[0]) == "proposal 0 from 1 to 0: 2");
  CHECK(text_of(proposals[1]) == "proposal 0 from 1 to 2: 2");
  CHECK(first.waiting_for() == numbers{0, 2});
  CHECK(first.status() == "worker 1, 1 calls, noticed; round 0 proposes 2, waits for 0 2");

  REQUIRE(second.on_message(proposals[0].message));
  REQUIRE(third.on_message(proposals[1].message));
  CHECK(second.status() == "worker 0, 1 calls, running; round 0 follows 1 up to 2");
  REQUIRE(first.on_message(second.take_outgoing().at(0).message));
  CHECK(first.before_call(at(3ms)) == action::hold); // not all have acknowledged
  REQUIRE(first.on_message(third.take_outgoing().at(0).message));
  const auto decisions = first.take_outgoing();
  REQUIRE(decisions.size() == 2);
  CHECK(text_of(decisions[0]) == "decision 0 from 1 to 0: 2");

  second.call_finished(at(4ms)); // at step 2, not told yet that all save there
  CHECK(second.before_call(at(4ms)) == action::hold);
  CHECK(second.waiting_for() == numbers{1});
  REQUIRE(second.on_message(decisions[0].message));
  CHECK(second.waiting_for().empty());
  CHECK(second.before_call(at(5ms)) == action::save);
  REQUIRE(third.on_message(decisions[1].message));
  run_call(third, 5ms, 1ms);
  run_call(first, 5ms, 1ms);
  CHECK(third.before_call(at(6ms)) == action::save);
  CHECK(first.before_call(at(6ms)) == action::save);
  for (auto* core : {&first, &second, &third}) {
    CHECK(core->agreed_step(0) == 2);
    CHECK_FALSE(core->agreed_step(1));
    CHECK(core->total_run_calls() == 2);
    CHECK_FALSE(core->exits());
    core->saved();
    CHECK(core->exits() == 42);
  }
}

TEST_CASE("SYNC-PRE-6 four workers in random orders save the step after the notice") {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    random_run run{std::mt19937{seed}, world{4, {}, true, seed % 3}, workers_in(1 + seed % 15)};
    run.go();
    for (const auto& saves : run.x.saves)
      REQUIRE(saves == run.x.saves[0]);
    REQUIRE(run.x.saves[0].size() == 1);
    REQUIRE(run.x.proposals[0].size() >= 1);
    for (auto proposed : run.x.proposals[0]) // concurrent ones ask for the same step
      REQUIRE(proposed == run.x.saves[0][0]);
    for (const auto& core : run.x.cores)
      REQUIRE(core.exits() == 42);
  }
}

TEST_CASE("SYNC-PRE-6 four workers that never wait for each other save one step all the same") {
  std::size_t moved = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    random_run run{std::mt19937{seed}, world{4, {}, false}, workers_in(1 + seed % 15)};
    run.go();
    for (const auto& saves : run.x.saves)
      REQUIRE(saves == run.x.saves[0]);
    REQUIRE(run.x.saves[0].size() == 1);
    const auto& proposed = run.x.proposals[0];
    REQUIRE(run.x.saves[0][0] >= *std::min_element(proposed.begin(), proposed.end()));
    moved += run.x.saves[0][0] != proposed[0];
  }
  CHECK(moved > 100); // the proposer was behind in many runs
}

TEST_CASE("SYNC-PRE-6 every order of events of two to four workers ends in one step") {
  struct size {
    std::uint32_t workers;
    bool lockstep;
    std::uint64_t calls_max;
    duration grace;
    numbers noticed;
  };
  const std::vector<size> sizes{
    {2, false, 4, 0ms, {0, 1}}, {2, true, 4, 0ms, {0, 1}},  {3, true, 2, 0ms, {0, 1, 2}},
    {3, false, 2, 0ms, {0, 2}}, {2, false, 4, 1ns, {0, 1}}, {2, true, 5, 1ns, {0, 1}},
    {3, true, 3, 1ns, {1}},     {4, true, 1, 0ms, {0, 3}},
  };
  for (const auto& how : sizes) {
    search all;
    all.calls_max = how.calls_max;
    world x{how.workers, {how.grace, 42}, how.lockstep};
    all.visit(x, how.noticed);
    CAPTURE(how.workers);
    CAPTURE(how.lockstep);
    CHECK(all.ends > 0);
    CHECK(all.seen.size() > 500);
  }
}

TEST_CASE("SYNC-PRE-7 without a grace the worker leaves after one save, with code 42") {
  for (auto grace : {duration{0ms}, duration{-5s}}) {
    preemption_core core{{.grace = grace}, 0, 1};
    run_call(core, 0ms, 1ms);
    CHECK(core.on_notice(at(1ms)));
    CHECK_FALSE(core.second_save_at());
    run_call(core, 1ms, 1ms); // alone, so nobody is to be waited for
    CHECK(core.before_call(at(2ms)) == action::save);
    CHECK_FALSE(core.exits());
    core.saved();
    CHECK(core.exits() == 42);
    CHECK(core.agreed_step(0) == 2);
    CHECK_FALSE(core.agreed_step(1));
    CHECK(core.take_outgoing().empty());
  }
}

TEST_CASE("SYNC-PRE-7 the exit code is the option's; Google's engine gives an hour and 143") {
  const auto gce = preemption_options::for_gce();
  CHECK(gce.exit_code == 143);
  CHECK(gce.grace == 3600s);
  CHECK(preemption_options{}.exit_code == 42);
  preemption_core core{{.grace = 0ms, .exit_code = 7}, 0, 1};
  core.on_notice(at(0ms));
  run_call(core, 0ms, 1ms);
  REQUIRE(core.before_call(at(1ms)) == action::save);
  core.saved();
  CHECK(core.exits() == 7);
}

TEST_CASE("SYNC-PRE-8 with a grace the worker saves, trains on, and saves again near the end") {
  preemption_core core{{.grace = 100ms}, 0, 1};
  run_call(core, 0ms, 10ms);
  CHECK(core.on_notice(at(15ms)));
  CHECK(core.second_save_at() == at(15ms + 100ms - 6 * 10ms));
  run_call(core, 20ms, 10ms);
  REQUIRE(core.before_call(at(30ms)) == action::save);
  core.saved();
  CHECK_FALSE(core.exits());
  run_call(core, 30ms, 10ms);
  run_call(core, 44ms, 10ms); // 44 ms is still before the time
  CHECK(core.second_save_at() == at(55ms));
  run_call(core, 55ms, 10ms); // the notice of the second save is taken before this call
  REQUIRE(core.before_call(at(65ms)) == action::save);
  core.saved();
  CHECK(core.exits() == 42);
  CHECK(core.agreed_step(0) == 2);
  CHECK(core.agreed_step(1) == 5);
  CHECK(core.status() == "worker 0, 5 calls, noticed; round 0 saved at 2; round 1 saved at 5");
}

TEST_CASE("SYNC-PRE-8 a grace that is over already still saves twice") {
  preemption_core core{{.grace = 20ms}, 0, 1};
  run_call(core, 0ms, 10ms);
  core.on_notice(at(10ms));
  CHECK(core.second_save_at() == at(-30ms));
  run_call(core, 10ms, 10ms);
  REQUIRE(core.before_call(at(20ms)) == action::save);
  core.saved();
  run_call(core, 20ms, 10ms);
  REQUIRE(core.before_call(at(30ms)) == action::save);
  core.saved();
  CHECK(core.agreed_step(0) == 2);
  CHECK(core.agreed_step(1) == 3);
  CHECK(core.exits() == 42);
  CHECK(preemption_core{{.grace = duration::max()}, 0, 1}.second_save_at() == std::nullopt);
}

TEST_CASE("SYNC-PRE-8 four workers in random orders save the same two steps") {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    CAPTURE(seed);
    const duration grace = std::chrono::milliseconds{1 + seed % 400};
    const bool lockstep = seed % 4 != 0;
    random_run run{std::mt19937{seed}, world{4, {grace, 42}, lockstep}, workers_in(1 + seed % 15)};
    run.go();
    for (const auto& saves : run.x.saves)
      REQUIRE(saves == run.x.saves[0]);
    REQUIRE(run.x.saves[0].size() == 2);
    REQUIRE(run.x.saves[0][0] < run.x.saves[0][1]);
    if (lockstep)
      for (auto proposed : run.x.proposals[1])
        REQUIRE(proposed == run.x.saves[0][1]);
    for (const auto& core : run.x.cores)
      REQUIRE(core.exits() == 42);
  }
}

TEST_CASE("SYNC-PRE-10 later notices are ignored") {
  preemption_core core{{.grace = 100ms}, 0, 2};
  CHECK(core.on_notice(at(5ms)));
  CHECK_FALSE(core.on_notice(at(50ms)));
  CHECK(core.second_save_at() == at(105ms)); // counted from the first
  preemption_core other{{.grace = 100ms}, 1, 2};
  REQUIRE(other.on_message({kind::proposal, 0, 0, 1}));
  CHECK_FALSE(other.on_notice(at(6ms)));
  CHECK_FALSE(other.second_save_at());
  other.take_outgoing();
  REQUIRE(other.before_call(at(6ms)) == action::run);
  CHECK(other.take_outgoing().empty()); // no proposal of its own
  CHECK(other.status() == "worker 1, 0 calls, running; round 0 follows 0 up to 1; round 1 idle");
}

TEST_CASE("preemption: of two proposers the lower number decides, whatever comes first") {
  preemption_core low{{}, 0, 2};
  preemption_core high{{}, 1, 2};
  low.on_notice(at(0ms));
  high.on_notice(at(0ms));
  REQUIRE(low.before_call(at(1ms)) == action::hold);
  REQUIRE(high.before_call(at(1ms)) == action::hold);
  const auto from_low = low.take_outgoing().at(0);
  const auto from_high = high.take_outgoing().at(0);
  REQUIRE(low.on_message(from_high.message));
  CHECK(low.take_outgoing().empty());
  REQUIRE(high.on_message(from_low.message));
  const auto acknowledged = high.take_outgoing();
  REQUIRE(acknowledged.size() == 1);
  CHECK(text_of(acknowledged[0]) == "acknowledgement 0 from 1 to 0: 1");
  REQUIRE(low.on_message(acknowledged[0].message));
  CHECK(text_of(low.take_outgoing().at(0)) == "decision 0 from 0 to 1: 1");
}

TEST_CASE("preemption: a message that contradicts what was agreed has no effect") {
  preemption_core core{{}, 0, 3, 4};
  const auto refuse = [&](const preemption_message& message) {
    const auto before = core.status();
    const auto taken = core.on_message(message);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().code == errc::mismatch);
    CHECK(core.status() == before);
    CHECK(core.take_outgoing().empty());
    return taken.error().text;
  };
  CHECK(refuse({kind::proposal, 0, 0, 5})
        == "preemption: message of worker 0 for round 0, step 5: the sender is none of worker 0's "
           "2 peers");
  CHECK(refuse({kind::proposal, 0, 3, 5}).find("none of worker 0's 2 peers") != std::string::npos);
  CHECK(refuse({kind::proposal, 1, 1, 5})
        == "preemption: message of worker 1 for round 1, step 5: there are 1 rounds");
  CHECK(refuse({static_cast<kind>(3), 0, 1, 5}).find("its kind is 3") != std::string::npos);
  CHECK(refuse({kind::acknowledgement, 0, 1, 5}).find("acknowledges a proposal that was never made")
        != std::string::npos);
  CHECK(refuse({kind::decision, 0, 1, 5}).find("decides without worker 0's acknowledgement")
        != std::string::npos);
  REQUIRE(core.on_message({kind::proposal, 0, 1, 7}));
  core.take_outgoing();
  CHECK(refuse({kind::decision, 0, 2, 7}).find("decides without worker 0's acknowledgement")
        != std::string::npos);
  CHECK(refuse({kind::decision, 0, 1, 6}).find("decides below the acknowledged step 7")
        != std::string::npos);
  REQUIRE(core.on_message({kind::decision, 0, 1, 8}));
  REQUIRE(core.on_message({kind::decision, 0, 1, 8})); // twice is fine
  CHECK(refuse({kind::decision, 0, 1, 9}).find("step 8 was decided before") != std::string::npos);
  CHECK(core.agreed_step(0) == 8);
  CHECK_FALSE(core.agreed_step(1));
}

TEST_CASE("preemption: a worker stands among the workers") {
  for (std::uint32_t n : {0u, 2u}) {
    try {
      preemption_core core{{}, 2, n};
      FAIL("accepted");
    } catch (const error& why) {
      CHECK(why.code() == errc::invalid_argument);
      CHECK(why.details().text == "preemption: worker is 2, num_workers is " + std::to_string(n));
    }
  }
}
