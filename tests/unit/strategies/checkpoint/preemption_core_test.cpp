#include <doctest/doctest.h>

#include <troupe/strategies/checkpoint/preemption_core.hpp>

#include <string>
#include <vector>

#include "preemption_support.hpp"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

using kind = preemption_message_kind;
using action = preemption_action;
using numbers = std::vector<std::uint32_t>;

// One call of `length`; the action must be `run`.
void run_call(preemption_core& core, duration begin, duration length) {
  REQUIRE(core.before_call(at(begin)) == action::run);
  core.call_finished(at(begin + length));
}

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
        == "preemption: message of worker 0 for round 0, "
           "step 5: the sender is not one of worker 0's "
           "2 peers");
  CHECK(refuse({kind::proposal, 0, 3, 5}).find("not one of worker 0's 2 peers")
        != std::string::npos);
  CHECK(refuse({kind::proposal, 1, 1, 5})
        == "preemption: message of worker 1 for round 1, step 5: there are 1 rounds");
  CHECK(refuse({static_cast<kind>(3), 0, 1, 5}).find("its kind is 3") != std::string::npos);
  CHECK(refuse({kind::acknowledgement, 0, 1, 5}).find("acknowledges an unknown proposal")
        != std::string::npos);
  CHECK(refuse({kind::decision, 0, 1, 5}).find("decides without the acknowledgement of worker 0")
        != std::string::npos);
  REQUIRE(core.on_message({kind::proposal, 0, 1, 7}));
  core.take_outgoing();
  CHECK(refuse({kind::decision, 0, 2, 7}).find("decides without the acknowledgement of worker 0")
        != std::string::npos);
  CHECK(refuse({kind::decision, 0, 1, 6}).find("decides below the acknowledged step 7")
        != std::string::npos);
  REQUIRE(core.on_message({kind::decision, 0, 1, 8}));
  REQUIRE(core.on_message({kind::decision, 0, 1, 8})); // twice is fine
  CHECK(refuse({kind::decision, 0, 1, 9}).find("step 8 was already decided") != std::string::npos);
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
