#include <array>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "cluster_support.hpp"

// Remote values, and what each worker has of its own, inside vectors, maps, tuples, pairs and
// arrays of a step's arguments. Goal: each leaf is what it would be as an argument of its own.
namespace {

using namespace troupe;
using namespace troupe::test;

gate late;

int give(worker_context&, int x) { return x; }
TROUPE_FUNCTION(give);

int give_late(worker_context&, int x) {
  late.pass();
  return x;
}
TROUPE_FUNCTION(give_late);

tensor give_tensor(worker_context&, float x) { return tensor::vector<float>({x, x}); }
TROUPE_FUNCTION(give_tensor);

int fail(worker_context&) { throw std::runtime_error{"no number"}; }
TROUPE_FUNCTION(fail);

int total(worker_context&, const std::vector<int>& xs) {
  int out = 0;
  for (int x : xs)
    out = 10 * out + x;
  return out;
}
TROUPE_FUNCTION(total);

using deep = std::tuple<std::map<std::string, int>, std::pair<int, std::vector<int>>,
                        std::array<int, 2>, std::string>;

std::string spelled(worker_context&, deep x) {
  const auto& [named, pair, two, text] = x;
  std::string out;
  for (const auto& [name, value] : named)
    out += name + std::to_string(value) + " ";
  out += std::to_string(pair.first);
  for (int each : pair.second)
    out += "," + std::to_string(each);
  return out + " " + std::to_string(two[0]) + std::to_string(two[1]) + " " + text;
}
TROUPE_FUNCTION(spelled);

float sum_tensors(worker_context&, const std::map<std::string, tensor>& xs, const tensor& last) {
  float out = last.as<float>()[0];
  for (const auto& [name, x] : xs)
    out += x.as<float>()[1];
  return out;
}
TROUPE_FUNCTION(sum_tensors);

using iterators = std::vector<std::reference_wrapper<dataset_iterator>>;

std::int64_t next_of_all(worker_context&, iterators its) {
  std::int64_t out = 0;
  for (dataset_iterator& it : its)
    out = 100 * out + it.next().item<std::int64_t>();
  return out;
}
TROUPE_FUNCTION(next_of_all);

using counters = std::map<std::string, std::reference_wrapper<per_worker_value<int>>>;

int add_named(worker_context&, std::tuple<dataset_iterator&, counters, const dataset&, int> x) {
  auto& [it, by_name, data, amount] = x;
  by_name.at("odd").get().value += amount;
  by_name.at("even").get().value -= amount;
  return static_cast<int>(it.next().item<std::int64_t>()) + by_name.at("odd").get().value
         + static_cast<int>(data.describe().size() > 0);
}
TROUPE_FUNCTION(add_named);

float read_named(worker_context& ctx, const std::map<std::string, variable>& by_name,
                 std::pair<variable_list, float> more) {
  float out = more.second;
  for (const auto& [name, v] : by_name)
    out += ctx.read(v).to_tensor().at<float>(0);
  for (const auto& v : more.first)
    out += ctx.read(v).to_tensor().at<float>(0);
  return out;
}
TROUPE_FUNCTION(read_named);

int mixed(worker_context&, std::tuple<per_worker_value<int>&, std::vector<int>, int> x) {
  auto& [own, xs, one] = x;
  for (int each : xs)
    own.value += each;
  return own.value + one;
}
TROUPE_FUNCTION(mixed);

} // namespace

TEST_CASE("PS-B3 remote values in a vector were refused: the step runs once all are there") {
  small_cluster c;
  opened_at_end guard{late};
  auto slow = c.coordinator.schedule(give_late, 1);
  const std::vector<remote_value<int>> xs{c.coordinator.schedule(give, 4), slow,
                                          c.coordinator.schedule(give, 2)};
  auto sum = c.coordinator.schedule(total, xs);
  REQUIRE(late.seen(1));
  CHECK_FALSE(sum.ready());
  late.open();
  CHECK(sum.fetch() == 412);
  // One value in two places, and none at all.
  CHECK(c.coordinator.schedule(total, std::vector<remote_value<int>>{slow, slow}).fetch() == 11);
  CHECK(c.coordinator.schedule(total, std::vector<remote_value<int>>{}).fetch() == 0);
}

TEST_CASE("PS-B3 more remote values than a byte counts") {
  small_cluster c;
  auto one = c.coordinator.schedule(give, 1);
  const std::vector<remote_value<int>> many(300, one);
  auto count = [](worker_context&, const std::vector<int>& xs) {
    int out = 0;
    for (int x : xs)
      out += x;
    return out;
  };
  CHECK(c.coordinator.schedule(count, many).fetch() == 300);
}

TEST_CASE("PS-B3 remote values in maps, tuples, pairs and arrays, beside plain ones") {
  small_cluster c;
  auto r = [&](int x) { return c.coordinator.schedule(give, x); };
  auto given = std::make_tuple(std::map<std::string, remote_value<int>>{{"a", r(1)}, {"b", r(2)}},
                               std::make_pair(r(3), std::vector<int>{4, 5}),
                               std::array<remote_value<int>, 2>{r(6), r(7)}, "text");
  CHECK(c.coordinator.schedule(spelled, given).fetch() == "a1 b2 3,4,5 67 text");
  // Where all is plain the nest travels as one value.
  CHECK(c.coordinator.schedule(spelled, deep{{{"x", 9}}, {8, {}}, {7, 6}, "plain"}).fetch()
        == "x9 8 76 plain");
  auto t = [&](float x) { return c.coordinator.schedule(give_tensor, x); };
  CHECK(c.coordinator
          .schedule(sum_tensors,
                    std::map<std::string, remote_value<tensor>>{{"p", t(1)}, {"q", t(2)}},
                    tensor::vector<float>({40}))
          .fetch()
        == 43.0f);
  CHECK(c.coordinator
          .schedule(sum_tensors,
                    std::map<std::string, tensor>{{"p", tensor::vector<float>({0, 5})}}, t(10))
          .fetch()
        == 15.0f);
}

TEST_CASE("PS-B3 a failed remote value in a nest fails what takes it, with the innermost error") {
  small_cluster c;
  auto bad = c.coordinator.schedule(fail);
  auto sum = c.coordinator.schedule(
    total, std::vector<remote_value<int>>{c.coordinator.schedule(give, 1), bad});
  const auto why = failure_of([&] { sum.fetch(); });
  CHECK(says(why, "no number"));
  (void)failure_of([&] { c.coordinator.join(patience); });
}

TEST_CASE("PS-B4 per-worker objects in nests are the executing worker's own") {
  small_cluster c{{.workers = 2}};
  auto small = c.coordinator.create_per_worker_dataset([] { return dataset::range(1, 9); });
  auto large = c.coordinator.create_per_worker_dataset([] { return dataset::range(50, 59); });
  const std::vector<per_worker<dataset_iterator>> its{small.iterator(), large.iterator()};
  auto odd = c.coordinator.create_per_worker_value([] { return 0; });
  auto even = c.coordinator.create_per_worker_value([] { return 0; });
  auto own = small.iterator();
  for (std::uint32_t w = 0; w < 2; ++w) {
    const closure_options there{.worker = w};
    CHECK(c.coordinator.schedule(there, next_of_all, its).fetch() == 150);
    CHECK(c.coordinator.schedule(there, next_of_all, its).fetch() == 251);
    const auto named =
      std::map<std::string, per_worker<per_worker_value<int>>>{{"odd", odd}, {"even", even}};
    auto given = std::make_tuple(own, named, small.build(), 10);
    CHECK(c.coordinator.schedule(there, add_named, given).fetch() == 12);
    CHECK(c.coordinator.schedule(there, add_named, given).fetch() == 23);
  }
}

TEST_CASE("PS-B4 per-worker objects, remote values and numbers in one nest; variables in nests") {
  small_cluster c{{.workers = 1}};
  auto own = c.coordinator.create_per_worker_value([] { return 100; });
  auto r = c.coordinator.schedule(give, 5);
  CHECK(c.coordinator.schedule(mixed, std::make_tuple(own, std::vector<remote_value<int>>{r, r}, 1))
          .fetch()
        == 111);
  CHECK(c.coordinator.schedule(mixed, std::make_tuple(own, std::vector<int>{1}, r)).fetch() == 116);
  auto v = [&](const char* name, float x) {
    return c.strategy.create_variable({.name = name, .initial = tensor::vector<float>({x})});
  };
  const std::map<std::string, variable> by_name{{"a", v("a", 1)}, {"b", v("b", 2)}};
  CHECK(c.coordinator
          .schedule(read_named, by_name, std::make_pair(variable_list{v("c", 4), v("d", 8)}, 16))
          .fetch()
        == 31.0f);
}

TEST_CASE("a per-worker object in a nest lives until the closures that take it have ended") {
  small_cluster c{{.workers = 1}};
  opened_at_end guard{late};
  auto first = c.coordinator.schedule(give_late, 1);
  REQUIRE(late.seen(1));
  remote_value<std::int64_t> got;
  {
    auto data = c.coordinator.create_per_worker_dataset([] { return dataset::range(7, 9); });
    got = c.coordinator.schedule(next_of_all,
                                 std::vector<per_worker<dataset_iterator>>{data.iterator()});
  }
  late.open();
  CHECK(got.fetch() == 7);
}

TEST_CASE("PS-D10 fetch looks into maps and arrays, too") {
  small_cluster c;
  auto r = [&](int x) { return c.coordinator.schedule(give, x); };
  CHECK(c.coordinator.fetch(std::map<std::string, remote_value<int>>{{"a", r(1)}, {"b", r(2)}})
        == std::map<std::string, int>{{"a", 1}, {"b", 2}});
  CHECK(c.coordinator.fetch(std::array<remote_value<int>, 2>{r(3), r(4)})
        == std::array<int, 2>{3, 4});
  CHECK(c.coordinator.fetch(std::vector{std::map<int, remote_value<int>>{{5, r(6)}}})
        == std::vector{std::map<int, int>{{5, 6}}});
}
