#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <doctest/doctest.h>

#include "cluster_support.hpp"

// Datasets, iterators and values that every worker has of its own.
namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

std::int64_t take_number(worker_context&, dataset_iterator& it) {
  return it.next().item<std::int64_t>();
}
TROUPE_FUNCTION(take_number);

std::int64_t sum_of_two(worker_context&, dataset_iterator& a, dataset_iterator& b) {
  return a.next().item<std::int64_t>() + b.next().item<std::int64_t>();
}
TROUPE_FUNCTION(sum_of_two);

std::vector<std::int64_t> take_all(worker_context&, dataset_iterator& it) {
  std::vector<std::int64_t> out;
  while (auto x = it.try_next())
    out.push_back(x->item<std::int64_t>());
  return out;
}
TROUPE_FUNCTION(take_all);

void add_one_here(worker_context&, per_worker_value<float>& x) { x.value += 1.0f; }
TROUPE_FUNCTION(add_one_here);

float tell_here(worker_context&, per_worker_value<float>& x) { return x.value; }
TROUPE_FUNCTION(tell_here);

closure_options on(std::uint32_t worker) { return {.worker = worker}; }

template <class F>
concept makes_dataset = requires(cluster_coordinator& c, F f) {
  c.create_per_worker_dataset(f);
};

} // namespace

TEST_CASE("PS-L1, PS-L9, PS-T-C11 a captureless dataset function; anything else does not compile") {
  auto data = dataset::range(3);
  auto captures = [data] { return data; };
  auto no_dataset = [] { return 3; };
  auto good = [] { return dataset::range(3); };
  static_assert(makes_dataset<decltype(good)>);
  static_assert(!makes_dataset<decltype(captures)>);
  static_assert(!makes_dataset<decltype(no_dataset)>);
  static_assert(!makes_dataset<dataset>); // PS-L16: no way around the coordinator
  CHECK(captures().describe() == good().describe());
}

TEST_CASE(
  "PS-L2, PS-L4, PS-B4 the dataset function runs on every worker; each has the whole dataset") {
  static std::atomic<int> calls;
  calls = 0;
  small_cluster c{{.workers = 3}};
  auto it = c.coordinator
              .create_per_worker_dataset([] {
                ++calls;
                return dataset::range(4);
              })
              .iterator();
  for (std::uint32_t w = 0; w < 3; ++w)
    CHECK(c.coordinator.schedule(on(w), take_all, it).fetch()
          == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(calls == 3);
}

TEST_CASE("PS-L3, PS-T-C6 a variable made inside a dataset function is refused") {
  small_cluster c{{.workers = 1}};
  static parameter_server_strategy* outside;
  outside = &c.strategy;
  auto by_scope = c.coordinator.create_per_worker_dataset([] {
    create_variable({.name = "inside", .shape = {2}});
    return dataset::range(3);
  });
  auto by_strategy = c.coordinator.create_per_worker_dataset([] {
    outside->create_variable({.name = "inside", .shape = {2}});
    return dataset::range(3);
  });
  for (auto* data : {&by_scope, &by_strategy}) {
    auto it = data->iterator();
    auto why = failure_of([&] { c.coordinator.schedule(take_number, it).fetch(); });
    CHECK(why.code == errc::input_failed);
    CHECK(says(why, "dataset function"));
    (void)failure_of([&] { c.coordinator.join(patience); });
  }
  CHECK(c.strategy.variables().empty());
}

TEST_CASE("PS-L5, PS-T-C7 two workers shuffle differently without a seed, alike with one") {
  small_cluster c;
  auto fresh =
    c.coordinator.create_per_worker_dataset([] { return dataset::range(100).shuffle(100); });
  auto seeded =
    c.coordinator.create_per_worker_dataset([] { return dataset::range(100).shuffle(100, 7); });
  auto a = fresh.iterator();
  auto b = seeded.iterator();
  auto read = [&](auto& it, std::uint32_t w) {
    return c.coordinator.schedule(on(w), take_all, it).fetch();
  };
  auto first = read(a, 0), second = read(a, 1);
  CHECK(first != second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  CHECK(first == second);
  CHECK(read(b, 0) == read(b, 1));
}

TEST_CASE("PS-L6, PS-L16 a per-worker iterator has no next outside a step") {
  auto has_next = []<class T>(std::type_identity<T>) {
    return requires(T x) { x.next(); };
  };
  auto iterable = []<class T>(std::type_identity<T>) {
    return requires(T x) { x.begin(); };
  };
  static_assert(!has_next(std::type_identity<per_worker<dataset_iterator>>{}));
  static_assert(!iterable(std::type_identity<per_worker<dataset>>{}));
  static_assert(!iterable(std::type_identity<per_worker_dataset>{}));
  CHECK(has_next(std::type_identity<dataset_iterator>{}));
}

TEST_CASE(
  "PS-L7, PS-L8, PS-T-C3 each iterator starts anew: a fresh one gives the first element again") {
  small_cluster c{{.workers = 1}};
  auto data = c.coordinator.create_per_worker_dataset([] { return dataset::range(5); });
  auto first = data.iterator();
  CHECK(c.coordinator.schedule(take_number, first).fetch() == 0);
  CHECK(c.coordinator.schedule(take_number, first).fetch() == 1);
  auto second = data.iterator();
  CHECK(c.coordinator.schedule(take_number, second).fetch() == 0);
  CHECK(c.coordinator.schedule(take_number, first).fetch() == 2);
}

TEST_CASE("PS-T-C4 steps over a dataset of tens, twice what is read: 0, 20, 40") {
  small_cluster c{{.workers = 1}};
  auto it = c.coordinator
              .create_per_worker_dataset([] {
                return dataset::range(3).map([](const element& x) {
                  return element{tensor::scalar(x.item<std::int64_t>() * 10)};
                });
              })
              .iterator();
  std::vector<std::int64_t> got;
  for (int i = 0; i < 3; ++i)
    got.push_back(c.coordinator
                    .schedule([](worker_context&,
                                 dataset_iterator& x) { return 2 * x.next().item<std::int64_t>(); },
                              it)
                    .fetch());
  CHECK(got == std::vector<std::int64_t>{0, 20, 40});
}

TEST_CASE("PS-T-C5 a map over a range: the first is 10") {
  small_cluster c;
  auto it = c.coordinator
              .create_per_worker_dataset([] {
                return dataset::range(10).map([](const element& x) {
                  return element{tensor::scalar(x.item<std::int64_t>() + 10)};
                });
              })
              .iterator();
  CHECK(c.coordinator.schedule(take_number, it).fetch() == 10);
}

TEST_CASE("PS-L11, PS-T-C12 range 1..10 in batches of 4: the first is [1, 2, 3, 4]") {
  small_cluster c;
  auto it = c.coordinator.create_per_worker_dataset([] { return dataset::range(1, 11).batch(4); })
              .iterator();
  auto value = c.coordinator.schedule(
    [](worker_context&, dataset_iterator& x) { return x.next().only(); }, it);
  CHECK(value.fetch() == ids_of({1, 2, 3, 4}));
}

TEST_CASE(
  "PS-L12, PS-T-C13 two iterators in one closure: the firsts sum to 5; a new first goes on") {
  small_cluster c{{.workers = 1}};
  auto low = c.coordinator.create_per_worker_dataset([] { return dataset::range(5); });
  auto high = c.coordinator.create_per_worker_dataset([] { return dataset::range(5, 10); });
  auto a = low.iterator();
  auto b = high.iterator();
  CHECK(c.coordinator.schedule(sum_of_two, a, b).fetch() == 5);
  auto fresh = low.iterator();
  CHECK(c.coordinator.schedule(sum_of_two, fresh, b).fetch() == 6);
}

TEST_CASE("PS-L13 an iterator on a worker has the dataset's element_spec") {
  small_cluster c;
  auto it = c.coordinator.create_per_worker_dataset([] { return dataset::range(8).batch(4, true); })
              .iterator();
  auto text = c.coordinator.schedule(
    [](worker_context&, dataset_iterator& x) { return to_string(x.element_spec().at(0)); }, it);
  CHECK(text.fetch() == "i64[4]");
}

TEST_CASE("PS-L14, PS-T-C18 a built dataset is an argument: its first element is 1") {
  small_cluster c;
  auto data = c.coordinator.create_per_worker_dataset([] { return dataset::range(1, 3); });
  auto first = c.coordinator.schedule(
    [](worker_context& ctx, const dataset& d) {
      return d.iterate(data_context{ctx.host().env()}).next().item<std::int64_t>();
    },
    data.build());
  CHECK(first.fetch() == 1);
}

TEST_CASE("PS-L17 when the last handle goes nothing is left on the workers") {
  struct alive {
    alive() { ++count(); }
    alive(const alive&) { ++count(); }
    ~alive() { --count(); }
    static std::atomic<int>& count() {
      static std::atomic<int> n{0};
      return n;
    }
  };
  {
    small_cluster c{{.workers = 3}};
    auto held = c.coordinator.create_per_worker_value([] { return alive{}; });
    for (std::uint32_t w = 0; w < 3; ++w)
      c.coordinator
        .schedule(
          on(w), [](worker_context&, per_worker_value<alive>&) {}, held)
        .fetch();
    c.coordinator.join(patience);
    CHECK(alive::count() == 3);
    held = {};
    CHECK(comes_true([] { return alive::count() == 0; }));
  }
  CHECK(alive::count() == 0);
}

TEST_CASE("PS-L17 a resource lives as long as a queued closure needs it") {
  static gate door;
  small_cluster c{{.workers = 1}};
  opened_at_end guard{door};
  c.coordinator.schedule([](worker_context&) { door.pass(); });
  REQUIRE(door.seen(1));
  remote_value<float> value;
  {
    auto held = c.coordinator.create_per_worker_value([] { return 2.5f; });
    value = c.coordinator.schedule(tell_here, held);
  }
  door.open();
  CHECK(value.fetch() == 2.5f);
}

TEST_CASE("PS-R3 on every thread a closure waits until what it takes is built") {
  static gate door;
  small_cluster c{{.workers = 1, .threads_per_worker = 3}};
  opened_at_end guard{door};
  auto value = c.coordinator.create_per_worker_value([] {
    door.pass();
    return 6.0f;
  });
  REQUIRE(door.seen(1));
  std::vector<remote_value<float>> got;
  for (int i = 0; i < 6; ++i)
    got.push_back(c.coordinator.schedule(tell_here, value));
  CHECK_FALSE(got[0].try_fetch(5ms).has_value());
  door.open();
  for (auto& g : got)
    CHECK(g.fetch() == 6.0f);
}

TEST_CASE(
  "PS-R3 a closure scheduled right behind a resource finds it, however busy the worker is") {
  small_cluster c{{.workers = 2}};
  for (int i = 0; i < 200; ++i) {
    c.coordinator.schedule([](worker_context&) {});
    auto value = c.coordinator.create_per_worker_value([] { return 1.5f; });
    CHECK(c.coordinator.schedule(tell_here, value).fetch() == 1.5f);
  }
}

TEST_CASE("PS-R2, PS-T-C8 ten additions to a per-worker value over five workers: the sum is 10") {
  small_cluster c{{.workers = 5}};
  auto value = c.coordinator.create_per_worker_value([] { return 0.0f; });
  for (int i = 0; i < 10; ++i)
    c.coordinator.schedule(add_one_here, value);
  c.coordinator.join(patience);
  float sum = 0;
  for (std::uint32_t w = 0; w < 5; ++w)
    sum += c.coordinator.schedule(on(w), tell_here, value).fetch();
  CHECK(sum == 10.0f);
}

TEST_CASE("PS-B4 a per-worker argument is the executing worker's own") {
  small_cluster c{{.workers = 4}};
  auto value = c.coordinator.create_per_worker_value([] { return 0.0f; });
  for (std::uint32_t w = 0; w < 4; ++w)
    for (std::uint32_t i = 0; i <= w; ++i)
      c.coordinator.schedule(on(w), add_one_here, value);
  c.coordinator.join(patience);
  for (std::uint32_t w = 0; w < 4; ++w)
    CHECK(c.coordinator.schedule(on(w), tell_here, value).fetch() == static_cast<float>(w + 1));
}
