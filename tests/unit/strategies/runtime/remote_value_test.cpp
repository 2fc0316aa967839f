#include <map>
#include <stdexcept>
#include <tuple>

#include <doctest/doctest.h>

#include "../parameter_server/cluster_support.hpp"

// Results: what structure they keep, how long they last, and that tensors in them are handed over.
namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

gate door;

using nest = std::tuple<int, std::pair<int, int>, std::vector<int>, std::map<std::string, int>>;

nest structure(worker_context&, int x) { return {x + 1, {x + 2, x + 3}, {x + 4}, {{"v", x}}}; }
TROUPE_FUNCTION(structure);

int pass_and_give(worker_context&, int x) {
  door.pass();
  return x;
}
TROUPE_FUNCTION(pass_and_give);

std::atomic<const void*> seen_argument{nullptr};
std::atomic<const void*> made_result{nullptr};
tensor look_and_make(worker_context&, const tensor& x) {
  seen_argument = x.bytes().data();
  tensor out = tensor::zeros(dtype::f32, {1000, 10});
  made_result = out.bytes().data();
  return out;
}
TROUPE_FUNCTION(look_and_make);

std::atomic<int> results_alive{0};

/// Gives a tensor whose memory counts itself.
tensor counted_result(worker_context&) {
  door.pass();
  ++results_alive;
  auto memory = std::shared_ptr<std::byte>(new std::byte[4], [](std::byte* p) {
    delete[] p;
    --results_alive;
  });
  auto* data = memory.get();
  return tensor{dtype::f32, {1}, std::move(memory), data};
}
TROUPE_FUNCTION(counted_result);

} // namespace

TEST_CASE("PS-D2, PS-T-C2, PS-D11 fetch gives the structure that the step returned") {
  small_cluster c;
  const nest expected{2, {3, 4}, {5}, {{"v", 1}}};
  auto value = c.coordinator.schedule(structure, 1);
  CHECK(value.fetch() == expected);
  CHECK(c.coordinator.fetch(value) == expected);
}

TEST_CASE("PS-D10 fetch of a structure fetches every remote value in it and leaves the rest") {
  small_cluster c;
  auto give = [&](int x) { return c.coordinator.schedule(pass_and_give, x); };
  door.open();
  std::vector<remote_value<int>> list{give(1), give(2), give(3)};
  CHECK(c.coordinator.fetch(list) == std::vector<int>{1, 2, 3});
  auto mixed = std::make_tuple(give(4), std::string{"as it is"}, std::make_pair(give(5), 6));
  CHECK(c.coordinator.fetch(mixed)
        == std::make_tuple(4, std::string{"as it is"}, std::make_pair(5, 6)));
}

TEST_CASE("PS-D3 a step without a result fetches as nothing") {
  small_cluster c;
  auto value = c.coordinator.schedule([](worker_context&) {});
  value.fetch();
  CHECK(value.ready());
  CHECK(value.try_fetch(0ms));
}

TEST_CASE(
  "a result that arrives while try_fetch runs out of time is a result or nothing, no error") {
  small_cluster c;
  door.open();
  for (int i = 0; i < 3'000; ++i) {
    auto value = c.coordinator.schedule(pass_and_give, i);
    std::optional<int> got;
    while (!got)
      got = value.try_fetch(0ms);
    REQUIRE(*got == i);
  }
}

TEST_CASE(
  "PS-D1 a remote value is not ready, then has a value, a failure or a cancellation for good") {
  small_cluster c;
  opened_at_end guard{door};
  auto value = c.coordinator.schedule(pass_and_give, 5);
  REQUIRE(door.seen(1));
  CHECK_FALSE(value.ready());
  CHECK_FALSE(value.try_fetch(1ms).has_value());
  door.open();
  CHECK(value.fetch() == 5);
  CHECK(value.ready());
  CHECK(value.fetch() == 5);
  auto copy = value;
  CHECK(copy.fetch() == 5);
}

TEST_CASE("PS-D4, PS-T-F11, PS-T-F12 a result outlives its worker and the whole cluster") {
  remote_value<std::pair<int, int>> value;
  remote_value<tensor> large;
  {
    small_cluster c;
    value = c.coordinator.schedule([](worker_context&) { return std::make_pair(1, -1); });
    large = c.coordinator.schedule([](worker_context&) { return counted(100, 3); });
    CHECK(value.fetch() == std::make_pair(1, -1));
    large.fetch();
    c.rt.shutdown();
    CHECK(value.fetch() == std::make_pair(1, -1));
  }
  CHECK(value.fetch() == std::make_pair(1, -1));
  CHECK(large.fetch() == counted(100, 3));
}

TEST_CASE("PS-D6 without a handle to it a result is not kept") {
  small_cluster c;
  opened_at_end guard{door};
  c.coordinator.schedule(counted_result);
  REQUIRE(door.seen(1));
  door.open();
  c.coordinator.join(patience);
  CHECK(comes_true([] { return results_alive == 0; }));
  auto kept = c.coordinator.schedule(counted_result);
  c.coordinator.join(patience);
  CHECK(results_alive == 1);
  kept = {};
  CHECK(comes_true([] { return results_alive == 0; }));
  CHECK(c.coordinator.statistics().finished == 2);
}

TEST_CASE("tensors in arguments and results are the same memory on both sides") {
  small_cluster c;
  auto given = counted(1000, 10);
  auto value = c.coordinator.schedule(look_and_make, given);
  auto got = value.fetch();
  CHECK(seen_argument == static_cast<const void*>(given.bytes().data()));
  CHECK(made_result == static_cast<const void*>(got.bytes().data()));
  // also from one step to the next
  auto chained = c.coordinator.schedule(
    [](worker_context&, const tensor& x) {
      seen_argument = x.bytes().data();
      return x.shape();
    },
    value);
  CHECK(chained.fetch() == shape_t{1000, 10});
  CHECK(seen_argument == made_result);
}

TEST_CASE("a remote value that belongs to no closure says so") {
  remote_value<int> nothing;
  CHECK_FALSE(nothing.ready());
  CHECK(failure_of([&] { nothing.fetch(); }).code == errc::wrong_state);
  CHECK(failure_of([&] { nothing.try_fetch(1ms); }).code == errc::wrong_state);
}

TEST_CASE("PS-D8 a value that the end of the cluster overtook says that it was cancelled") {
  small_cluster c{{.workers = 1}};
  opened_at_end guard{door};
  auto running = c.coordinator.schedule(pass_and_give, 1);
  auto queued = c.coordinator.schedule(pass_and_give, 2);
  auto behind = c.coordinator.schedule(pass_and_give, 3);
  REQUIRE(door.seen(1));
  std::thread opener{[] { door.open(); }};
  c.rt.shutdown(patience);
  opener.join();
  CHECK(failure_of([&] { behind.fetch(); }).code == errc::cancelled);
  CHECK(queued.ready());
  CHECK(running.ready());
}
