// Goal: the rule of collective groups, told by hand: a story that breaks it is found.

#include <doctest/doctest.h>

#include "checker_support.hpp"

using namespace troupe;
using namespace troupe::sim;
using namespace troupe::sim::testing;
using namespace std::chrono_literals;

namespace {

story& begun(story& s, node_name who, duration deadline = 2s) {
  return s.tell(who, "group.begun", {{"what", "all_reduce"}, {"deadline", deadline.count()}});
}

story& got(story& s, std::uint32_t rank, int digest, int expected = 7,
           const char* kind = "all_reduce") {
  return s.tell(worker{rank}, "group.result",
                {{"epoch", 1},
                 {"number", 1},
                 {"kind", kind},
                 {"rank", rank},
                 {"digest", digest},
                 {"expected", expected}});
}

story& gave_up(story& s, errc code, int missing = 1) {
  return s.tell(
    worker{0}, "group.failed",
    {{"epoch", 1}, {"what", "all_reduce"}, {"code", code}, {"missing", missing}, {"why", "so"}});
}

} // namespace

TEST_CASE("INV-A1 checker: all get what all gave") {
  story s{make_group_checker};
  begun(s, worker{0});
  got(s, 0, 7);
  CHECK(got(s, 1, 7).is_good());
}

TEST_CASE("INV-A1 checker: a member that gets less") {
  story s{make_group_checker};
  got(s, 0, 7);
  CHECK(got(s, 1, 6).rules() == "INV-A1 INV-A1"); // not what was given, not what the other got
}

TEST_CASE("INV-A1 checker: segments differ from member to member") {
  story s{make_group_checker};
  got(s, 0, 7, 7, "reduce_scatter");
  CHECK(got(s, 1, 8, 8, "reduce_scatter").is_good());
}

TEST_CASE("INV-A1 checker: members that do different things") {
  story s{make_group_checker};
  got(s, 0, 7, 7, "reduce");
  CHECK(got(s, 1, 7, 7, "barrier").rules() == "INV-A1");
}

TEST_CASE("INV-A1 checker: two members of one rank") {
  story s{make_group_checker};
  got(s, 0, 7);
  CHECK(got(s, 0, 7).rules() == "INV-A1");
}

TEST_CASE("INV-A1 checker: an error says who is missing, in its own words") {
  story good{make_group_checker};
  CHECK(gave_up(good, errc::peer_lost).is_good());
  story nobody{make_group_checker};
  CHECK(gave_up(nobody, errc::deadline, 0).rules() == "INV-A1");
  story other{make_group_checker};
  CHECK(gave_up(other, errc::mismatch).rules() == "INV-A1");
}

TEST_CASE("INV-A1 checker: nobody waits past the deadline, unless its machine stood still") {
  story late{make_group_checker};
  begun(late.at(0s), worker{0});
  CHECK(gave_up(late.at(2600ms), errc::deadline).rules() == "INV-A1");
  story paused{make_group_checker};
  begun(paused.at(0s), worker{0});
  paused.tell(worker{0}, "sim.action", {{"kind", "pause"}});
  CHECK(gave_up(paused.at(2600ms), errc::deadline).is_good());
  story crashed{make_group_checker};
  begun(crashed.at(0s), worker{0});
  crashed.tell(worker{0}, "sim.crash", {{"flags", 0}});
  CHECK(gave_up(crashed.at(2600ms), errc::deadline).is_good());
}
