#include <atomic>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "cluster_support.hpp"

// A per-worker value is the step's own while the step runs. Goal: no increment is lost between
// threads, nobody stops anybody for good. Method: a cluster in this process, steps that stay
// inside.
namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

gate inside;
gate outside;

/// Reads and writes with others in between, if they get in.
void add_slowly(worker_context&, per_worker_value<int>& x) {
  const int seen = x.value;
  for (int i = 0; i < 20; ++i)
    std::this_thread::yield();
  x.value = seen + 1;
}
TROUPE_FUNCTION(add_slowly);

int tell_int(worker_context&, per_worker_value<int>& x) { return x.value; }
TROUPE_FUNCTION(tell_int);

std::atomic<int> met{0};

/// Two values, in the order that the caller gives.
void add_to_both(worker_context&, per_worker_value<int>& a, per_worker_value<int>& b) {
  ++met;
  const int x = a.value, y = b.value;
  std::this_thread::yield();
  a.value = x + 1;
  if (&a != &b)
    b.value = y + 1;
}
TROUPE_FUNCTION(add_to_both);

void stay_inside(worker_context&, per_worker_value<int>& x) {
  inside.pass();
  ++x.value;
}
TROUPE_FUNCTION(stay_inside);

/// Throws once another step has been asked to wait behind it.
void throw_outside(worker_context&) {
  outside.pass();
  throw std::runtime_error{"the batch fails"};
}
TROUPE_FUNCTION(throw_outside);

} // namespace

TEST_CASE("per_worker_value was not locked between threads: 50 of 200 increments were left") {
  small_cluster c{{.workers = 1, .threads_per_worker = 4}};
  auto value = c.coordinator.create_per_worker_value([] { return 0; });
  for (int i = 0; i < 200; ++i)
    c.coordinator.schedule(add_slowly, value);
  c.coordinator.join(patience);
  CHECK(c.coordinator.schedule(tell_int, value).fetch() == 200);
}

TEST_CASE(
  "per_worker_value: steps that take two of them in different orders don't stop each other") {
  met = 0;
  small_cluster c{{.workers = 1, .threads_per_worker = 4}};
  auto a = c.coordinator.create_per_worker_value([] { return 0; });
  auto b = c.coordinator.create_per_worker_value([] { return 0; });
  for (int i = 0; i < 60; ++i) {
    c.coordinator.schedule(add_to_both, a, b);
    c.coordinator.schedule(add_to_both, b, a);
    c.coordinator.schedule(add_to_both, a, a); // the same twice is held once
  }
  c.coordinator.join(patience);
  CHECK(met == 180);
  CHECK(c.coordinator.schedule(tell_int, a).fetch() == 180);
  CHECK(c.coordinator.schedule(tell_int, b).fetch() == 120);
}

TEST_CASE(
  "per_worker_value: other values, and steps without one, go on beside a step that has it") {
  small_cluster c{{.workers = 1, .threads_per_worker = 2}};
  opened_at_end guard{inside};
  auto held = c.coordinator.create_per_worker_value([] { return 0; });
  auto other = c.coordinator.create_per_worker_value([] { return 7; });
  auto stays = c.coordinator.schedule(stay_inside, held);
  REQUIRE(inside.seen(1));
  CHECK(c.coordinator.schedule(tell_int, other).fetch() == 7);
  auto waits = c.coordinator.schedule(tell_int, held);
  CHECK_FALSE(waits.try_fetch(5ms).has_value());
  inside.open();
  CHECK(waits.fetch() == 1);
}

TEST_CASE("per_worker_value: the wait for one is no part of a closure's deadline") {
  small_cluster c{{.workers = 1, .threads_per_worker = 2}};
  opened_at_end guard{inside};
  auto value = c.coordinator.create_per_worker_value([] { return 0; });
  c.coordinator.schedule(stay_inside, value);
  REQUIRE(inside.seen(1));
  const closure_options short_lived{.deadline = 20ms, .retries = 1};
  auto waits = c.coordinator.schedule(short_lived, tell_int, value);
  CHECK_FALSE(waits.try_fetch(200ms).has_value());
  inside.open();
  CHECK(waits.fetch() == 1);
  CHECK(c.coordinator.statistics().retried == 0);
}

TEST_CASE("per_worker_value: a step that waits for one hears of its cancellation") {
  small_cluster c{{.workers = 1, .threads_per_worker = 3}};
  opened_at_end guard{inside}, second{outside};
  auto value = c.coordinator.create_per_worker_value([] { return 0; });
  c.coordinator.schedule(stay_inside, value);
  REQUIRE(inside.seen(1));
  c.coordinator.schedule(throw_outside);
  auto waits = c.coordinator.schedule(tell_int, value);
  REQUIRE(outside.seen(1));
  CHECK_FALSE(waits.try_fetch(5ms).has_value());
  outside.open();
  std::thread joins{
    [&] { CHECK(says(failure_of([&] { c.coordinator.join(patience); }), "batch fails")); }};
  CHECK(failure_of([&] { waits.fetch(); }).code == errc::cancelled); // while the other has it still
  CHECK(inside.arrived() == 1);
  inside.open();
  joins.join();
  CHECK(c.coordinator.schedule(tell_int, value).try_fetch(patience).has_value());
}

TEST_CASE("per_worker_value: a step that hangs keeps it, and who asks for it is told by whom") {
  small_cluster c{{.workers = 1}};
  opened_at_end guard{inside};
  auto value = c.coordinator.create_per_worker_value([] { return 0; });
  const closure_options short_lived{.deadline = 20ms, .retries = 1};
  auto hangs = c.coordinator.schedule(short_lived, stay_inside, value);
  CHECK(failure_of([&] { hangs.fetch(); }).code == errc::poisoned);
  (void)failure_of([&] { c.coordinator.join(patience); });
  auto why = failure_of([&] { c.coordinator.schedule(tell_int, value).fetch(); });
  CHECK(why.code == errc::input_failed);
  CHECK(says(why, "in use by closure"));
  CHECK(says(why, "was abandoned"));
  (void)failure_of([&] { c.coordinator.join(patience); });
  inside.open();
  CHECK(comes_true([&] { // once it has ended after all
    const bool free =
      failure_of([&] { c.coordinator.schedule(tell_int, value).fetch(); }).code == errc::none;
    (void)failure_of([&] { c.coordinator.join(patience); });
    return free;
  }));
}
