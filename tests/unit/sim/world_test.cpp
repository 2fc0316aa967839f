// Goal: processes, threads, waits, clocks and ends, with programs that use the ports directly.

#include <doctest/doctest.h>

#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/fiber_safe_mutex.hpp>
#include <troupe/core/promise.hpp>
#include <troupe/sim/world.hpp>

using namespace troupe;
using namespace troupe::sim;
using namespace std::chrono_literals;

TEST_CASE("world: computing takes virtual time, and a slow machine takes longer") {
  std::vector<duration> at;
  world w{1};
  w.node(worker{0}, [&](process& p) {
    for (int i = 0; i < 3; ++i) {
      p.env().threads.spend(100ms);
      at.push_back(w.now());
    }
  });
  w.at(150ms).slow(worker{0}, 10);
  CHECK(w.run().ok());
  REQUIRE(at.size() == 3);
  CHECK(at[0] >= 100ms);
  CHECK(at[1] < 201ms);
  CHECK(at[2] >= 1200ms);
}

TEST_CASE("world: a fiber_safe_mutex keeps others out while its holder is switched away") {
  std::vector<std::string> log;
  world w{1};
  w.node(worker{0}, [&](process& p) {
    fiber_safe_mutex mutex{p.env().waits};
    auto holder = p.env().threads.start("holder", [&] {
      const std::lock_guard held{mutex};
      p.env().threads.spend(30ms); // a std::mutex would stop the whole thread here
      log.push_back("holder");
    });
    p.env().threads.spend(10ms);
    {
      const std::lock_guard held{mutex};
      log.push_back("main");
      CHECK(w.now() >= 30ms);
    }
    holder->join();
  });
  CHECK(w.run().ok());
  CHECK(log == std::vector<std::string>{"holder", "main"});
}

TEST_CASE("world: a promise wakes the thread that waits for it, or its deadline does") {
  std::vector<std::string> log;
  world w{1};
  w.node(worker{0}, [&](process& p) {
    promise_slot<int> slot{p.env()};
    auto giver = p.env().threads.start("giver", [&] {
      p.env().threads.spend(30ms);
      slot.set(7);
    });
    auto early = slot.poll_until(after(p.env().clock.now(), 10ms), "early");
    log.push_back(early ? "given" : "late");
    log.push_back(std::to_string(*slot.poll_until(never, "given")));
    CHECK(w.now() < 31ms);
    giver->join();
    CHECK(giver->ended());
  });
  CHECK(w.run().ok());
  CHECK(log == std::vector<std::string>{"late", "7"});
}

TEST_CASE("world: a thread that only yields lets time pass") {
  world w{1};
  w.node(worker{0}, [&](process& p) {
    auto until = after(p.env().clock.now(), 10s);
    while (p.env().clock.now() < until)
      p.env().threads.yield();
  });
  auto r = w.run();
  CHECK(r.ok());
  CHECK(r.events < 20'000);
}

TEST_CASE("world: nothing that ever happens again is stuck, and limits are outcomes") {
  auto run = [](program main, world_options options = {}) {
    world w{std::move(options)};
    w.node(worker{0}, std::move(main));
    return w.run();
  };
  auto waits = [](process& p) {
    promise_slot<int> slot{p.env()};
    (void)slot.wait(never, "nothing");
  };
  CHECK(run(waits).how == outcome::stuck);
  auto spins = [](process& p) {
    for (;;)
      p.env().threads.spend(1ms);
  };
  world_options few, brief;
  few.steps_max = 100;
  brief.time_max = 2s;
  CHECK(run(spins, std::move(few)).how == outcome::step_limit);
  auto r = run(spins, std::move(brief));
  CHECK(r.how == outcome::time_limit);
  REQUIRE(r.exits.size() == 1);
  CHECK(r.exits[0].how == exit_record::running);
}

TEST_CASE(
  "world: a crashed process is frozen, its objects go with the world, a restart is a new one") {
  std::vector<std::string> log;
  {
    world w{1};
    struct witness {
      std::vector<std::string>& log;
      std::string name;
      ~witness() { log.push_back(name + " gone"); }
    };
    w.node(worker{0}, [&](process& p) {
      witness mine{log, "start " + std::to_string(p.start())};
      log.push_back(mine.name);
      p.env().threads.spend(100ms);
      log.push_back(mine.name + " done");
    });
    w.at(50ms).crash(worker{0});
    w.at(60ms).restart(worker{0});
    auto r = w.run();
    CHECK(r.ok());
    log.push_back("run over");
    REQUIRE(r.exits.size() == 2);
    CHECK(r.exits[0].how == exit_record::crashed);
    CHECK(r.exits[1].how == exit_record::returned);
  }
  CHECK(log
        == std::vector<std::string>{"start 1", "start 2", "start 2 done", "start 2 gone",
                                    "run over", "start 1 gone"});
}

TEST_CASE("world: leave_now from a thread ends the process at once") {
  bool after_leave = false;
  world w{1};
  w.node(worker{0}, [&](process& p) {
    auto other = p.env().threads.start("other", [&] { p.env().threads.leave_now(75); });
    p.env().threads.spend(1s);
    after_leave = true;
    other->join();
  });
  auto r = w.run();
  CHECK_FALSE(after_leave);
  REQUIRE(r.exits.size() == 1);
  CHECK(r.exits[0].how == exit_record::left);
  CHECK(r.exits[0].code == 75);
}

TEST_CASE("world: an action at a mark holds from that very point on") {
  int marks = 0;
  world w{1};
  w.node(worker{0}, [&](process& p) {
    for (;;) {
      ++marks;
      mark(p.env(), "test.here");
      if (marks > 2)
        trace(p.env(), "test.after", {});
      p.env().threads.spend(1ms);
    }
  });
  w.at_mark("test.here", worker{0}, 3, {.kind = action_kind::crash, .target = worker{0}});
  auto r = w.run();
  CHECK(marks == 3);
  CHECK(r.marks.at("test.here") == 3);
  CHECK_FALSE(r.event_counts.contains("test.after"));
}

TEST_CASE("world: clocks drift and wall time moves, each machine has its own") {
  duration fast{}, plain{};
  std::int64_t moved = 0;
  world w{1};
  w.node(worker{0}, [&](process& p) {
    p.env().threads.spend(1ms); // the drift begins meanwhile
    auto begin = w.now();
    p.env().threads.spend(1000s); // of its own clock
    fast = w.now() - begin;
  });
  w.node(worker{1}, [&](process& p) {
    auto begin = w.now();
    p.env().threads.spend(1000s);
    plain = w.now() - begin;
    auto before = p.env().clock.unix_ms();
    w.act({.kind = action_kind::clock_offset, .target = worker{1}, .amount = -5000});
    moved = p.env().clock.unix_ms() - before;
  });
  w.at(0s).clock_drift(worker{0}, 100'000);
  CHECK(w.run().ok());
  CHECK(fast < 910s);
  CHECK(plain >= 1000s);
  CHECK(moved == -5000);
}

TEST_CASE("world: draws depend on seed, machine, start and purpose, not on each other") {
  auto draws = [](std::uint64_t seed, bool extra) {
    std::vector<std::uint64_t> out;
    world w{seed};
    w.node(worker{0}, [&](process& p) {
      if (extra)
        p.env().random.draw("other");
      out.push_back(p.env().random.draw("x"));
      out.push_back(p.env().random.draw("x"));
    });
    w.run();
    return out;
  };
  CHECK(draws(1, false) == draws(1, true));
  CHECK(draws(1, false) != draws(2, false));
  CHECK(draws(1, false)[0] != draws(1, false)[1]);
}

TEST_CASE("world: what a program throws is its end, what a thread throws is a violation") {
  world w{1};
  w.node(worker{0}, [](process&) { throw_failure(errc::unavailable, "on purpose"); });
  auto r = w.run();
  CHECK(r.how == outcome::ended);
  REQUIRE(r.exits.size() == 1);
  CHECK(r.exits[0].how == exit_record::threw);
  CHECK(r.exits[0].text.find("on purpose") != std::string::npos);

  world v{1};
  v.node(worker{0}, [](process& p) {
    p.env().threads.start("bad", [] { throw std::runtime_error("lane"); })->join();
    p.env().threads.spend(1s);
  });
  CHECK(v.run().how == outcome::violated);
}
