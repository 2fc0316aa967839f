// Saving before a worker is taken away. Goal: rows SYNC-PRE-1 to PRE-13 and scenarios P1 to P4 over
// real groups. Method: workers as threads whose exit is an exception; the signal itself and
// restarts of processes are in tests/process/preemption_process.cpp, the agreement in
// tests/unit/strategies/checkpoint/preemption_*_test.cpp.

#include <csignal>
#include <set>

#include "checkpoint_support.hpp"

namespace {

using namespace replicas_test;

struct left {
  int code = 0;
};

/// A program that adds 1 on every replica and call.
class counting {
public:
  counting(const strategy& s, const std::string& directory)
    : strategy_{s},
      v_{s.scope([] {
        return make_variable({.name = "v",
                              .initial = tensor::scalar<std::int64_t>(0),
                              .aggregation = variable_aggregation::sum});
      })},
      checkpoint_{s, directory} {
    checkpoint_.add(v_);
  }
  sync_checkpoint& checkpoint() { return checkpoint_; }
  void step() {
    strategy_.run([&] { v_.assign_add(tensor::scalar<std::int64_t>(1)); });
  }
  std::int64_t value() const { return v_.item<std::int64_t>(); }

private:
  strategy strategy_;
  distributed_variable v_;
  sync_checkpoint checkpoint_;
};

preemption_checkpoint_options leaving(duration grace = {}, int code = 42) {
  return {.termination = {.grace = grace, .exit_code = code},
          .exit = [](int with) { throw left{with}; }};
}

TEST_CASE("SYNC-PRE-2 SYNC-PRE-3 SYNC-PRE-6 SYNC-PRE-7 SYNC-P1 all save the same call and leave") {
  for (const bool explicit_check : {false, true}) {
    CAPTURE(explicit_check);
    const checkpoint_folder at;
    std::atomic<int> gone{0};
    std::mutex mutex;
    std::set<std::uint64_t> saved_at;
    for (int session = 0; session < 2; ++session)
      on_workers(3, [&](std::uint32_t worker, runtime& rt) {
        auto s = strategy_over(rt);
        counting program{s, at.text()};
        preemption_checkpoint guard{program.checkpoint(), leaving()};
        CHECK(guard.total_run_calls() == (session == 0 ? 0 : *saved_at.begin()));
        CHECK(program.value() == static_cast<std::int64_t>(3 * guard.total_run_calls()));
        try {
          while (guard.total_run_calls() < 12) {
            if (session == 0 && worker == 1 && guard.total_run_calls() == 6)
              guard.notice();
            if (explicit_check) {
              guard.save_if_preempted();
              program.step();
            } else {
              guard.run([&] { program.step(); });
            }
            if (explicit_check && guard.total_run_calls() == 11)
              break; // the twelfth ends with the program
          }
          CHECK(session == 1);
          CHECK(program.value() == 36);
        } catch (const left& how) {
          CHECK(how.code == 42);
          ++gone;
          std::lock_guard lock{mutex};
          saved_at.insert(guard.total_run_calls());
        }
      });
    CHECK(gone == 3);
    CHECK(saved_at.size() == 1);
    CHECK(*saved_at.begin() >= 7);
    CHECK(at.checkpoints() == std::vector<std::string>{"ckpt-1"});
  }
}

TEST_CASE("SYNC-PRE-8 SYNC-P2 with a grace period training goes on, and a second save ends it") {
  const checkpoint_folder at;
  std::atomic<int> gone{0};
  std::atomic<std::uint64_t> second{0};
  on_workers(2, [&](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    counting program{s, at.text()};
    preemption_checkpoint guard{program.checkpoint(), leaving(300ms, 143)};
    try {
      for (;;) {
        if (worker == 0 && guard.total_run_calls() == 3)
          guard.notice();
        guard.run([&] {
          program.step();
          if (worker == 0)
            spin_for(2ms);
        });
      }
    } catch (const left& how) {
      CHECK(how.code == 143);
      second = guard.total_run_calls();
      ++gone;
    }
  });
  CHECK(gone == 2);
  CHECK(second > 4);
  CHECK(at.checkpoints() == std::vector<std::string>{"ckpt-1", "ckpt-2"});
  auto s = mirrored_over(2);
  counting program{s, at.text()};
  preemption_checkpoint guard{program.checkpoint()};
  CHECK(guard.total_run_calls() == second);
  CHECK(program.value() == static_cast<std::int64_t>(2 * second));
}

TEST_CASE("SYNC-PRE-10 later notices are ignored, from whomever") {
  const checkpoint_folder at;
  std::atomic<int> gone{0};
  on_workers(3, [&](std::uint32_t, runtime& rt) {
    auto s = strategy_over(rt);
    counting program{s, at.text()};
    preemption_checkpoint guard{program.checkpoint(), leaving()};
    try {
      for (;;) {
        if (guard.total_run_calls() >= 2)
          guard.notice();
        guard.run([&] { program.step(); });
      }
    } catch (const left&) {
      CHECK(guard.total_run_calls() == 3);
      ++gone;
    }
  });
  CHECK(gone == 3);
  CHECK(at.checkpoints() == std::vector<std::string>{"ckpt-1"});
}

TEST_CASE("SYNC-PRE-11 SYNC-P3 an error of one worker is thrown on all, with its type and text") {
  for (const bool own_type : {false, true}) {
    const checkpoint_folder at;
    on_workers(4, [&](std::uint32_t worker, runtime& rt) {
      auto s = strategy_over(rt);
      counting program{s, at.text()};
      preemption_checkpoint guard{program.checkpoint(), leaving()};
      auto run = [&] {
        for (int i = 0; i < 5; ++i)
          guard.run([&] {
            if (i == 3 && worker == 2) {
              if (own_type)
                throw std::length_error{"no room"};
              throw_failure(errc::device_memory, "resources are exhausted");
            }
            program.step();
          });
      };
      if (own_type && worker == 2) {
        CHECK_THROWS_WITH_AS(run(), "no room", std::length_error);
        return;
      }
      const auto why = failure_of(run);
      if (own_type)
        names(why, errc::user_code, {"worker:2", "std::length_error: no room"});
      else
        names(why, errc::device_memory, {"resources are exhausted"});
      if (worker != 2)
        CHECK(why.text.find("worker:2") != std::string::npos);
    });
    CHECK(at.checkpoints().empty());
  }
}

TEST_CASE("SYNC-PRE-11 who fails while the others reduce host values is heard too") {
  const checkpoint_folder at;
  const auto begin = std::chrono::steady_clock::now();
  on_workers(3, [&](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    counting program{s, at.text()};
    preemption_checkpoint guard{program.checkpoint(), leaving()};
    const auto why = failure_of([&] {
      guard.run([&] {
        if (worker == 0)
          throw_failure(errc::no_space, "the disk is full");
        (void)s.reduce(reduce_op::sum, tensor::scalar(1.0f));
      });
    });
    names(why, errc::no_space, {"the disk is full"});
  });
  CHECK(std::chrono::steady_clock::now() - begin < 15s);
}

TEST_CASE("SYNC-PRE-13 SYNC-P4 a save function without effect leaves no checkpoint") {
  const checkpoint_folder at;
  std::atomic<int> saves{0};
  std::atomic<int> gone{0};
  on_workers(2, [&](std::uint32_t worker, runtime& rt) {
    auto s = strategy_over(rt);
    counting program{s, at.text()};
    auto options = leaving();
    options.save = [&] { ++saves; };
    preemption_checkpoint guard{program.checkpoint(), options};
    if (worker == 1)
      guard.notice();
    try {
      for (;;)
        guard.run([&] { program.step(); });
    } catch (const left&) {
      ++gone;
    }
  });
  CHECK(gone == 2);
  CHECK(saves == 2);
  CHECK(at.checkpoints().empty());
}

TEST_CASE("SYNC-PRE-5 the platform's watcher is asked, once a second at most") {
  const checkpoint_folder at;
  auto s = mirrored_over(2);
  counting program{s, at.text()};
  int asked = 0;
  auto options = leaving();
  options.watcher = [&] { return ++asked == 1; };
  preemption_checkpoint guard{program.checkpoint(), options};
  CHECK_THROWS_AS(
    [&] {
      for (;;)
        guard.run([&] { program.step(); });
    }(),
    left);
  CHECK(asked == 1);
  CHECK(guard.total_run_calls() == 1);
  CHECK(program.value() == 2);
  CHECK(at.checkpoints() == std::vector<std::string>{"ckpt-1"});
}

TEST_CASE("SYNC-PRE-5 SIGTERM is a notice while the handler is asked for, and nothing else") {
  const checkpoint_folder at;
  auto s = mirrored_over(1);
  counting program{s, at.text()};
  static std::atomic<int> outer{0};
  auto* before = std::signal(SIGTERM, [](int) { ++outer; });
  {
    auto options = leaving();
    options.handle_sigterm = true;
    preemption_checkpoint guard{program.checkpoint(), options};
    guard.run([&] { program.step(); });
    std::raise(SIGTERM);
    guard.run([&] { program.step(); });
    CHECK_THROWS_AS(guard.run([&] { program.step(); }), left);
    CHECK(guard.total_run_calls() == 2);
    CHECK(outer == 0);
  }
  std::raise(SIGTERM);
  CHECK(outer == 1);
  std::signal(SIGTERM, before);
}

TEST_CASE("SYNC-PRE-4 what run returns comes back, and calls are counted when they end") {
  const checkpoint_folder at;
  auto s = mirrored_over(2);
  counting program{s, at.text()};
  preemption_checkpoint guard{program.checkpoint()};
  CHECK(guard.run([] { return 7; }) == 7);
  CHECK(guard.run([&] { return guard.total_run_calls(); }) == 1);
  CHECK_THROWS_AS(guard.run([]() -> int { throw std::length_error{"x"}; }), std::length_error);
  CHECK(guard.total_run_calls() == 2);
  CHECK(guard.run([] { return std::string{"on"}; }) == "on");
  CHECK(guard.total_run_calls() == 3);
}

TEST_CASE(
  "SYNC-PRE-2 SYNC-PRE-4 a checkpoint outlives who counts its calls, and knows their number") {
  const checkpoint_folder at;
  on_workers(2, [&](std::uint32_t, runtime& rt) {
    auto s = strategy_over(rt);
    counting program{s, at.text()};
    {
      preemption_checkpoint guard{program.checkpoint(), leaving()};
      for (int i = 0; i < 3; ++i)
        guard.run([&] { program.step(); });
      (void)program.checkpoint().save(); // by the program itself, between calls
      guard.run([&] { program.step(); });
      auto why = failure_of([&] { preemption_checkpoint second{program.checkpoint(), leaving()}; });
      names(why, errc::invalid_argument, {"preemption/calls", "another"});
    }
    (void)program.checkpoint().restore();
    CHECK(program.value() == 6);
    preemption_checkpoint anew{program.checkpoint(), leaving()};
    CHECK(anew.total_run_calls() == 3);
    anew.run([&] { program.step(); });
    CHECK(anew.total_run_calls() == 4);
  });
}

TEST_CASE("SYNC-PRE-1 a checkpoint without a directory is refused") {
  auto s = mirrored_over(2);
  names(failure_of([&] { (void)sync_checkpoint{s, {}}; }), errc::invalid_argument, {"directory"});
}

} // namespace
