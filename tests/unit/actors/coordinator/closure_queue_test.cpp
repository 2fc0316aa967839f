// Goal: putting, taking, coming back and waiting, row by row. Method: one queue, the test plays the
// coordinator; user threads are real and their sleeping is observed, never timed.
#include <doctest/doctest.h>

#include "queue_support.hpp"

using namespace troupe;
using namespace troupe::test;

// -- B: schedule ---------------------------------------------------------------------------------

TEST_CASE("PS-B7 schedule waits at the bound until a worker takes a closure") {
  queue_world w{{.queue_len_max = 2}};
  w.put();
  w.put();
  caller<value_ptr> third{[&] { return put_now(w); }};
  w.world.until_asleep(1);
  CHECK(!third.returned());
  CHECK(w.queue->levels().queued == 2);
  CHECK(w.take_seqs(0, 1) == seqs{1});
  REQUIRE(third.outcome());
  CHECK((*third.outcome())->id == closure_id{term_no{3}, 3});
  CHECK(w.queue->levels().queued == 2);
  CHECK(w.queue->levels().in_flight == 1);
}

TEST_CASE("PS-B8 the next schedule raises the first error and its own closure is cancelled") {
  queue_world w;
  w.put();
  w.put();
  auto a = w.take_one();
  auto b = w.take_one();
  w.fail(a, "first");
  w.fail(b, "second");
  closure late = make_closure();
  late.result = std::make_shared<remote_state>();
  auto value = late.result;
  auto got = w.queue->put(std::move(late), never);
  REQUIRE(!got);
  CHECK(got.error().code == errc::user_code);
  CHECK(got.error().text == "first");
  CHECK(value->status == remote_status::cancelled);
  CHECK(value->why.code == errc::cancelled);
  CHECK(value->why.text.find("first") != std::string::npos);
}

TEST_CASE("PS-B9 when schedule raises nothing is in flight any more") {
  queue_world w;
  w.put();
  w.put();
  auto a = w.take_one();
  auto b = w.take_one();
  w.fail(a);
  caller<value_ptr> late{[&] { return put_now(w); }};
  w.world.until_asleep(1);
  CHECK(w.cancels == 1);
  CHECK(!late.returned());
  w.queue->mark_cancelled(b, make_failure(errc::cancelled, "stopped"));
  CHECK(!late.outcome());
  CHECK(w.queue->levels().in_flight == 0);
}

TEST_CASE("PS-B10 after the raise the error is gone and schedule works again") {
  queue_world w;
  w.put();
  w.fail(w.take_one());
  CHECK(!put_now(w));
  CHECK(!w.queue->levels().has_error);
  auto next = put_now(w);
  REQUIRE(next);
  auto c = w.take_one();
  REQUIRE(c);
  CHECK(c->id == (*next)->id);
  w.finish(c);
  CHECK(w.queue->wait(w.world.now()));
}

TEST_CASE("PS-B11 schedule waits while another thread is inside join, which has a cut-off") {
  queue_world w;
  w.put();
  auto c = w.take_one();
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(1);
  caller<value_ptr> late{[&] { return put_now(w); }};
  w.world.until_asleep(2);
  CHECK(!late.returned());
  CHECK(w.queue->counts().scheduled == 1);
  w.finish(c);
  CHECK(join.outcome());
  CHECK(late.outcome());
  CHECK(w.queue->levels().queued == 1);
}

TEST_CASE("PS-B12 the global queue is first in, first out") {
  queue_world w;
  for (int i = 0; i < 5; ++i)
    w.put();
  CHECK(w.take_seqs(0, 2) == seqs{1, 2});
  CHECK(w.take_seqs(1, 9) == seqs{3, 4, 5});
}

TEST_CASE(
  "PS-B15 a tagged closure is run by its worker only, before all others, and joins ignore it") {
  queue_world w{{.queue_len_max = 1}};
  w.put({.priority = 3});
  auto value = w.queue->put_tagged(make_closure(), 1); // beyond the bound
  CHECK(w.queue->levels().queued == 1);
  CHECK(w.queue->levels().tagged_queued == 1);
  auto mine = w.queue->take(1, 1, true);
  REQUIRE(mine.size() == 1);
  CHECK(mine[0]->result == value);
  CHECK(w.queue->levels().in_flight == 0);
  CHECK(w.queue->levels().tagged_in_flight == 1);
  w.finish(w.take_one(0));
  CHECK(*w.queue->done());
  CHECK(w.queue->wait(w.world.now()));
  w.finish(mine[0]);
  CHECK(value->status == remote_status::ready);
  CHECK(w.queue->counts().scheduled == 1);
}

TEST_CASE("PS-B15 another worker never takes a tagged closure") {
  queue_world w;
  w.queue->put_tagged(make_closure(), 1);
  CHECK(w.take_seqs(0, 5).empty());
  CHECK(w.take_seqs(1, 5) == seqs{1});
}

// -- order ---------------------------------------------------------------------------------------

TEST_CASE("closure queue: a higher class goes first, closure order inside") {
  queue_world w;
  for (int priority : {0, -3, 3, 0, 3, -3})
    w.put({.priority = priority});
  CHECK(w.queue->top_priority(0) == 3);
  CHECK(w.take_seqs(0, 9) == seqs{3, 5, 1, 4, 2, 6});
  CHECK(!w.queue->top_priority(0));
}

TEST_CASE("closure queue: affinity is kept, and merges with the shared line by class and id") {
  queue_world w;
  w.put({.worker = 1});                // 1
  w.put();                             // 2
  w.put({.worker = 1});                // 3
  w.put({.priority = 1, .worker = 0}); // 4
  w.put();                             // 5
  CHECK(w.take_seqs(0, 2) == seqs{4, 2});
  CHECK(w.take_seqs(1, 9) == seqs{1, 3, 5});
  w.put({.worker = 9});
  CHECK(w.take_seqs(0, 9).empty());
  CHECK(!*w.queue->done());
}

TEST_CASE("closure queue: a priority outside [-3, 3] is refused by name and value") {
  queue_world w;
  for (int bad : {-4, 4, 1000}) {
    closure c = make_closure();
    c.options.priority = bad;
    c.result = std::make_shared<remote_state>();
    auto value = c.result;
    auto got = w.queue->put(std::move(c), never);
    REQUIRE(!got);
    CHECK(got.error().code == errc::invalid_argument);
    CHECK(got.error().text.find("priority: " + std::to_string(bad)) != std::string::npos);
    CHECK(value->status == remote_status::cancelled);
  }
  CHECK(w.queue->counts().scheduled == 0);
}

TEST_CASE(
  "closure queue: ids are dense from 1 and carry the term; an attempt is one higher each time") {
  queue_world w;
  auto value = w.put();
  CHECK(value->id == closure_id{term_no{3}, 1});
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    auto c = w.take_one(attempt);
    CHECK(value_of(c->attempt) == attempt);
    w.queue->put_back(c, put_back_reason::recalled);
  }
  CHECK(w.queue->counts().put_back == 3);
}

// -- C: join, done, accounting -------------------------------------------------------------------

TEST_CASE("PS-C1 join with nothing scheduled returns at once, again and again") {
  queue_world w;
  for (int i = 0; i < 3; ++i)
    CHECK(w.queue->wait(w.world.now()));
}

TEST_CASE("PS-C2 join returns only once nothing is queued and nothing in flight") {
  queue_world w;
  w.put();
  w.put();
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(1);
  auto a = w.take_one();
  auto b = w.take_one();
  w.finish(a);
  w.world.until_asleep(1);
  CHECK(!join.returned());
  CHECK(!w.queue->wait(w.world.now()));
  w.finish(b);
  CHECK(join.outcome());
}

TEST_CASE("PS-C2 join ends as soon as an error is recorded, though more is queued") {
  queue_world w;
  w.put();
  auto queued = w.put();
  auto a = w.take_one();
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(1);
  w.fail(a);
  CHECK(join.outcome().error().code == errc::user_code);
  CHECK(queued->status == remote_status::cancelled);
}

TEST_CASE("PS-C3 join takes a deadline, and the queue stays as it was") {
  queue_world w;
  w.put();
  caller<void> join{[&] { return w.queue->wait(after(w.world.now(), std::chrono::seconds{5})); }};
  w.world.until_asleep(1);
  w.world.advance(std::chrono::seconds{4});
  w.world.until_asleep(1);
  CHECK(!join.returned());
  w.world.advance(std::chrono::seconds{1});
  CHECK(join.outcome().error().code == errc::deadline);
  w.finish(w.take_one());
  CHECK(w.queue->wait(w.world.now()));
}

TEST_CASE("PS-C6 done does not block and is false while anything is queued or in flight") {
  queue_world w;
  CHECK(*w.queue->done());
  w.put();
  CHECK(!*w.queue->done());
  auto c = w.take_one();
  CHECK(!*w.queue->done());
  w.finish(c);
  CHECK(*w.queue->done());
}

TEST_CASE("PS-C7 done raises the first error, waits for what is in flight, and clears it") {
  queue_world w;
  w.put();
  w.put();
  auto a = w.take_one();
  auto b = w.take_one();
  w.fail(a);
  caller<bool> done{[&] { return w.queue->done(); }};
  w.world.until_asleep(1);
  CHECK(!done.returned());
  CHECK(w.cancels == 1);
  w.finish(b);
  CHECK(done.outcome().error().code == errc::user_code);
  CHECK(*w.queue->done());
}

TEST_CASE("PS-C8 taking counts in flight up, each of the three ends counts it down") {
  queue_world w;
  for (int i = 0; i < 4; ++i)
    w.put();
  auto taken = w.queue->take(0, 4, true);
  CHECK(w.queue->levels().in_flight == 4);
  w.finish(taken[0]);
  CHECK(w.queue->levels().in_flight == 3);
  w.queue->put_back(taken[1], put_back_reason::transient);
  CHECK(w.queue->levels().in_flight == 2);
  w.fail(taken[2]);
  CHECK(w.queue->levels().in_flight == 1);
  w.queue->mark_cancelled(taken[3], make_failure(errc::cancelled, ""));
  CHECK(w.queue->levels().in_flight == 0);
}

TEST_CASE("PS-C8 ending what is not in flight is an assertion") {
  queue_world w;
  w.put();
  w.put();
  auto ended = w.take_one();
  w.finish(ended);
  auto back = w.take_one();
  w.queue->put_back(back, put_back_reason::recalled);
  for (const auto& c : {ended, back}) {
    CHECK(asserts([&] { w.finish(c); }));
    CHECK(asserts([&] { w.fail(c); }));
    CHECK(asserts([&] { w.queue->mark_cancelled(c, {}); }));
    CHECK(asserts([&] { w.queue->put_back(c, put_back_reason::recalled); }));
  }
  CHECK(!asserts([&] { w.finish(w.take_one()); }));
}

TEST_CASE("PS-C9 a closure that comes back goes to the front of its class in closure order") {
  queue_world w;
  for (int i = 0; i < 6; ++i)
    w.put();
  auto taken = w.queue->take(0, 4, true);
  for (std::size_t i : {2u, 0u, 3u, 1u})
    w.queue->put_back(taken[i], put_back_reason::worker_lost_waiting);
  CHECK(w.take_seqs(1, 9) == seqs{1, 2, 3, 4, 5, 6});
}

TEST_CASE("PS-C9 once an error is recorded a closure that comes back is cancelled") {
  queue_world w;
  auto value = w.put();
  w.put();
  auto a = w.take_one();
  w.fail(w.take_one());
  w.queue->put_back(a, put_back_reason::worker_lost_running, task_id{job_kind::worker, 0});
  CHECK(value->status == remote_status::cancelled);
  CHECK(w.queue->levels().queued == 0);
  CHECK(w.queue->counts().put_back == 0);
}

TEST_CASE("PS-C11 a worker gets nothing when nothing is there, and nothing after a stop") {
  queue_world w;
  CHECK(w.queue->take(0, 1, true).empty());
  auto value = w.put();
  w.queue->stop();
  CHECK(w.queue->take(0, 1, true).empty());
  CHECK(value->status == remote_status::cancelled);
}

TEST_CASE(
  "PS-C12 coming back is exempt from the bound: a full queue with a waiting producer does not "
  "hang") {
  queue_world w{{.queue_len_max = 1}};
  w.put();
  auto a = w.take_one();
  w.put();
  caller<value_ptr> third{[&] { return put_now(w); }};
  w.world.until_asleep(1);
  w.queue->put_back(a, put_back_reason::worker_lost_waiting);
  CHECK(w.queue->levels().queued == 2);
  CHECK(w.take_seqs(0, 1) == seqs{1});
  w.world.until_asleep(1);
  CHECK(!third.returned()); // one is queued still, which is the bound
  CHECK(w.take_seqs(0, 1) == seqs{2});
  CHECK(third.outcome());
}
