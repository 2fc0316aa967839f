// Goal: the rules of synchronous strategies, told by hand: a story that breaks one is found.

#include <doctest/doctest.h>

#include "checker_support.hpp"

using namespace troupe;
using namespace troupe::sim;
using namespace troupe::sim::testing;
using namespace std::chrono_literals;

namespace {

story& entered(story& s, node_name who, int session, const char* starts = "1 1", int step = 0) {
  return s.tell(who, "replica.life",
                {{"life", session}, {"starts", starts}, {"step", step}, {"replicas", 2}});
}

story& applied(story& s, std::uint32_t replica, int step, int session = 1, int got = 7,
               int wanted = 7) {
  return s.tell(
    worker{replica}, "replica.applied",
    {{"life", session}, {"step", step}, {"replica", replica}, {"got", got}, {"wanted", wanted}});
}

story& begun(story& s, duration deadline = 2s) {
  return s.tell(worker{0}, "replica.begun", {{"what", "run"}, {"deadline", deadline.count()}});
}

story& gave_up(story& s, errc code, const char* why) {
  return s.tell(worker{0}, "replica.failed", {{"code", code}, {"why", why}});
}

/// Two workers that are in one strategy.
struct both : story {
  both() : story{make_replica_checker} {
    at(0s);
    entered(*this, worker{0}, 1);
    entered(*this, worker{1}, 1);
  }
};

} // namespace

TEST_CASE("INV-S2 checker: nobody is a step ahead of somebody") {
  both good;
  for (int step = 0; step < 3; ++step)
    applied(applied(good, 0, step), 1, step);
  CHECK(good.is_good());
  both bad;
  applied(applied(bad, 0, 0), 0, 1);
  CHECK(bad.rules() == "INV-S2");
}

TEST_CASE("INV-S2 checker: a strategy may go on from a restored step") {
  both s;
  applied(applied(s, 0, 0), 1, 0);
  applied(applied(s, 0, 5), 1, 5);
  CHECK(s.is_good());
}

TEST_CASE("INV-A1 checker: replicas get what all gave, and the same bits") {
  both wrong;
  CHECK(applied(wrong, 0, 0, 1, 6).rules() == "INV-A1");
  both different;
  applied(different, 0, 0);
  CHECK(applied(different, 1, 0, 1, 8, 8).rules() == "INV-A1");
}

TEST_CASE("INV-M1 checker: all members of a strategy tell the same of it") {
  story processes{make_replica_checker};
  entered(processes, worker{0}, 1, "1 1");
  CHECK(entered(processes, worker{1}, 1, "1 2").rules() == "INV-M1");
  story steps{make_replica_checker};
  entered(steps, worker{0}, 1, "1 1", 4);
  CHECK(entered(steps, worker{1}, 1, "1 1", 5).rules() == "INV-M1");
}

TEST_CASE("INV-M1 checker: nobody steps with a process that another one has followed") {
  story s{make_replica_checker};
  entered(s, worker{0}, 1, "1 2");
  CHECK(entered(s, worker{0}, 2, "2 2").is_good());
  CHECK(entered(s, worker{0}, 3, "2 1").rules() == "INV-M1");
}

TEST_CASE("INV-M1 checker: a strategy that was left applies nothing any more") {
  both s;
  entered(s, worker{0}, 2);
  CHECK(applied(s, 0, 0, 2).is_good());
  CHECK(applied(s, 0, 1, 1).rules().find("INV-M1") != std::string::npos);
}

TEST_CASE("INV-A1 checker: calls of strategies return in time") {
  both good;
  begun(good).at(2100ms).tell(worker{0}, "replica.ended");
  CHECK(good.is_good());
  both late;
  begun(late).at(3s).tell(worker{0}, "replica.ended");
  CHECK(late.rules() == "INV-A1");
  both paused;
  begun(paused).tell(worker{0}, "sim.action", {{"kind", "pause"}, {"length", 1}});
  paused.at(3s).tell(worker{0}, "replica.ended");
  CHECK(paused.is_good());
}

TEST_CASE("INV-A1 checker: an error has a cause, and names somebody") {
  both nothing;
  CHECK(gave_up(nothing, errc::deadline, "waits for {1}").rules() == "INV-A1");
  both crash;
  crash.tell(worker{1}, "sim.crash");
  CHECK(gave_up(crash, errc::peer_lost, "member 1 (id 1 at x) is gone").is_good());
  CHECK(gave_up(crash, errc::peer_lost, "somebody is gone").rules() == "INV-A1");
  both odd;
  odd.tell(worker{0}, "replica.misdeed", {{"kind", 1}});
  CHECK(gave_up(odd, errc::mismatch, "").is_good());
  CHECK(gave_up(odd, errc::bad_frame, "").rules() == "INV-A1");
}
