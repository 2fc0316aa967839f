#include <map>
#include <thread>

#include <doctest/doctest.h>

#include "cluster_support.hpp"

// schedule, join and done on a whole cluster in one process. Order and accounting of the queue
// itself are in tests/unit/actors/coordinator/closure_queue_*.
namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

gate door;
gate second_door;

int plus_one(worker_context&, int x) { return x + 1; }
TROUPE_FUNCTION(plus_one);

int stand(worker_context&, int x) {
  door.pass();
  return x;
}
TROUPE_FUNCTION(stand);

int not_listed(worker_context&) { return 0; }

std::mutex order_mutex;
std::vector<int> order;
void write_down(worker_context&, int x) {
  std::lock_guard lock{order_mutex};
  order.push_back(x);
}
TROUPE_FUNCTION(write_down);

std::vector<int> written() {
  std::lock_guard lock{order_mutex};
  return std::exchange(order, {});
}

std::uint32_t where(worker_context& ctx) { return ctx.worker().index; }
TROUPE_FUNCTION(where);

void bump(worker_context&, const variable& v) { v.assign_add(tensor::scalar(1.0f)); }
TROUPE_FUNCTION(bump);

template <class F, class... As>
concept schedulable = requires(cluster_coordinator& c, F f, As... as) {
  c.schedule(f, as...);
};

} // namespace

TEST_CASE("PS-B1 schedule returns a value to come at once, and any worker runs the step") {
  small_cluster c;
  opened_at_end guard{door};
  auto first = c.coordinator.schedule(stand, 1);
  auto second = c.coordinator.schedule(stand, 2);
  CHECK_FALSE(first.ready());
  CHECK(door.seen(2)); // both workers stand in one: neither was named
  door.open();
  CHECK(first.fetch() + second.fetch() == 3);
  c.coordinator.join(patience);
}

TEST_CASE("PS-B2, PS-T-C10 a function without TROUPE_FUNCTION is refused, naming the remedy") {
  small_cluster c;
  auto why = failure_of([&] { c.coordinator.schedule(not_listed); });
  CHECK(why.code == errc::not_registered);
  CHECK(says(why, "TROUPE_FUNCTION"));
  CHECK_MESSAGE(says(why, "not_listed(troupe::worker_context&"), why.text); // which it is
  CHECK_MESSAGE(says(why, "of type"), why.text);
  CHECK(c.coordinator.statistics().scheduled == 0);
}

TEST_CASE("PS-B2 a captureless lambda is scheduled; one that captures does not compile") {
  small_cluster c;
  CHECK(c.coordinator.schedule([](worker_context&, int a, int b) { return a * b; }, 6, 7).fetch()
        == 42);
  CHECK(c.coordinator.schedule([](worker_context&) { return std::string{"text"}; }).fetch()
        == "text");

  int outside = 3;
  auto captures = [outside](worker_context&) { return outside; };
  auto does_not = [](worker_context&) { return 0; };
  static_assert(!schedulable<decltype(captures)>);
  static_assert(schedulable<decltype(does_not)>);
  CHECK(outside == 3);
}

TEST_CASE("PS-B3, PS-T-C9 a remote value is an argument: the step runs once the value is there") {
  small_cluster c;
  opened_at_end guard{door};
  auto late = c.coordinator.schedule(stand, 20);
  auto chained = c.coordinator.schedule(plus_one, late);
  auto twice = c.coordinator.schedule(
    [](worker_context&, int a, int b, int d) { return a * 100 + b + d; }, chained, 1, late);
  CHECK(door.seen(1));
  CHECK(c.coordinator.schedule(plus_one, 1).fetch() == 2); // others are not held up by it
  CHECK_FALSE(chained.ready());
  CHECK_FALSE(twice.ready());
  door.open();
  CHECK(chained.fetch() == 21);
  CHECK(twice.fetch() == 2121);
}

TEST_CASE("PS-B3 a failed remote value fails what takes it, showing the innermost error") {
  small_cluster c;
  opened_at_end guard{door};
  auto bad = c.coordinator.schedule([](worker_context&) -> int {
    door.pass(); // until all are scheduled: the next schedule would raise its error
    throw std::runtime_error{"no luck"};
  });
  auto taker = c.coordinator.schedule(plus_one, bad);
  auto taker_of_taker = c.coordinator.schedule(plus_one, taker);
  door.open();
  CHECK(failure_of([&] { taker.fetch(); }).code == errc::input_failed);
  auto why = failure_of([&] { taker_of_taker.fetch(); });
  CHECK(why.code == errc::input_failed);
  CHECK(says(why, "no luck"));
  CHECK(why.text.find("input closure ", why.text.find("input closure ") + 1) == std::string::npos);
  CHECK(failure_of([&] { c.coordinator.join(patience); }).code == errc::user_code);
  c.coordinator.join(patience); // raised once, and not again by those that took it
}

TEST_CASE("PS-B6 schedule and the steps' results are the same inside and outside the scope") {
  small_cluster c;
  auto v = c.strategy.create_variable({.initial = tensor::scalar(0.0f)});
  CHECK(c.strategy.scope([&] { return c.coordinator.schedule(plus_one, 4).fetch(); }) == 5);
  CHECK(c.coordinator.schedule(plus_one, 4).fetch() == 5);
  c.strategy.scope([&] { c.coordinator.schedule(bump, v); });
  c.coordinator.schedule(bump, v);
  c.coordinator.join(patience);
  CHECK(v.read().item<float>() == 2.0f);
}

TEST_CASE(
  "PS-B7, PS-C6 a full queue makes schedule wait for a worker; done tells without waiting") {
  small_cluster c{{.workers = 1, .queue_len_max = 2}};
  opened_at_end guard{door};
  // one runs, one was sent ahead, two are queued: the next has to wait
  for (int i = 0; i < 4; ++i) {
    c.coordinator.schedule(stand, i);
    if (i == 0)
      REQUIRE(door.seen(1));
    REQUIRE(comes_true([&] { return i == 0 || c.coordinator.workers().at(0).in_flight == 2; }));
  }
  std::atomic<bool> got_in{false};
  std::thread other{[&] {
    c.coordinator.schedule(stand, 4);
    got_in = true;
  }};
  CHECK_FALSE(c.coordinator.done());
  CHECK_FALSE(got_in);
  CHECK(c.coordinator.statistics().scheduled == 4);
  door.open();
  other.join();
  CHECK(got_in);
  c.coordinator.join(patience);
  CHECK(c.coordinator.done());
  CHECK(c.coordinator.statistics().finished == 5);
}

TEST_CASE("PS-B12, PS-T-Q1 closures start in the order in which they were scheduled") {
  small_cluster c{{.workers = 1}};
  written();
  opened_at_end guard{door};
  c.coordinator.schedule(stand, 0);
  REQUIRE(door.seen(1));
  std::vector<int> expected;
  for (int i = 0; i < 50; ++i) {
    c.coordinator.schedule(write_down, i);
    expected.push_back(i);
  }
  door.open();
  c.coordinator.join(patience);
  CHECK(written() == expected);
}

TEST_CASE("PS-B14 a higher priority goes first, inside a priority the order stays") {
  small_cluster c{{.workers = 1}};
  written();
  opened_at_end guard{door};
  c.coordinator.schedule(stand, 0);
  c.coordinator.schedule(stand, 0); // takes the place of what is sent ahead
  REQUIRE(door.seen(1));
  REQUIRE(comes_true([&] { return c.coordinator.workers().at(0).in_flight == 2; }));
  c.coordinator.schedule(closure_options{.priority = -1}, write_down, 30);
  c.coordinator.schedule(write_down, 20);
  c.coordinator.schedule(closure_options{.priority = 2}, write_down, 10);
  c.coordinator.schedule(write_down, 21);
  c.coordinator.schedule(closure_options{.priority = 2}, write_down, 11);
  door.open();
  c.coordinator.join(patience);
  CHECK(written() == std::vector<int>{10, 11, 20, 21, 30});

  auto why =
    failure_of([&] { c.coordinator.schedule(closure_options{.priority = 4}, write_down, 0); });
  CHECK(why.code == errc::invalid_argument);
  CHECK(says(why, "4"));
}

TEST_CASE("PS-B14 a closure with a worker of its own runs nowhere else") {
  small_cluster c{{.workers = 3}};
  std::vector<remote_value<std::uint32_t>> got;
  for (std::uint32_t i = 0; i < 60; ++i)
    got.push_back(c.coordinator.schedule(closure_options{.worker = i % 3}, where));
  for (std::uint32_t i = 0; i < 60; ++i)
    CHECK(got[i].fetch() == i % 3);
}

TEST_CASE("PS-B14, PS-W14 a step past its deadline is given up and run again on another thread") {
  static std::atomic<int> runs;
  runs = 0;
  small_cluster c{{.workers = 2, .max_failed_attempts = 5}};
  opened_at_end guard{door};
  auto value = c.coordinator.schedule(closure_options{.deadline = 50ms}, [](worker_context& ctx) {
    if (++runs == 1)
      door.pass(); // hangs, out of Troupe's reach
    return static_cast<int>(value_of(ctx.attempt()));
  });
  CHECK(value.fetch() == 2);
  c.coordinator.join(patience);
  auto s = c.coordinator.statistics();
  CHECK(s.retried == 1);
  CHECK(s.finished == 1);
  // the worker has a new thread: all its closures run
  std::vector<remote_value<std::uint32_t>> got;
  for (std::uint32_t i = 0; i < 8; ++i)
    got.push_back(c.coordinator.schedule(closure_options{.worker = i % 2}, where));
  for (std::uint32_t i = 0; i < 8; ++i)
    CHECK(got[i].fetch() == i % 2);
}

TEST_CASE("PS-B14 a closure that hangs on every try fails as poisoned, naming it and its workers") {
  small_cluster c{{.workers = 2}};
  opened_at_end guard{door};
  auto value = c.coordinator.schedule(closure_options{.deadline = 20ms, .retries = 2}, stand, 1);
  auto why = failure_of([&] { value.fetch(); });
  CHECK(why.code == errc::poisoned);
  CHECK(says(why, "stand"));
  CHECK(says(why, "lost 2 workers"));
  CHECK(failure_of([&] { c.coordinator.join(patience); }).code == errc::poisoned);
  CHECK(c.coordinator.schedule(plus_one, 1).fetch() == 2);
}

TEST_CASE("PS-W8 a worker whose threads have all hung leaves; the others go on") {
  small_cluster c{{.workers = 2}};
  opened_at_end guard{door};
  for (int i = 0; i < 5; ++i) { // the thread, and four in its place
    const closure_options only_there{.worker = 0, .deadline = 10ms, .retries = 1};
    auto value = c.coordinator.schedule(only_there, stand, i);
    CHECK(failure_of([&] { value.fetch(); }).code == errc::poisoned);
    CHECK(failure_of([&] { c.coordinator.join(patience); }).code == errc::poisoned);
  }
  CHECK(comes_true([&] { return c.coordinator.workers().size() == 1; }));
  CHECK(c.coordinator.workers()[0].worker == 1);
  CHECK(c.coordinator.schedule(plus_one, 1).try_fetch(patience).value() == 2);
}

TEST_CASE("PS-C1 join with nothing scheduled returns, again and again") {
  small_cluster c;
  c.coordinator.join();
  c.coordinator.join(patience);
  CHECK(c.coordinator.done());
}

TEST_CASE("PS-C3, PS-W14 join with a time-out says deadline and leaves the work as it is") {
  small_cluster c;
  opened_at_end guard{door};
  auto value = c.coordinator.schedule(stand, 9);
  REQUIRE(door.seen(1));
  CHECK(failure_of([&] { c.coordinator.join(1ms); }).code == errc::deadline);
  CHECK_FALSE(value.try_fetch(1ms).has_value());
  door.open();
  c.coordinator.join(patience);
  CHECK(value.try_fetch(patience).value() == 9);
}

TEST_CASE("PS-C4 join does not wait for what is built on the workers") {
  small_cluster c{{.workers = 1}};
  opened_at_end guard{door};
  auto held = c.coordinator.create_per_worker_value([] {
    door.pass();
    return 5;
  });
  REQUIRE(door.seen(1));
  c.coordinator.join(patience);
  CHECK(c.coordinator.done());
  auto value =
    c.coordinator.schedule([](worker_context&, per_worker_value<int>& x) { return x.value; }, held);
  CHECK_FALSE(value.ready());
  door.open();
  CHECK(value.fetch() == 5);
}

TEST_CASE("PS-W24 a worker has one closure running, and few ahead while its steps are slow") {
  small_cluster c{{.workers = 1}};
  opened_at_end guard{door};
  for (int i = 0; i < 20; ++i)
    c.coordinator.schedule(stand, i);
  REQUIRE(door.seen(1));
  REQUIRE(comes_true([&] { return c.coordinator.workers().at(0).in_flight == 2; }));
  CHECK(door.arrived() == 1);
  door.open();
  c.coordinator.join(patience);
  CHECK(door.arrived() == 20);
}

TEST_CASE("PS-W24 with threads a worker runs as many at once") {
  small_cluster c{{.workers = 1, .threads_per_worker = 3}};
  opened_at_end guard{door};
  for (int i = 0; i < 3; ++i)
    c.coordinator.schedule(stand, i);
  CHECK(door.seen(3));
  door.open();
  c.coordinator.join(patience);
}

TEST_CASE("PS-A18 workers don't wait for each other between their reads and writes") {
  small_cluster c;
  opened_at_end guard{door};
  auto v = c.strategy.create_variable({.initial = tensor::scalar(0.0f)});
  auto slow = c.coordinator.schedule(
    [](worker_context&, const variable& x) {
      auto before = x.read().item<float>();
      door.pass();
      return x.read().item<float>() - before;
    },
    v);
  REQUIRE(door.seen(1));
  for (int i = 0; i < 10; ++i)
    c.coordinator.schedule(bump, v).fetch();
  CHECK(v.read().item<float>() == 10.0f);
  door.open();
  CHECK(slow.fetch() == 10.0f);
}

TEST_CASE("closures that wait behind a slow one go to a worker that is idle") {
  small_cluster c;
  opened_at_end guard{door};
  opened_at_end second_guard{second_door};
  auto block = [](worker_context&) { second_door.pass(); };
  auto long_one = c.coordinator.schedule(stand, 1);
  auto short_one = c.coordinator.schedule(block);
  REQUIRE(door.seen(1));
  REQUIRE(second_door.seen(1));
  auto behind_a = c.coordinator.schedule(plus_one, 1); // one is sent ahead to each worker
  auto behind_b = c.coordinator.schedule(plus_one, 2);
  REQUIRE(comes_true([&] {
    std::size_t flying = 0;
    for (auto& w : c.coordinator.workers())
      flying += w.in_flight;
    return flying == 4;
  }));
  second_door.open();
  CHECK(behind_a.fetch() == 2);
  CHECK(behind_b.fetch() == 3);
  CHECK_FALSE(long_one.ready());
  short_one.fetch();
  CHECK(c.coordinator.statistics().retried == 0); // asked back before they ran: no retry
}

TEST_CASE("PS-T-C15 with room for two in the queue and five workers all of it works") {
  small_cluster c{{.workers = 5, .servers = 2, .queue_len_max = 2}};
  auto v = c.strategy.create_variable({.initial = tensor::scalar(0.0f)});
  std::vector<remote_value<int>> got;
  for (int i = 0; i < 200; ++i) {
    got.push_back(c.coordinator.schedule(plus_one, i));
    c.coordinator.schedule(bump, v);
  }
  c.coordinator.join(patience);
  for (int i = 0; i < 200; ++i)
    REQUIRE(got[static_cast<std::size_t>(i)].fetch() == i + 1);
  CHECK(v.read().item<float>() == 200.0f);
  CHECK(c.coordinator.statistics().finished == 400);
}
