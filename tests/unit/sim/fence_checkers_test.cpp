// Stories of fences, terms, views and limits.

#include <doctest/doctest.h>

#include "checker_support.hpp"

using namespace troupe;
using namespace troupe::sim;
using namespace troupe::sim::testing;

namespace {

constexpr int nonce_of_server = 500;

story& joined(story& s, const char* task, int incarnation, int nonce, int epoch) {
  return s.tell(chief, "membership.joined",
                {{"task", task}, {"incarnation", incarnation}, {"nonce", nonce}, {"epoch", epoch}});
}

story& lost(story& s, const char* task, int incarnation, int epoch) {
  return s.tell(
    chief, "membership.lost",
    {{"task", task}, {"incarnation", incarnation}, {"epoch", epoch}, {"clean", 0}, {"reason", ""}});
}

story& view(story& s, const char* id, int epoch, int term = 1) {
  return s.tell(server{0}, id,
                {{"task", "ps:0"},
                 {"incarnation", 1},
                 {"nonce", nonce_of_server},
                 {"term", term},
                 {"epoch", epoch}});
}

story& granted(story& s, int term, int holder) {
  return s.tell(server{0}, "server.term_granted", {{"term", term}, {"holder", holder}});
}

/// A server and worker 0 have joined; then that worker is fenced in epoch 3.
story& fenced_worker(story& s) {
  joined(s, "ps:0", 1, nonce_of_server, 1);
  view(s, "member.admitted", 1);
  granted(s, 1, 42);
  joined(s, "worker:0", 1, 7, 2);
  return lost(s, "worker:0", 1, 3);
}

} // namespace

TEST_CASE("INV-P3 checker: a server that does not know of a fence yet may apply") {
  story s{make_fence_checker};
  CHECK(fenced_worker(s).applied(1, 1, 0, 0, 1).is_good());
}

TEST_CASE("INV-P3 checker: nothing of a fenced incarnation once the server has seen the view") {
  story s{make_fence_checker};
  view(fenced_worker(s), "member.view", 3);
  CHECK(s.applied(1, 1, 0, 0, 1, 2).is_good()); // the next incarnation
  CHECK(s.applied(1, 1, 0, 0, 1, 1).rules() == "INV-P3");
}

TEST_CASE("INV-P3 checker: nothing of an older term") {
  story s{make_fence_checker};
  fenced_worker(s);
  granted(s, 2, 43);
  CHECK(s.applied(1, 1, 0, 0, 1, 2, 2).is_good());
  CHECK(s.applied(1, 1, 0, 0, 1, 2, 1).rules() == "INV-P3");
}

TEST_CASE("INV-P3 checker: fences of one coordinator are not those of the next") {
  story s{make_fence_checker};
  fenced_worker(s).restart(chief);
  joined(s, "ps:0", 1, nonce_of_server, 1);
  view(s, "member.admitted", 1, 2);
  CHECK(s.applied(1, 1, 0, 0, 1).is_good()); // incarnations count anew
}

TEST_CASE("INV-M1 checker: epochs and terms only grow") {
  story s{make_fence_checker};
  fenced_worker(s);
  view(s, "member.view", 3);
  CHECK(s.is_good());
  view(s, "member.view", 2);
  CHECK(s.rules() == "INV-M1");
  story author{make_fence_checker};
  fenced_worker(author);
  joined(author, "worker:1", 1, 8, 2);
  CHECK(author.rules() == "INV-M1");
}

TEST_CASE("INV-M1 checker: a server grants a term to one coordinator, and never a lower one") {
  story s{make_fence_checker};
  granted(s, 1, 42);
  granted(s, 1, 42);
  granted(s, 2, 43);
  CHECK(s.is_good());
  granted(s, 1, 42);
  CHECK(s.rules() == "INV-M1");
  story two{make_fence_checker};
  granted(two, 1, 42);
  granted(two, 1, 43);
  CHECK(two.rules() == "INV-M1");
}

TEST_CASE("INV-M1 checker: two coordinators in one term, and a server that knows the first") {
  story s{make_fence_checker};
  granted(s, 1, 42);
  CHECK(s.dispatched(1, 1).restart(chief).dispatched(2, 1).rules() == "INV-M1");
}

TEST_CASE("INV-M1 checker: where no server is left, a term may come again") {
  story s{make_fence_checker};
  granted(s, 1, 42).dispatched(1, 1).restart(chief);
  s.tell(server{0}, "sim.crash", {{"flags", 0}});
  CHECK(s.dispatched(2, 1).is_good());
}

TEST_CASE("INV-M1 checker: one incarnation of a task is a member, and none that was fenced") {
  story two{make_fence_checker};
  joined(two, "worker:0", 1, 7, 1);
  joined(two, "worker:0", 2, 8, 2);
  CHECK(two.rules() == "INV-M1");
  story back{make_fence_checker};
  fenced_worker(back);
  joined(back, "worker:0", 1, 7, 4);
  CHECK(back.rules() == "INV-M1");
}

TEST_CASE("INV-M1 checker: a member that nobody admitted") {
  story s{make_fence_checker};
  view(s, "member.admitted", 1);
  CHECK(s.rules() == "INV-M1");
}

// --- limits

TEST_CASE("INV-B1 checker: a queue stays under its limit") {
  story s{make_bound_checker, {.queue_len_max = 2}};
  auto accept = [&](int closure, int queued) {
    s.tell(chief, "queue.accepted",
           {{"term", 1}, {"closure", closure}, {"priority", 0}, {"queued", queued}});
  };
  accept(1, 0);
  accept(2, 1);
  CHECK(s.is_good());
  accept(3, 2);
  CHECK(s.rules() == "INV-B1");
}

TEST_CASE("INV-B1 checker: a worker gets no more than its credits") {
  story s{make_bound_checker, {.credits_max = 2, .threads = 1}};
  s.dispatched(1, 1).dispatched(2, 1).dispatched(3, 1);
  CHECK(s.put_back(3).dispatched(4, 1).is_good());
  CHECK(s.dispatched(5, 1).rules() == "INV-B1");
}

TEST_CASE("INV-B2 checker: nothing is left at the end") {
  story s{make_bound_checker};
  s.accepted(1).tell(chief, "queue.join_begun", {{"term", 1}, {"upto", 1}});
  s.dispatched(1, 1).ended(1, 1, ready);
  s.tell(chief, "queue.join_ended", {{"term", 1}, {"upto", 1}, {"code", errc::none}});
  CHECK(s.end().is_good());
}

TEST_CASE("INV-B2 checker: a closure without an end, a join without a return") {
  story closure{make_bound_checker};
  CHECK(closure.accepted(1).end().rules() == "INV-B2");
  story join{make_bound_checker};
  join.tell(chief, "queue.join_begun", {{"term", 1}, {"upto", 1}});
  CHECK(join.end().rules() == "INV-B2");
}

TEST_CASE("INV-B2 checker: what a crashed coordinator had goes with it") {
  story s{make_bound_checker};
  s.accepted(1).tell(chief, "sim.crash", {{"flags", 0}});
  CHECK(s.end().is_good());
}
