// Goal: the states of a value, as the queue sets them. Method as in closure_queue_test.cpp.
#include <doctest/doctest.h>

#include "queue_support.hpp"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("PS-D1 a value is not ready until its closure has ended, then ready for good") {
  queue_world w;
  auto value = w.put();
  CHECK(value->status == remote_status::not_ready);
  auto c = w.take_one();
  w.queue->put_back(c, put_back_reason::recalled);
  CHECK(value->status == remote_status::not_ready);
  w.queue->mark_finished(w.take_one(), {.bytes = "abc"});
  CHECK(value->status == remote_status::ready);
  CHECK(value->value.bytes == "abc");
  CHECK(w.board.wait(*value, w.world.now()));
}

TEST_CASE(
  "PS-D7 a failed closure's value has its own error, and join raises the recorded one still") {
  queue_world w;
  auto a = w.put();
  auto b = w.put();
  auto ca = w.take_one();
  auto cb = w.take_one();
  w.fail(ca, "one");
  w.fail(cb, "two");
  CHECK(a->status == remote_status::failed);
  CHECK(a->why.text == "one");
  CHECK(b->why.text == "two");
  CHECK(w.queue->wait(w.world.now()).error().text == "one");
}

TEST_CASE("PS-D8 a cancelled closure's value says so and to schedule it again") {
  queue_world w;
  w.put();
  auto b = w.put();
  w.fail(w.take_one());
  CHECK(!w.queue->wait(w.world.now()));
  CHECK(b->status == remote_status::cancelled);
  CHECK(b->why.code == errc::cancelled);
  CHECK(b->why.text.find(
          "closure 3:2 of step_7 was cancelled: another closure failed; schedule it again")
        == 0);
}

TEST_CASE("PS-D9 an aborted value is waited for by what takes it, and feeds it once rebuilt") {
  queue_world w;
  auto resource = w.queue->put_tagged(make_closure(), 0);
  w.finish(w.take_one());
  w.board.set_ended(*resource, remote_status::aborted, make_failure(errc::aborted, "gone"));
  auto value = w.put({}, {resource});
  CHECK(w.queue->levels().waiting_for_inputs == 1);
  CHECK(!w.take_one());
  w.queue->input_changed(*resource);
  CHECK(!w.take_one());
  closure again = make_closure();
  again.result = resource;
  w.queue->put_tagged(std::move(again), 0);
  w.finish(w.take_one());
  CHECK(resource->status == remote_status::ready);
  auto c = w.take_one();
  REQUIRE(c);
  CHECK(c->result == value);
}
