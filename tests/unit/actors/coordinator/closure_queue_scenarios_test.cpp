// Goal: the queue scenarios T-Q1 to T-Q11 of the specification; stop, missing workers, wake-ups and
// completion watermarks.
#include <doctest/doctest.h>

#include <map>

#include "queue_support.hpp"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("T-Q1 taken, put back, taken, finished: the same closure twice, then join returns") {
  queue_world w;
  w.put();
  auto first = w.take_one();
  CHECK(!*w.queue->done());
  w.queue->put_back(first, put_back_reason::recalled);
  auto second = w.take_one();
  CHECK(first == second);
  CHECK(!*w.queue->done());
  w.finish(second);
  CHECK(*w.queue->done());
  CHECK(w.queue->wait(w.world.now()));
}

TEST_CASE(
  "T-Q2 two consumers that each put back their first closure: every label runs exactly once") {
  queue_world w;
  for (int i = 0; i < 5; ++i)
    w.put();
  std::mutex mutex;
  std::map<std::uint64_t, int> ran;
  auto consume = [&](std::uint32_t worker) {
    bool returned = false;
    for (;;) {
      auto got = w.queue->take(worker, 1, true);
      if (got.empty()) {
        if (w.queue->counts().finished == 5)
          return;
        std::this_thread::yield();
      } else if (!std::exchange(returned, true)) {
        w.queue->put_back(got[0], put_back_reason::worker_lost_waiting);
      } else {
        std::lock_guard lock{mutex};
        ++ran[got[0]->id.seq];
        w.finish(got[0]);
      }
    }
  };
  std::thread a{consume, 0};
  std::thread b{consume, 1};
  for (int i = 0; i < 4; ++i)
    CHECK(w.queue->wait(never));
  a.join();
  b.join();
  CHECK(ran == std::map<std::uint64_t, int>{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}});
}

TEST_CASE("T-Q3 a closure finished before join: it returns at once") {
  queue_world w;
  w.put();
  w.finish(w.take_one());
  CHECK(w.queue->wait(w.world.now()));
}

TEST_CASE(
  "T-Q4 a failure from another thread while joining is raised only after it; then done is true") {
  queue_world w;
  w.put();
  auto c = w.take_one();
  std::atomic<bool> failed{false};
  std::thread other{[&] {
    w.world.until_asleep(1);
    failed = true;
    w.queue->mark_failed(c, make_failure(errc::user_code, "ValueError"));
  }};
  auto raised = w.queue->wait(never);
  CHECK(failed);
  CHECK(raised.error().text == "ValueError");
  CHECK(*w.queue->done());
  other.join();
}

TEST_CASE(
  "T-Q5 two put, one taken: fail it, a third put raises; the second is cancelled, the next works") {
  queue_world w;
  w.put();
  auto second = w.put();
  w.fail(w.take_one(), "ValueError");
  CHECK(put_now(w).error().text == "ValueError");
  CHECK(*w.queue->done());
  CHECK(second->status == remote_status::cancelled);
  CHECK(put_now(w));
}

TEST_CASE("T-Q6 as Q5 with join: it raises, the second is cancelled, joining again returns") {
  queue_world w;
  w.put();
  auto second = w.put();
  w.fail(w.take_one(), "ValueError");
  CHECK(w.queue->wait(w.world.now()).error().text == "ValueError");
  CHECK(second->status == remote_status::cancelled);
  CHECK(w.queue->wait(w.world.now()));
}

TEST_CASE("T-Q7 as Q5 with done: false before, raises after") {
  queue_world w;
  w.put();
  w.put();
  auto first = w.take_one();
  CHECK(!*w.queue->done());
  w.fail(first, "ValueError");
  CHECK(w.queue->done().error().text == "ValueError");
  CHECK(*w.queue->done());
}

TEST_CASE("T-Q9 an error raised once is not stored: two puts work") {
  queue_world w;
  w.put();
  w.fail(w.take_one());
  CHECK(!put_now(w));
  CHECK(put_now(w));
  CHECK(put_now(w));
  CHECK(!w.queue->levels().has_error);
}

TEST_CASE(
  "T-Q11 tags: a worker takes its tagged closure, then the global one; done ignores the other "
  "tag") {
  queue_world w;
  auto c3 = w.queue->put_tagged(make_closure(), 1);
  auto c2 = w.queue->put_tagged(make_closure(), 2);
  auto c1 = w.put();
  auto first = w.take_one(2);
  CHECK(first->result == c2);
  auto second = w.take_one(2);
  CHECK(second->result == c1);
  w.finish(second);
  CHECK(*w.queue->done());
  CHECK(c3->status == remote_status::not_ready);
}

TEST_CASE("PS-R4 the tagged closures of a lost worker leave the queue without an end") {
  queue_world w;
  auto mine = w.queue->put_tagged(make_closure(), 1);
  w.queue->put_tagged(make_closure(), 2);
  auto dropped = w.queue->drop_tagged(1);
  REQUIRE(dropped.size() == 1);
  CHECK(dropped[0]->result == mine);
  CHECK(mine->status == remote_status::not_ready);
  CHECK(w.take_seqs(1, 9).empty());
  CHECK(w.queue->levels().tagged_queued == 1);
  CHECK(w.queue->drop_tagged(5).empty());
}

// -- stop ----------------------------------------------------------------------------------------

TEST_CASE("PS-A15 a stop cancels all that has not ended and lets everybody go") {
  queue_world w{{.queue_len_max = 1}};
  auto flying = w.put();
  auto c = w.take_one();
  auto queued = w.put();
  auto resource = w.queue->put_tagged(make_closure(), 0);
  caller<value_ptr> late{[&] { return put_now(w); }};
  w.world.until_asleep(1);
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(2);
  w.queue->stop();
  CHECK(late.outcome().error().code == errc::unavailable);
  CHECK(join.outcome().error().code == errc::unavailable);
  for (const auto& value : {flying, queued, resource})
    CHECK(value->status == remote_status::cancelled);
  CHECK(w.cancels == 1);
  w.finish(c); // too late, and no harm
  CHECK(flying->status == remote_status::cancelled);
  w.queue->put_back(c, put_back_reason::recalled);
  w.queue->stop();
  CHECK(w.cancels == 1);
  CHECK(w.queue->wait(w.world.now()).error().code == errc::unavailable);
  CHECK(w.queue->done().error().code == errc::unavailable);
  CHECK(w.queue->put_tagged(make_closure(), 0)->status == remote_status::cancelled);
}

TEST_CASE("closure queue: a stop ends a raise that waits") {
  queue_world w;
  w.put();
  w.put();
  auto a = w.take_one();
  auto b = w.take_one();
  w.fail(a);
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(1);
  w.queue->stop();
  CHECK(join.outcome().error().code == errc::unavailable);
}

// -- no workers ----------------------------------------------------------------------------------

TEST_CASE(
  "PS-C5 without any live worker join and a blocked schedule raise after no_worker_ms_max") {
  queue_world w{{.queue_len_max = 1, .no_worker_ms_max = 1000}};
  w.put();
  w.queue->set_live_workers(0);
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(1);
  caller<value_ptr> late{[&] { return put_now(w); }};
  w.world.until_asleep(2);
  w.world.advance(std::chrono::milliseconds{999});
  w.world.until_asleep(2);
  CHECK(!join.returned());
  CHECK(!late.returned());
  w.world.advance(std::chrono::milliseconds{1});
  CHECK(join.outcome().error().code == errc::unavailable);
  CHECK(join.outcome().error().text.find("no_worker_ms_max = 1000 ms") != std::string::npos);
  CHECK(late.outcome().error().code == errc::unavailable);
}

TEST_CASE("closure queue: a worker that comes in time restarts the clock of no_worker_ms_max") {
  queue_world w{{.no_worker_ms_max = 1000}};
  w.put();
  w.queue->set_live_workers(0);
  w.queue->set_live_workers(0);
  CHECK(w.queue->no_worker_deadline() == after(w.world.now(), std::chrono::milliseconds{1000}));
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(1);
  w.world.advance(std::chrono::milliseconds{900});
  w.queue->set_live_workers(2);
  CHECK(w.queue->no_worker_deadline() == never);
  w.world.advance(std::chrono::milliseconds{5000});
  w.world.until_asleep(1);
  CHECK(!join.returned());
  w.finish(w.take_one());
  CHECK(join.outcome());
}

TEST_CASE("closure queue: a deadline ends a blocked schedule and its value is cancelled") {
  queue_world w{{.queue_len_max = 1}};
  w.put();
  closure c = make_closure();
  c.result = std::make_shared<remote_state>();
  auto value = c.result;
  auto got = w.queue->put(std::move(c), w.world.now());
  CHECK(got.error().code == errc::deadline);
  CHECK(got.error().text.find("1 closures queued") != std::string::npos);
  CHECK(value->status == remote_status::cancelled);
  CHECK(w.queue->counts().scheduled == 1);
}

// -- wake-ups ------------------------------------------------------------------------------------

TEST_CASE("closure queue: one wake-up when it was empty, none more before the next take") {
  queue_world w;
  w.put();
  w.put();
  CHECK(w.works == 1);
  w.take_seqs(0, 1); // one is left, and the worker got what it asked for
  w.put();
  CHECK(w.works == 1);
  w.take_seqs(0, 9);
  w.put();
  CHECK(w.works == 2);
}

TEST_CASE(
  "closure queue: a worker that got less than it asked is told of new work, whatever else is "
  "queued") {
  queue_world w;
  w.put({.worker = 5});
  CHECK(w.take_seqs(0, 1).empty());
  w.put();
  CHECK(w.works == 2);
  CHECK(w.take_seqs(0, 1) == seqs{2});
}

TEST_CASE("closure queue: what becomes takeable by an end or by coming back wakes as well") {
  queue_world w;
  auto a = w.put();
  w.put({}, {a});
  auto c = w.take_one();
  CHECK(w.works == 1);
  w.finish(c);
  CHECK(w.works == 2);
  auto d = w.take_one();
  w.queue->put_back(d, put_back_reason::recalled);
  CHECK(w.works == 3);
}

// -- completion watermarks ------------------------------------------------------------------------

TEST_CASE(
  "closure queue: the completion watermark has every id up to the highest dispatched that has not "
  "ended") {
  queue_world w;
  CHECK(w.queue->highest_dispatched() == 0);
  CHECK(w.queue->unsettled().empty());
  auto a = w.put();        // 1
  w.put({.priority = -1}); // 2: never dispatched
  w.put();                 // 3
  w.put({}, {a});          // 4: waits
  w.put({.priority = 2});  // 5
  w.put();                 // 6: above the highest
  auto c5 = w.take_one();
  auto c1 = w.take_one();
  auto c3 = w.take_one();
  w.queue->put_back(c3, put_back_reason::recalled);
  auto list = w.queue->settled();
  CHECK(list.term == term_no{3});
  CHECK(list.highest == 5);
  CHECK(list.open == seqs{1, 2, 3, 4, 5});
  w.finish(c5);
  CHECK(w.queue->unsettled() == seqs{1, 2, 3, 4});
  w.fail(c1);
  CHECK(w.queue->unsettled() == seqs{2, 3});
}

TEST_CASE("closure queue: counts add up and a batch of ends is one call") {
  queue_world w;
  for (int i = 0; i < 5; ++i)
    w.put();
  auto taken = w.queue->take(0, 4, true);
  std::vector<closure_end> ends(4);
  for (std::size_t i = 0; i < 4; ++i)
    ends[i].which = taken[i];
  ends[1].status = remote_status::failed;
  ends[1].why = make_failure(errc::user_code, "x");
  ends[2].status = remote_status::cancelled;
  ends[2].why = make_failure(errc::cancelled, "y");
  ends[3].status = remote_status::failed;
  ends[3].why = make_failure(errc::cancelled, "z");
  w.queue->mark_ended(ends);
  auto n = w.queue->counts();
  CHECK(n.scheduled == 5);
  CHECK(n.finished == 1);
  CHECK(n.failed == 1);
  CHECK(n.cancelled == 2);
  CHECK(w.queue->levels().queued == 1);
}
