// Each checker is told stories, good ones and ones in which exactly its rule is broken.

#include <doctest/doctest.h>

#include "checker_support.hpp"

using namespace troupe;
using namespace troupe::sim;
using namespace troupe::sim::testing;
using namespace std::chrono_literals;

namespace {

/// Closure 1 pushes op 0 to two shards and finishes.
story& one_push(story& s, int attempt = 1) {
  return s.pushed(1, attempt, 0, 2).applied(1, attempt, 0, 0, 1).applied(1, attempt, 0, 1, 1);
}

} // namespace

// --- effects

TEST_CASE("INV-X1 checker: a closure that finished with all its pieces is fine") {
  story s{make_effect_checker};
  CHECK(one_push(s).ended(1, 1, ready).is_good());
}

TEST_CASE("INV-X1 checker: a closure that finished without a piece is not") {
  story s{make_effect_checker};
  s.pushed(1, 1, 0, 2).applied(1, 1, 0, 0, 1).ended(1, 1, ready);
  CHECK(s.rules() == "INV-X1");
}

TEST_CASE("INV-X1 checker: pieces of different attempts make one whole") {
  story s{make_effect_checker};
  s.pushed(1, 1, 0, 2).applied(1, 1, 0, 0, 1);
  s.pushed(1, 2, 0, 2).applied(1, 2, 0, 1, 1);
  CHECK(s.ended(1, 2, ready).is_good());
}

TEST_CASE("INV-X1 checker: what an attempt that did not finish pushed is not asked for") {
  story s{make_effect_checker};
  s.pushed(1, 1, 0, 2).pushed(1, 2, 0, 2).applied(1, 2, 0, 0, 1).applied(1, 2, 0, 1, 1);
  CHECK(s.ended(1, 2, ready).is_good());
  CHECK(s.pushed(2, 1, 0, 2).ended(2, 1, failed).is_good());
}

TEST_CASE("INV-X1 checker: what a lost server held was rolled back") {
  story s{make_effect_checker};
  one_push(s).tell(server{0}, "sim.crash", {{"flags", 0}});
  CHECK(s.ended(1, 1, ready).is_good());
}

TEST_CASE("INV-P2 checker: an operation that is applied again doubles, whatever its attempt") {
  story s{make_effect_checker};
  CHECK(one_push(s).applied(1, 2, 0, 0, 2).rules() == "INV-P2");
}

TEST_CASE("INV-P2 checker: another operation of the closure does not double") {
  story s{make_effect_checker};
  CHECK(one_push(s).applied(1, 1, 1, 0, 2).is_good());
}

TEST_CASE("INV-P2 checker: a version that does not grow is two operations at once") {
  story s{make_effect_checker};
  CHECK(one_push(s).applied(2, 1, 0, 0, 1).rules() == "INV-P2");
}

TEST_CASE("INV-P2 checker: a shard that is made anew starts from nothing") {
  story s{make_effect_checker};
  one_push(s).tell(server{0}, "server.shard_made", {{"variable", 7}, {"shard", 0}});
  CHECK(s.applied(1, 2, 0, 0, 1).is_good());
}

// --- order

TEST_CASE("INV-X2 checker: closures that are accepted, run, come back and end are fine") {
  story s{make_order_checker};
  s.accepted(1).dispatched(1, 1).put_back(1).dispatched(1, 2).applied(1, 2, 0, 0, 1);
  CHECK(s.attempt_ended(1, 2).ended(1, 2, ready).is_good());
}

TEST_CASE("INV-X2 checker: an effect of what was never accepted") {
  story s{make_order_checker};
  CHECK(s.applied(1, 1, 0, 0, 1).rules() == "INV-X2");
}

TEST_CASE("INV-X2 checker: an effect after the cancellation was confirmed") {
  story s{make_order_checker};
  s.accepted(1).dispatched(1, 1).ended(1, 1, cancelled);
  CHECK(s.is_good());
  CHECK(s.applied(1, 1, 0, 0, 1).rules() == "INV-X2");
}

TEST_CASE("INV-X2 checker: a coordinator that stops confirms nothing") {
  story s{make_order_checker};
  s.accepted(1).dispatched(1, 1).tell(chief, "queue.stopped", {{"term", 1}});
  CHECK(s.ended(1, 1, cancelled).applied(1, 1, 0, 0, 1).is_good());
}

TEST_CASE("INV-X2 checker: what a lost server still does is void until it has dropped all") {
  story s{make_order_checker};
  s.accepted(1).dispatched(1, 1).tell(chief, "coordinator.server_lost", {{"server", 0}});
  s.ended(1, 1, failed, errc::unavailable).applied(1, 1, 0, 0, 1);
  CHECK(s.is_good());
  s.tell(server{0}, "server.cleared");
  CHECK(s.applied(1, 1, 0, 0, 1).rules() == "INV-X2");
}

TEST_CASE("INV-X2 checker: an effect of an attempt that was not dispatched") {
  story s{make_order_checker};
  CHECK(s.accepted(1).dispatched(1, 1).applied(1, 2, 0, 0, 1).rules() == "INV-X2");
}

TEST_CASE("INV-X2 checker: an id is accepted once") {
  story s{make_order_checker};
  CHECK(s.accepted(1).accepted(1).rules() == "INV-X2");
}

TEST_CASE("INV-X3 checker: join returns when all before it have ended") {
  story s{make_order_checker};
  s.accepted(1).accepted(2).tell(chief, "queue.join_begun", {{"term", 1}, {"upto", 2}});
  s.dispatched(1, 1).attempt_ended(1, 1).ended(1, 1, ready).accepted(3);
  s.dispatched(2, 1).ended(2, 1, failed, errc::user_code);
  s.tell(chief, "queue.join_ended", {{"term", 1}, {"upto", 2}, {"code", errc::user_code}});
  CHECK(s.is_good());
}

TEST_CASE("INV-X3 checker: join returns too early") {
  story s{make_order_checker};
  s.accepted(1).dispatched(1, 1).tell(chief, "queue.join_begun", {{"term", 1}, {"upto", 1}});
  s.tell(chief, "queue.join_ended", {{"term", 1}, {"upto", 1}, {"code", errc::none}});
  CHECK(s.rules() == "INV-X3");
}

TEST_CASE("INV-X3 checker: a join that ran out of time promises nothing") {
  story s{make_order_checker};
  s.accepted(1).tell(chief, "queue.join_begun", {{"term", 1}, {"upto", 1}});
  s.tell(chief, "queue.join_ended", {{"term", 1}, {"upto", 1}, {"code", errc::deadline}});
  CHECK(s.is_good());
}

TEST_CASE("INV-X3 checker: a closure starts after its end, or on two workers at once") {
  story late{make_order_checker};
  late.accepted(1).dispatched(1, 1).attempt_ended(1, 1).ended(1, 1, ready).dispatched(1, 2);
  CHECK(late.rules() == "INV-X3");
  story twice{make_order_checker};
  CHECK(twice.accepted(1).dispatched(1, 1).dispatched(1, 2).rules() == "INV-X3");
}

TEST_CASE("INV-X1 checker: a result that another attempt gave") {
  story s{make_order_checker};
  s.accepted(1).dispatched(1, 1).put_back(1).dispatched(1, 2).attempt_ended(1, 1);
  CHECK(s.ended(1, 2, ready).rules() == "INV-X1");
}

TEST_CASE("order checker: says who waits") {
  story s{make_order_checker};
  s.accepted(1).accepted(2).dispatched(2, 1, 3);
  s.tell(chief, "queue.join_begun", {{"term", 1}, {"upto", 2}});
  CHECK(s.waiting().find("join waits for closures up to 2") != std::string::npos);
  CHECK(s.waiting().find("closure 1:1 is queued after 0 attempts") != std::string::npos);
  CHECK(s.waiting().find("closure 1:2 is on worker 3 as attempt 1") != std::string::npos);
}

// --- errors

TEST_CASE("INV-X4 checker: the first error is the one that is raised") {
  story s{make_error_checker};
  s.ended(1, 1, failed, errc::user_code, "a").ended(2, 1, failed, errc::user_code, "b");
  s.tell(chief, "queue.raised", {{"code", errc::user_code}, {"generation", 2}, {"why", "a"}});
  CHECK(s.is_good());
  s.ended(3, 1, failed, errc::user_code, "c").ended(4, 1, failed, errc::user_code, "d");
  s.tell(chief, "queue.raised", {{"code", errc::user_code}, {"generation", 3}, {"why", "d"}});
  CHECK(s.rules() == "INV-X4");
}

TEST_CASE("INV-X4 checker: an error out of nowhere") {
  story s{make_error_checker};
  s.tell(chief, "queue.raised", {{"code", errc::user_code}, {"generation", 2}, {"why", "a"}});
  CHECK(s.rules() == "INV-X4");
}

namespace {

story& attempt_failed(story& s, errc code, int server) {
  return s.dispatched(1, 1).tell(chief, "coordinator.attempt_failed",
                                 {{"closure", 1},
                                  {"worker", 0},
                                  {"code", to_string(code)},
                                  {"from_job", job_kind::ps},
                                  {"from_task", server},
                                  {"why", ""}});
}

} // namespace

TEST_CASE("INV-X4 checker: infrastructure errors reach nobody while a retry is allowed") {
  story s{make_error_checker};
  attempt_failed(s, errc::unavailable, 0);
  CHECK(s.ended(1, 1, failed, errc::unavailable).rules() == "INV-X4");
}

TEST_CASE("INV-X4 checker: the third failure of a server within ten seconds may") {
  story s{make_error_checker};
  attempt_failed(s.at(1s), errc::unavailable, 0);
  attempt_failed(s.at(2s), errc::unavailable, 0);
  attempt_failed(s.at(9s), errc::unavailable, 0);
  CHECK(s.ended(1, 1, failed, errc::unavailable).is_good());
}

TEST_CASE("INV-X4 checker: three failures of different servers, or over a minute, may not") {
  story s{make_error_checker};
  attempt_failed(s.at(1s), errc::unavailable, 0);
  attempt_failed(s.at(2s), errc::unavailable, 1);
  attempt_failed(s.at(30s), errc::unavailable, 0);
  attempt_failed(s.at(60s), errc::unavailable, 0);
  CHECK(s.ended(1, 1, failed, errc::unavailable).rules() == "INV-X4");
}

TEST_CASE("INV-X4 checker: a closure whose retries are over excuses no other") {
  story s{make_error_checker};
  for (int i = 1; i <= 3; ++i)
    attempt_failed(s.at(std::chrono::seconds{i}), errc::unavailable, 0);
  CHECK(s.ended(1, 1, failed, errc::unavailable).is_good());
  CHECK(s.ended(2, 1, failed, errc::unavailable).rules() == "INV-X4");
}

TEST_CASE("INV-X4 checker: join doesn't return over an error that was not raised") {
  story s{make_error_checker};
  s.ended(1, 1, failed, errc::user_code, "a");
  s.tell(chief, "queue.join_ended", {{"term", 1}, {"upto", 1}, {"code", errc::none}});
  CHECK(s.rules() == "INV-X4");
}

namespace {

story& begun(story& s, const char* how, int attempt, int on) {
  return s.tell(worker{static_cast<std::uint32_t>(on)}, how,
                {{"term", 1}, {"closure", 1}, {"attempt", attempt}, {"worker", on}});
}

story& failed_attempt(story& s, int attempt, int by) {
  return s.tell(
    chief, "queue.struck",
    {{"term", 1}, {"closure", 1}, {"attempt", attempt}, {"worker", by}, {"strikes", 1}});
}

} // namespace

TEST_CASE(
  "INV-X4 checker: a failed attempt counted for a worker where the closure had begun is fine") {
  for (const char* how : {"worker.closure_started", "worker.closure_announced"}) {
    story s{make_error_checker};
    CHECK(failed_attempt(begun(s, how, 2, 3), 2, 3).is_good());
  }
}

TEST_CASE("INV-X4 checker: a failed attempt counted for a worker where it had not begun is not") {
  story never{make_error_checker};
  CHECK(failed_attempt(never, 1, 0).rules() == "INV-X4");
  story other_attempt{make_error_checker};
  CHECK(failed_attempt(begun(other_attempt, "worker.closure_started", 1, 0), 2, 0).rules()
        == "INV-X4");
  story other_worker{make_error_checker};
  CHECK(failed_attempt(begun(other_worker, "worker.closure_started", 1, 1), 1, 0).rules()
        == "INV-X4");
}

TEST_CASE("INV-P1 checker: what was acknowledged is there") {
  auto acked = [](story& s) -> story& {
    return s.tell(worker{0}, "client.acked", {{"term", 1}, {"closure", 1}, {"attempt", 1}});
  };
  story whole{make_effect_checker};
  whole.pushed(1, 1, 0, 2).applied(1, 1, 0, 0, 1).applied(1, 1, 0, 1, 1);
  CHECK(acked(whole).is_good());
  story half{make_effect_checker};
  half.pushed(1, 1, 0, 2).applied(1, 1, 0, 0, 1);
  CHECK(acked(half).rules() == "INV-P1");
}

TEST_CASE("INV-P1 checker: a server that goes with what it had is announced") {
  auto crash = [](story& s) -> story& {
    s.applied(1, 1, 0, 0, 1);
    return s.at(1s).tell(server{0}, "sim.crash", {{"flags", 0}});
  };
  story silent{make_effect_checker};
  crash(silent).at(60s).pushed(2, 1, 0, 1);
  CHECK(silent.end().rules() == "INV-P1");
  story announced{make_effect_checker};
  crash(announced).at(2s).tell(chief, "coordinator.server_lost", {{"server", 0}, {"reason", ""}});
  CHECK(announced.at(60s).pushed(2, 1, 0, 1).end().is_good());
  story early{make_effect_checker};
  CHECK(crash(early).at(3s).pushed(2, 1, 0, 1).end().is_good());
}

TEST_CASE("INV-X4 checker: beyond the guard they may") {
  story s{make_error_checker, {.infrastructure_errors = true}};
  CHECK(s.ended(1, 1, failed, errc::unavailable).is_good());
}
