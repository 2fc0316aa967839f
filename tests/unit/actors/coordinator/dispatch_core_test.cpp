#include <troupe/actors/coordinator/dispatch_core.hpp>

#include <deque>
#include <string>

#include <doctest/doctest.h>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr incarnation first_session{.counter = 1, .nonce = 11};
constexpr function_index fn{3};

time_point at(duration d) { return time_point{d}; }

closure_ptr numbered(std::uint64_t seq) {
  auto c = std::make_shared<closure>();
  c->id = {term_no{1}, seq};
  c->function = fn;
  c->attempt = attempt_no{1};
  return c;
}

/// `count` flights to `worker`, numbered from `first`, sent at `when`.
void send(dispatch_core& core, std::uint32_t worker, std::uint64_t first, int count,
          duration when = 0ns) {
  for (int i = 0; i < count; ++i)
    core.sent(worker, {.what = numbered(first + static_cast<std::uint64_t>(i)),
                       .attempt = attempt_no{1},
                       .sent = at(when)});
}

} // namespace

TEST_CASE("PS-W24 room is one running closure a thread and the credits ahead of it") {
  dispatch_core core;
  function_times times;
  core.worker_up(0, first_session, 1);
  core.worker_up(1, first_session, 3);
  CHECK(core.room(0, fn, times) == 2); // never seen: one running, one ahead
  CHECK(core.room(1, fn, times) == 4);
  send(core, 0, 1, 2);
  CHECK(core.room(0, fn, times) == 0);
  times.add(fn, 100'000); // 0.1 ms: forty ahead make four milliseconds
  CHECK(core.room(0, fn, times) == 39);
  times.add(fn, 10);
  times.add(fn, 10);
  CHECK(core.room(0, fn, times) == 255); // at most 256 ahead
}

TEST_CASE("a few closures are not worth a message to a worker that has more waiting") {
  dispatch_core core;
  core.worker_up(0, first_session, 2);
  CHECK(core.worth_sending(0, 1, 258)); // it has nothing to do
  send(core, 0, 1, 2);
  CHECK(core.worth_sending(0, 1, 256)); // nothing waits there
  send(core, 0, 3, 1);
  CHECK_FALSE(core.worth_sending(0, 1, 255));
  CHECK_FALSE(core.worth_sending(0, 31, 255));
  CHECK(core.worth_sending(0, 32, 255));
  CHECK(core.worth_sending(0, 2, 1)); // few make half of all that a worker of long steps takes
  CHECK(core.worth_sending(0, 3, 3));
  CHECK_FALSE(core.worth_sending(0, 2, 3));
}

TEST_CASE("a worker that was asked to give back gets nothing before it has answered") {
  dispatch_core core;
  function_times times;
  core.worker_up(0, first_session, 1);
  send(core, 0, 1, 1);
  core.recall_sent(0, 2);
  CHECK(core.room(0, fn, times) == 0);
  core.recall_answered(0, 1);
  CHECK(core.room(0, fn, times) == 0);
  core.recall_answered(0, 5); // more answers than questions do no harm
  CHECK(core.room(0, fn, times) == 1);
  core.recall_answered(7, 1); // nor does a worker that has gone
}

TEST_CASE("a worker that is given up gets nothing more, whatever room it has") {
  dispatch_core core;
  function_times times;
  core.worker_up(0, first_session, 1);
  core.set_leaving(0);
  CHECK(core.room(0, fn, times) == 0);
  core.worker_down(0);
  core.worker_up(0, {.counter = 2, .nonce = 12}, 1); // its next session does
  CHECK(core.room(0, fn, times) == 2);
}

TEST_CASE("a completion watermark is due after several times as many ends as it names") {
  dispatch_core core;
  core.worker_up(0, first_session, 1);
  CHECK_FALSE(core.list_is_due(255, 256)); // few are in flight
  CHECK(core.list_is_due(256, 256));
  send(core, 0, 1, 64);
  CHECK(core.list_is_due(256, 256));
  send(core, 0, 65, 1);
  CHECK_FALSE(core.list_is_due(259, 256));
  CHECK(core.list_is_due(260, 256));
  core.ended(0, numbered(1)->id, attempt_no{1});
  CHECK(core.list_is_due(256, 256)); // it would name one less
}

TEST_CASE("work is offered to the worker with the fewest flights first, then by index") {
  dispatch_core core;
  for (std::uint32_t i : {2, 0, 1})
    core.worker_up(i, first_session, 1);
  CHECK(core.by_load() == std::vector<std::uint32_t>{0, 1, 2});
  send(core, 0, 1, 2);
  send(core, 1, 3, 1);
  CHECK(core.by_load() == std::vector<std::uint32_t>{2, 1, 0});
}

TEST_CASE("PS-D13 an end counts once, for the attempt that flies there") {
  dispatch_core core;
  core.worker_up(0, first_session, 1);
  core.worker_up(1, first_session, 1);
  send(core, 0, 1, 3);
  CHECK(core.in_flight() == 3);
  const closure_id two{term_no{1}, 2};
  CHECK_FALSE(core.ended(0, two, attempt_no{2}));
  CHECK_FALSE(core.ended(1, two, attempt_no{1}));
  CHECK_FALSE(core.ended(9, two, attempt_no{1}));
  auto out = core.ended(0, two, attempt_no{1});
  REQUIRE(out);
  CHECK(out->what->id == two);
  CHECK_FALSE(core.ended(0, two, attempt_no{1}));
  CHECK(core.in_flight() == 2);
}

TEST_CASE("PS-W8 a lost worker's flights come back in the order sent, and it gets no more") {
  dispatch_core core;
  core.worker_up(0, first_session, 1);
  core.worker_up(1, first_session, 1);
  send(core, 0, 1, 3);
  send(core, 1, 9, 1);
  auto flights = core.worker_down(0);
  REQUIRE(flights.size() == 3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(flights[i].what->id.seq == i + 1);
  CHECK(core.live() == 1);
  CHECK(core.in_flight() == 1);
  CHECK(core.by_load() == std::vector<std::uint32_t>{1});
  CHECK(core.worker_down(0).empty());
}

TEST_CASE("only the living incarnation of a worker is up") {
  dispatch_core core;
  core.worker_up(0, first_session, 1);
  CHECK(core.is_up(0, first_session));
  CHECK_FALSE(core.is_up(0, {.counter = 2, .nonce = 11}));
  CHECK_FALSE(core.is_up(0, {.counter = 1, .nonce = 12}));
  CHECK_FALSE(core.is_up(1, first_session));
  core.worker_down(0);
  CHECK_FALSE(core.is_up(0, first_session));
}

TEST_CASE("half of what waits on the fullest worker is asked back when another is idle") {
  dispatch_core core;
  for (std::uint32_t i = 0; i < 3; ++i)
    core.worker_up(i, first_session, 1);
  send(core, 0, 1, 6); // one runs, five wait
  send(core, 1, 10, 3);
  CHECK_FALSE(core.plan_recall(at(1ms), 2ms)); // they have not waited long enough
  auto plan = core.plan_recall(at(2ms), 2ms);
  REQUIRE(plan);
  CHECK(plan->worker == 0);
  CHECK(plan->count == 3);
  core.recall_sent(0, 3);
  plan = core.plan_recall(at(2ms), 2ms);
  REQUIRE(plan);
  CHECK(plan->worker == 1); // one question at a time to each
  CHECK(plan->count == 1);
}

TEST_CASE("nothing is asked back while every worker has work, or when nothing waits") {
  dispatch_core core;
  core.worker_up(0, first_session, 1);
  core.worker_up(1, first_session, 2);
  send(core, 0, 1, 4);
  send(core, 1, 9, 1);
  CHECK_FALSE(core.plan_recall(at(1s), 2ms));
  dispatch_core other;
  other.worker_up(0, first_session, 2);
  other.worker_up(1, first_session, 1);
  send(other, 0, 1, 2); // both run, each on its thread
  CHECK_FALSE(other.plan_recall(at(1s), 2ms));
}

// -- who is to blame

namespace {

/// 'b': known to have begun, 'a': would have said so, 's': short, says nothing.
std::deque<flight> flights_of(const std::string& kinds) {
  std::deque<flight> out;
  for (char kind : kinds)
    out.push_back({.what = numbered(out.size() + 1),
                   .attempt = attempt_no{1},
                   .announced = kind == 'a',
                   .begun = kind == 'b'});
  return out;
}

/// 'S': a failed attempt, 'd': in doubt, '-': nothing.
std::string blamed(const std::string& kinds, std::uint32_t threads) {
  std::string out;
  for (auto what : blame_of(flights_of(kinds), threads))
    out += what == blame::begun ? 'S' : what == blame::doubted ? 'd' : '-';
  return out;
}

} // namespace

TEST_CASE("innocent closures are not blamed: only what its worker said had begun") {
  CHECK(blamed("", 1) == "");
  CHECK(blamed("aaa", 1) == "d--"); // its word may have got lost with the worker
  CHECK(blamed("baa", 1) == "S--");
  CHECK(blamed("aaa", 2) == "dd-");
  CHECK(blamed("baa", 2) == "Sd-");
  CHECK(blamed("bab", 2) == "SdS");
  CHECK(blamed("ssss", 1) == "dddd"); // many may have ended without a word
  CHECK(blamed("ssas", 1) == "ddd-");
  CHECK(blamed("bsss", 1) == "S---"); // the first runs on, as far as is known
  CHECK(blamed("bsss", 2) == "Sddd");
}

TEST_CASE(
  "innocent closures: whatever flew, nobody is blamed without having begun, and what began "
  "always is") {
  for (std::uint32_t threads = 1; threads <= 3; ++threads)
    for (int code = 0; code < 243; ++code) {
      std::string kinds;
      for (int i = 0, rest = code; i < 5; ++i, rest /= 3)
        kinds += "bas"[rest % 3];
      const auto out = blamed(kinds, threads);
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        CAPTURE(kinds);
        CAPTURE(threads);
        CHECK((out[i] == 'S') == (kinds[i] == 'b'));
        if (i < threads && kinds[i] != 'b') // it may have been the one
          CHECK(out[i] == 'd');
      }
    }
}

TEST_CASE("a flight has begun once its worker says so of that attempt, and of no other") {
  dispatch_core core;
  core.worker_up(0, first_session, 1);
  send(core, 0, 1, 2);
  const closure_id one{term_no{1}, 1};
  core.begun(0, one, attempt_no{2});
  core.begun(1, one, attempt_no{1});
  CHECK_FALSE(core.workers().at(0).flights[0].begun);
  core.begun(0, one, attempt_no{1});
  CHECK(core.workers().at(0).flights[0].begun);
  CHECK_FALSE(core.workers().at(0).flights[1].begun);
}

TEST_CASE("a closure says that it begins unless that costs more than it is worth") {
  closure c;
  CHECK(announces(c, 0, 5)); // nobody knows how long it takes, nor whether it ends well
  CHECK_FALSE(announces(c, 100'000, 5));
  CHECK_FALSE(announces(c, 100'000, 0));
  CHECK(announces(c, 4'000'000, 5));
  CHECK(announces(c, 100'000, 1)); // the next failed attempt is the last
  c.failed_attempts = 1;
  CHECK_FALSE(announces(c, 100'000, 5));
  CHECK(announces(c, 100'000, 2));
  c.failed_attempts = 2; // it runs alone
  CHECK(announces(c, 100'000, 0));
  c.failed_attempts = 0;
  c.doubted = true;
  CHECK(announces(c, 100'000, 0));
}
