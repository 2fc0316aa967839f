// Goal: the error state, cancellation, inputs, failed attempts, stop and the missing workers; and
// the scenarios of the specification's queue table. Method as in closure_queue_test.cpp.
#include <doctest/doctest.h>

#include "queue_support.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr task_id worker_n(std::uint32_t n) { return {job_kind::worker, n}; }

} // namespace

// -- E: errors -----------------------------------------------------------------------------------

TEST_CASE("PS-E1 exactly one error is raised, the first recorded; errors() lists every one") {
  queue_world w;
  for (int i = 0; i < 3; ++i)
    w.put();
  auto taken = w.queue->take(0, 3, true);
  w.fail(taken[1], "first");
  w.fail(taken[0], "second");
  w.fail(taken[2], "third");
  CHECK(w.queue->wait(w.world.now()).error().text == "first");
  CHECK(w.queue->wait(w.world.now()));
  auto all = w.queue->errors();
  REQUIRE(all.size() == 3);
  CHECK(all[0].text == "first");
  CHECK(all[2].text == "third");
}

TEST_CASE("closure queue: errors() keeps the latest and counts all") {
  queue_world w{{.errors_len_max = 2}};
  for (int i = 0; i < 5; ++i)
    w.put();
  int n = 0;
  for (const auto& c : w.queue->take(0, 5, true))
    w.fail(c, std::to_string(n++));
  CHECK(w.queue->error_count() == 5);
  auto all = w.queue->errors();
  REQUIRE(all.size() == 2);
  CHECK(all[0].text == "3");
  CHECK(all[1].text == "4");
}

TEST_CASE("PS-E1 of several waiting threads exactly one gets the error") {
  queue_world w;
  w.put();
  auto c = w.take_one();
  caller<void> a{[&] { return w.queue->wait(never); }};
  caller<void> b{[&] { return w.queue->wait(never); }};
  caller<value_ptr> d{[&] { return put_now(w); }};
  w.world.until_asleep(3);
  w.fail(c);
  const int raised = !a.outcome() + !b.outcome() + !d.outcome();
  CHECK(raised == 1);
}

TEST_CASE("PS-E2 between the error and the raise workers keep taking closures") {
  queue_world w;
  for (int i = 0; i < 3; ++i)
    w.put();
  w.fail(w.take_one());
  auto second = w.take_one();
  REQUIRE(second);
  w.finish(second);
  CHECK(!w.queue->wait(w.world.now()));
  CHECK(w.queue->counts().finished == 1);
  CHECK(w.queue->counts().cancelled == 1);
}

TEST_CASE(
  "PS-E3 a raise cancels what is in flight, waits, cancels what is queued, renews, raises, "
  "clears") {
  queue_world w;
  w.put();
  w.put();
  auto queued = w.put();
  auto a = w.take_one();
  auto b = w.take_one();
  w.fail(a);
  const auto generation = w.queue->cancel_generation();
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(1);
  CHECK(w.cancels == 1); // 1
  CHECK(w.cancelled_generation == generation);
  CHECK(!join.returned()); // 2
  CHECK(queued->status == remote_status::not_ready);
  CHECK(w.queue->take(0, 9, true).empty()); // nothing new while it lasts
  CHECK(w.queue->cancel_generation() == generation);
  w.finish(b);
  CHECK(!join.outcome());
  CHECK(queued->status == remote_status::cancelled);     // 3
  CHECK(w.queue->cancel_generation() == generation + 1); // 4
  CHECK(!w.queue->levels().has_error);                   // 5
}

TEST_CASE("PS-E4 the end of a closure that the raise cancelled never replaces the first error") {
  for (bool as_failure : {false, true}) {
    queue_world w;
    w.put();
    auto value = w.put();
    auto a = w.take_one();
    auto b = w.take_one();
    w.fail(a, "first");
    w.when_cancelled = [&] {
      if (as_failure)
        w.queue->mark_failed(b, make_failure(errc::cancelled, "interrupted"));
      else
        w.queue->mark_cancelled(b, make_failure(errc::cancelled, "interrupted"));
    };
    CHECK(w.queue->wait(w.world.now()).error().text == "first");
    CHECK(value->status == remote_status::cancelled);
    CHECK(value->why.text == "interrupted");
    CHECK(w.queue->errors().size() == 1);
    CHECK(w.queue->wait(w.world.now()));
  }
}

TEST_CASE(
  "PS-E4 a step that throws something else because of the cancel does not replace it either") {
  queue_world w;
  w.put();
  w.put();
  auto a = w.take_one();
  auto b = w.take_one();
  w.fail(a, "first");
  w.when_cancelled = [&] { w.fail(b, "a consequence"); };
  CHECK(w.queue->wait(w.world.now()).error().text == "first");
  CHECK(w.queue->wait(w.world.now()));
}

TEST_CASE("PS-E5 three put, two taken, the first fails: counts before and after the raise") {
  queue_world w;
  for (int i = 0; i < 3; ++i)
    w.put();
  auto a = w.take_one();
  auto b = w.take_one();
  w.fail(a);
  auto before = w.queue->levels();
  CHECK(before.queued == 1);
  CHECK(before.in_flight == 1);
  CHECK(before.has_error);
  w.when_cancelled = [&] { w.queue->mark_cancelled(b, make_failure(errc::cancelled, "")); };
  CHECK(!put_now(w));
  auto levels = w.queue->levels();
  CHECK(levels.queued == 0);
  CHECK(levels.in_flight == 0);
  CHECK(!levels.has_error);
  CHECK(w.queue->cancel_generation() > w.cancelled_generation);
}

TEST_CASE("PS-E7 after several failures a join after the first raise returns normally") {
  queue_world w;
  for (int i = 0; i < 4; ++i)
    w.put();
  for (const auto& c : w.queue->take(0, 4, true))
    w.fail(c);
  CHECK(!w.queue->wait(w.world.now()));
  CHECK(w.queue->wait(w.world.now()));
  CHECK(*w.queue->done());
}

TEST_CASE("PS-E8 tagged closures are not part of a raise") {
  queue_world w;
  auto resource = w.queue->put_tagged(make_closure(), 0);
  w.put();
  auto b = w.queue->take(1, 1, true);
  w.fail(b[0]);
  CHECK(!w.queue->wait(w.world.now()));
  CHECK(resource->status == remote_status::not_ready);
  w.finish(w.take_one());
  CHECK(resource->status == remote_status::ready);
}

TEST_CASE("PS-E10 a failing tagged closure is listed at once and raised only by what takes it") {
  queue_world w;
  auto resource = w.queue->put_tagged(make_closure(), 0);
  w.fail(w.take_one(), "no such file");
  CHECK(w.queue->errors().size() == 1);
  CHECK(w.queue->wait(w.world.now()));
  auto value = w.put({}, {resource});
  CHECK(value->status == remote_status::failed);
  auto raised = w.queue->wait(w.world.now());
  CHECK(raised.error().code == errc::input_failed);
  CHECK(raised.error().text.find("no such file") != std::string::npos);
}

TEST_CASE("PS-E11 a failed input fails what takes it with the innermost text, never nested twice") {
  queue_world w;
  auto a = w.put();
  auto b = w.put({}, {a});
  auto c = w.put({}, {b});
  auto d = w.put({}, {c, a});
  CHECK(w.queue->levels().waiting_for_inputs == 3);
  w.fail(w.take_one(), "the cause");
  for (const auto& value : {b, c, d}) {
    CHECK(value->status == remote_status::failed);
    CHECK(value->why.code == errc::input_failed);
    const std::string& text = value->why.text;
    CHECK(text.find("the cause") != std::string::npos);
    CHECK(text.find("closure 3:1 ") != std::string::npos);
    CHECK(text.find("input") == text.rfind("input"));
  }
  CHECK(w.queue->levels().waiting_for_inputs == 0);
  CHECK(w.queue->wait(w.world.now()).error().text
        == "the cause"); // raised once, and nothing beside it
  CHECK(w.queue->wait(w.world.now()));
}

TEST_CASE(
  "PS-E13 a closure whose worker is lost during a raise ends cancelled and is not tried again") {
  queue_world w;
  w.put();
  auto value = w.put();
  auto a = w.take_one();
  auto b = w.take_one();
  w.fail(a);
  w.when_cancelled = [&] {
    w.queue->put_back(b, put_back_reason::worker_lost_running, worker_n(0));
  };
  CHECK(!w.queue->wait(w.world.now()));
  CHECK(value->status == remote_status::cancelled);
  CHECK(!w.take_one());
}

TEST_CASE("closure queue: a raise whose caller runs out of time is completed by the next call") {
  queue_world w;
  w.put();
  auto queued = w.put();
  w.put();
  auto a = w.take_one();
  auto b = w.queue->take(0, 1, true);
  w.fail(a, "first");
  CHECK(w.queue->wait(w.world.now()).error().code == errc::deadline);
  CHECK(w.queue->wait(w.world.now()).error().code == errc::deadline);
  CHECK(w.cancels == 1);
  CHECK(w.take_seqs(0, 5).empty());
  w.finish(b[0]);
  CHECK(queued->status == remote_status::ready);
  CHECK(w.queue->done().error().text == "first");
  CHECK(w.queue->wait(w.world.now()));
}

// -- inputs --------------------------------------------------------------------------------------

TEST_CASE("closure queue: a closure is takeable once all its inputs are ready, in closure order") {
  queue_world w;
  auto a = w.put();
  auto b = w.put();
  w.put({}, {a, b, a}); // 3
  w.put();              // 4
  auto ca = w.take_one();
  auto cb = w.take_one();
  w.finish(ca);
  CHECK(w.queue->levels().waiting_for_inputs == 1);
  CHECK(!*w.queue->done());
  w.finish(cb);
  CHECK(w.queue->levels().waiting_for_inputs == 0);
  CHECK(w.take_seqs(0, 9) == seqs{3, 4});
}

TEST_CASE("closure queue: inputs that are there at schedule hold nothing up") {
  queue_world w;
  auto a = w.put();
  w.finish(w.take_one());
  w.put({}, {a});
  CHECK(w.take_seqs(0, 9) == seqs{2});
}

TEST_CASE("closure queue: a cancelled input fails what takes it, and that is raised") {
  queue_world w;
  auto a = w.put();
  auto b = w.put({}, {a});
  w.queue->mark_cancelled(w.take_one(), make_failure(errc::cancelled, "by hand"));
  CHECK(b->why.code == errc::input_failed);
  CHECK(b->why.text.find("by hand") != std::string::npos);
  CHECK(w.queue->wait(w.world.now()).error().code == errc::input_failed);
}

TEST_CASE("closure queue: a chain of 20000 inputs fails from its first link without recursion") {
  queue_world w{{.queue_len_max = 30'000}};
  auto last = w.put();
  auto first = w.take_one();
  for (int i = 0; i < 20'000; ++i)
    last = w.put({}, {last});
  w.fail(first);
  CHECK(last->status == remote_status::failed);
  CHECK(w.queue->counts().failed == 20'001);
}

TEST_CASE("closure queue: an input aborted before the others arrive is waited for again") {
  queue_world w;
  auto resource = w.queue->put_tagged(make_closure(), 0);
  w.finish(w.take_one());
  auto a = w.put();
  w.put({}, {resource, a});
  w.board.set_ended(*resource, remote_status::aborted, make_failure(errc::aborted, "gone"));
  w.finish(w.take_one());
  CHECK(!w.take_one());
  w.board.set_ready(*resource, {});
  w.queue->input_changed(*resource);
  CHECK(w.take_one());
}

TEST_CASE("closure queue: closures that wait for inputs count for the bound") {
  queue_world w{{.queue_len_max = 2}};
  auto a = w.put();
  w.put({}, {a});
  auto late = w.queue->put(make_closure(), w.world.now());
  CHECK(late.error().code == errc::deadline);
}

// -- attempts that may still have an effect (INV-X2) ----------------------------------------------

namespace {

/// Of an attempt whose worker could not say that the servers have all of it.
attempt_loss unacknowledged(std::uint32_t worker = 0) {
  attempt_loss out{worker_n(worker)};
  out.unacknowledged = true;
  return out;
}

} // namespace

TEST_CASE(
  "INV-X2 a raise waits for the servers before it cancels what an earlier attempt may still "
  "change") {
  queue_world w;
  auto value = w.put();
  w.put();
  auto first = w.take_one();
  auto second = w.take_one();
  CHECK(w.queue->put_back(first, put_back_reason::transient, unacknowledged()));
  w.fail(second, "another");
  std::vector<closure_end> waiting;
  w.when_cancelled = [&] { waiting = w.queue->take_unconfirmed(); };
  caller<void> join{[&] { return w.queue->wait(never); }};
  w.world.until_asleep(1);
  CHECK(!join.returned());
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0].which == first);
  CHECK(waiting[0].status == remote_status::cancelled);
  CHECK(value->status == remote_status::not_ready);
  w.queue->mark_ended(waiting);
  CHECK(join.outcome().error().text == "another");
  CHECK(value->status == remote_status::cancelled);
}

TEST_CASE("INV-X2 once an error is recorded what comes back unacknowledged stays in flight") {
  queue_world w;
  w.put();
  auto value = w.put();
  auto first = w.take_one();
  auto second = w.take_one();
  w.fail(first);
  CHECK(!w.queue->put_back(second, put_back_reason::worker_lost_waiting, unacknowledged()));
  CHECK(value->status == remote_status::not_ready);
  CHECK(w.queue->levels().in_flight == 1);
  auto ends = w.queue->take_unconfirmed();
  CHECK(w.queue->take_unconfirmed().empty()); // given once
  REQUIRE(ends.size() == 1);
  w.queue->mark_ended(ends);
  CHECK(value->status == remote_status::cancelled);
  CHECK(!w.queue->wait(w.world.now()));
}

TEST_CASE("INV-X2 a last failed attempt is told after the servers have confirmed it") {
  queue_world w{{.max_failed_attempts = 1}};
  auto value = w.put();
  CHECK(!w.queue->put_back(w.take_one(), put_back_reason::worker_lost_running, unacknowledged(3)));
  CHECK(value->status == remote_status::not_ready);
  CHECK(!w.queue->levels().has_error);
  auto ends = w.queue->take_unconfirmed();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].why.code == errc::poisoned);
  w.queue->mark_ended(ends);
  CHECK(value->status == remote_status::failed);
  CHECK(w.queue->wait(w.world.now()).error().code == errc::poisoned);
}

TEST_CASE("INV-X2 what is known of an earlier attempt survives later ones that tell nothing new") {
  queue_world w;
  auto value = w.put();
  w.queue->put_back(w.take_one(), put_back_reason::transient, unacknowledged());
  for (auto reason : {put_back_reason::recalled, put_back_reason::transient}) {
    auto c = w.take_one();
    CHECK(c->unacknowledged);
    w.queue->put_back(c, reason, worker_n(1)); // acknowledged, or never begun
  }
  CHECK(w.take_one()->unacknowledged);
  CHECK(value->status == remote_status::not_ready);
}

TEST_CASE("INV-X2 an input that breaks fails an unacknowledged closure once that is confirmed") {
  queue_world w;
  auto resource = w.queue->put_tagged(make_closure(), 0);
  w.finish(w.take_one());
  auto value = w.put({}, {resource});
  auto c = w.take_one();
  w.board.set_ended(*resource, remote_status::aborted, make_failure(errc::aborted, "gone"));
  w.queue->put_back(c, put_back_reason::worker_lost_waiting, unacknowledged());
  CHECK(w.queue->levels().waiting_for_inputs == 1);
  const int told = w.works;
  w.board.set_ended(*resource, remote_status::failed, make_failure(errc::user_code, "for good"));
  w.queue->input_changed(*resource);
  CHECK(value->status == remote_status::not_ready);
  CHECK(w.works == told + 1); // the coordinator is to ask
  auto ends = w.queue->take_unconfirmed();
  REQUIRE(ends.size() == 1);
  w.queue->mark_ended(ends);
  CHECK(value->why.code == errc::input_failed);
}

TEST_CASE("INV-X2 stop cancels at once, also what is unacknowledged: nobody confirms any more") {
  queue_world w;
  auto value = w.put();
  w.put();
  auto first = w.take_one();
  w.fail(w.take_one());
  w.queue->put_back(first, put_back_reason::transient, unacknowledged());
  w.queue->stop();
  CHECK(value->status == remote_status::cancelled);
  CHECK(w.queue->take_unconfirmed().empty());
}

// -- failed attempts ------------------------------------------------------------------------------

TEST_CASE(
  "closure queue: a failed attempt only for a closure that was running when its worker died") {
  queue_world w;
  w.put();
  for (auto [reason, failed_attempts] : {std::pair{put_back_reason::recalled, 0u},
                                         {put_back_reason::worker_lost_waiting, 0u},
                                         {put_back_reason::transient, 0u},
                                         {put_back_reason::worker_lost_running, 1u}}) {
    auto c = w.take_one();
    w.queue->put_back(c, reason, worker_n(0));
    CHECK(c->failed_attempts == failed_attempts);
  }
}

TEST_CASE("closure queue: from the second failed attempt on a closure is alone on its worker") {
  queue_world w;
  for (int i = 0; i < 4; ++i)
    w.put();
  for (int i = 0; i < 2; ++i)
    w.queue->put_back(w.take_one(), put_back_reason::worker_lost_running, worker_n(0));
  CHECK(w.take_seqs(1, 9, false).empty()); // busy: it waits here, and nothing overtakes it
  CHECK(w.take_seqs(0, 9) == seqs{1});
  CHECK(w.take_seqs(0, 9, false).empty()); // nothing beside it
  CHECK(w.take_seqs(1, 9, false) == seqs{2, 3, 4});
  w.put();
  CHECK(w.take_seqs(0, 9, true).empty());
}

TEST_CASE(
  "closure queue: one that may have been running when its worker died gets no failed attempt, and "
  "runs alone from then on") {
  queue_world w;
  auto value = w.put();
  w.put();
  attempt_loss doubt{worker_n(0)};
  doubt.doubted = true;
  w.queue->put_back(w.take_one(), put_back_reason::worker_lost_waiting, doubt);
  CHECK(w.take_seqs(1, 9, false).empty()); // busy
  auto c = w.take_one();
  CHECK(c->id.seq == 1);
  CHECK(c->failed_attempts == 0);
  CHECK(w.take_seqs(0, 9, false).empty());
  w.queue->put_back(c, put_back_reason::recalled);
  CHECK(w.take_seqs(0, 9) == seqs{1}); // still
  CHECK(value->status == remote_status::not_ready);
}

TEST_CASE("closure queue: after a lone closure ended or was lost its worker takes others again") {
  for (bool ends : {false, true}) {
    queue_world w;
    w.put({.priority = 1});
    w.put();
    for (int i = 0; i < 2; ++i)
      w.queue->put_back(w.take_one(), put_back_reason::worker_lost_running, worker_n(0));
    auto lone = w.take_one(0);
    if (ends)
      w.finish(lone);
    else
      w.queue->put_back(lone, put_back_reason::worker_lost_running, worker_n(0));
    CHECK(w.take_seqs(0, 1) == seqs{ends ? 2u : 1u});
  }
}

TEST_CASE(
  "closure queue: at max_failed_attempts a closure is poisoned and names itself and the workers it "
  "took") {
  queue_world w{{.max_failed_attempts = 3}};
  auto value = w.put();
  for (std::uint32_t worker : {4u, 0u, 2u})
    w.queue->put_back(w.take_one(worker), put_back_reason::worker_lost_running, worker_n(worker));
  CHECK(value->status == remote_status::failed);
  auto raised = w.queue->wait(w.world.now());
  CHECK(raised.error().code == errc::poisoned);
  CHECK(raised.error().text
        == "closure 3:1 of step_7 lost 3 workers while it ran: worker:4, worker:0, worker:2");
}

TEST_CASE(
  "closure queue: what is poisoned names the deadline when that was what took its workers") {
  queue_world w{{.max_failed_attempts = 2}};
  w.put();
  attempt_loss late{worker_n(4)};
  late.how = "exceeded its deadline of 500 ms";
  w.queue->put_back(w.take_one(4), put_back_reason::worker_lost_running, late);
  w.queue->put_back(w.take_one(1), put_back_reason::worker_lost_running, worker_n(1));
  CHECK(w.queue->wait(w.world.now()).error().text
        == "closure 3:1 of step_7 lost 2 workers while it ran: "
           "worker:4 (exceeded its deadline of 500 ms), "
           "worker:1");
}

TEST_CASE(
  "closure queue: options.retries overrides max_failed_attempts, and 0 failed attempts means no "
  "limit") {
  queue_world w{{.max_failed_attempts = 0}};
  auto few = w.put({.retries = 1});
  w.queue->put_back(w.take_one(), put_back_reason::worker_lost_running, worker_n(0));
  CHECK(few->status == remote_status::failed);
  CHECK(!w.queue->wait(w.world.now()));
  auto many = w.put();
  for (int i = 0; i < 100; ++i)
    w.queue->put_back(w.take_one(), put_back_reason::worker_lost_running, worker_n(0));
  CHECK(many->status == remote_status::not_ready);
}
