#include <troupe/data/dataset.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <stdexcept>

#include "support.hpp"

using namespace data_test;
using values = std::vector<std::int64_t>;

namespace {

values counted(std::int64_t begin, std::int64_t end) {
  values out(static_cast<std::size_t>(end - begin));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

element plus(const element& x, std::int64_t n) {
  return tensor::scalar<std::int64_t>(x.item<std::int64_t>() + n);
}

} // namespace

TEST_CASE("T-C4 dataset of 10 twos: five and five nexts sum to 10 and 20, then the data ends") {
  fake_ports ports;
  auto it = dataset::from_tensors({tensor::vector<std::int64_t>({2, 2, 2, 2, 2, 2, 2, 2, 2, 2})})
              .iterate(ports.context());
  std::int64_t v = 0;
  for (int i = 0; i < 5; ++i)
    v += it.next().item<std::int64_t>();
  CHECK(v == 10);
  for (int i = 0; i < 5; ++i)
    v += it.next().item<std::int64_t>();
  CHECK(v == 20);
  CHECK(failure_of([&] { it.next(); }).code == errc::end_of_data);
}

TEST_CASE(
  "PS-L2 T-C5 map +10 over range(10): the first next is 10, and nothing is mapped before it") {
  fake_ports ports;
  int calls = 0;
  auto data = dataset::range(10).map([&](const element& x) {
    ++calls;
    return plus(x, 10);
  });
  auto it = data.iterate(ports.context());
  CHECK(calls == 0);
  CHECK(it.next().item<std::int64_t>() == 10);
  CHECK(calls == 1);
}

TEST_CASE(
  "PS-L5 T-C7 shuffle(100) without a seed: two workers see all elements in different orders") {
  fake_ports worker_0{1};
  fake_ports worker_1{1000};
  auto data = dataset::range(100).shuffle(100);
  auto a = flat(data, worker_0.context());
  auto b = flat(data, worker_1.context());
  CHECK(a != b);
  CHECK(sorted(a) == counted(0, 100));
  CHECK(sorted(b) == counted(0, 100));
  CHECK(worker_0.random.draws == 1);
  CHECK(flat(data, worker_0.context()) != a); // nor twice the same on one worker
}

TEST_CASE("shuffle with a seed: every iterator sees the same orders and no seed is drawn") {
  fake_ports a{1};
  fake_ports b{1000};
  auto data = dataset::range(100).shuffle(30, 5).repeat(2);
  CHECK(flat(data, a.context()) == flat(data, b.context()));
  CHECK(a.random.draws == 0);
  CHECK(flat(data, a.context()) != flat(dataset::range(100).shuffle(30, 6).repeat(2), a.context()));
}

TEST_CASE("PS-L7 PS-L8 each iterate starts again at the first element") {
  fake_ports ports;
  auto data = dataset::range(5).map([](const element& x) { return plus(x, 1); });
  auto first = data.iterate(ports.context());
  CHECK(first.next().item<std::int64_t>() == 1);
  CHECK(first.next().item<std::int64_t>() == 2);
  auto second = data.iterate(ports.context());
  CHECK(second.next().item<std::int64_t>() == 1);
  CHECK(first.next().item<std::int64_t>() == 3);
}

TEST_CASE("PS-L10 a finite dataset that runs out throws end_of_data, at every further next") {
  fake_ports ports;
  auto it = dataset::range(2).batch(1).iterate(ports.context());
  it.next();
  it.next();
  for (int i = 0; i < 3; ++i) {
    auto why = failure_of([&] { it.next(); });
    CHECK(why.code == errc::end_of_data);
    CHECK(says(why.text, "after 2"));
    CHECK_FALSE(it.try_next());
  }
  CHECK(it.delivered() == 2);
}

TEST_CASE("PS-L11 T-C12 range(1, 11) batched by 4: [1, 2, 3, 4] first, [9, 10] last") {
  fake_ports ports;
  auto it = dataset::range(1, 11).batch(4).iterate(ports.context());
  CHECK(it.next().only() == tensor::vector<std::int64_t>({1, 2, 3, 4}));
  CHECK(it.next().only() == tensor::vector<std::int64_t>({5, 6, 7, 8}));
  CHECK(it.next().only() == tensor::vector<std::int64_t>({9, 10}));
  CHECK_FALSE(it.try_next());
  auto whole = dataset::range(1, 11).batch(4, true).iterate(ports.context());
  CHECK(drain(whole).size() == 2);
}

TEST_CASE("PS-L12 T-C13 two iterators: first elements of range(0, 5) and range(5, 10) sum to 5") {
  fake_ports ports;
  auto a = dataset::range(0, 5).iterate(ports.context());
  auto b = dataset::range(5, 10).iterate(ports.context());
  CHECK(a.next().item<std::int64_t>() + b.next().item<std::int64_t>() == 5);
  a = dataset::range(0, 5).iterate(ports.context());
  CHECK(a.next().item<std::int64_t>() + b.next().item<std::int64_t>() >= 5);
}

TEST_CASE(
  "PS-L14 T-C18 a built dataset of [1, 2]: the first element is 1 and the specs are equal") {
  fake_ports ports;
  auto data = dataset::from_tensors({tensor::vector<std::int64_t>({1, 2})});
  auto it = data.iterate(ports.context());
  CHECK(it.element_spec() == data.element_spec(ports.context()));
  CHECK(it.next().item<std::int64_t>() == 1);
}

TEST_CASE("PS-L13 element_spec follows every operation and draws no seed") {
  fake_ports ports;
  auto text = [&](const dataset& x) {
    std::string out;
    for (const auto& part : x.element_spec(ports.context()))
      out += to_string(part) + " ";
    return out;
  };
  auto pairs =
    dataset::from_tensors({tensor::zeros(dtype::f32, {6, 3}), tensor::zeros(dtype::i32, {6})});
  CHECK(text(pairs) == "f32[3] i32[] ");
  CHECK(text(pairs.shuffle(3).repeat().prefetch(2).take(4).skip(1).shard(2, 0)) == "f32[3] i32[] ");
  CHECK(text(pairs.batch(4)) == "f32[-1, 3] i32[-1] ");
  CHECK(text(pairs.batch(4, true)) == "f32[4, 3] i32[4] ");
  auto only_images = [](const element& x) { return element{x[0]}; };
  CHECK(text(pairs.shuffle(6).batch(4).map(only_images)) == "f32[-1, 3] ");
  CHECK(text(pairs.map(only_images).batch(4)) == "f32[-1, 3] ");
  CHECK(text(dataset::zip(pairs, dataset::range(3))) == "f32[3] i32[] i64[] ");
  CHECK(text(pairs.take(0).map(only_images)) == "");
  auto wide =
    dataset::from_tensors({tensor::zeros(dtype::f32, {2, 5}), tensor::zeros(dtype::i32, {2})});
  CHECK(text(pairs.concatenate(wide)) == "f32[-1] i32[] ");
  CHECK(failure_of([&] { text(pairs.concatenate(dataset::range(2))); }).code
        == errc::shape_mismatch);
  CHECK(ports.random.draws == 0);
}

TEST_CASE("range: counts up and down, by any step, to the ends of i64") {
  fake_ports ports;
  CHECK(flat(dataset::range(3), ports.context()) == values{0, 1, 2});
  CHECK(flat(dataset::range(2, 11, 4), ports.context()) == values{2, 6, 10});
  CHECK(flat(dataset::range(5, -2, -3), ports.context()) == values{5, 2, -1});
  CHECK(flat(dataset::range(5, 5), ports.context()).empty());
  CHECK(flat(dataset::range(5, 4), ports.context()).empty());
  CHECK(flat(dataset{}, ports.context()).empty());
  CHECK(flat(dataset::range(INT64_MIN, INT64_MAX, INT64_MAX), ports.context())
        == values{INT64_MIN, -1, INT64_MAX - 1});
  CHECK(flat(dataset::range(INT64_MAX, INT64_MIN, INT64_MIN), ports.context())
        == values{INT64_MAX, -1});
}

TEST_CASE("from_tensors: elements are views of the given rows") {
  fake_ports ports;
  auto rows = tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  auto it = dataset::from_tensors({rows}).iterate(ports.context());
  it.next();
  auto second = it.next();
  CHECK(second.only() == tensor::vector<float>({4, 5, 6}));
  CHECK(second.only().bytes().data() == rows.bytes().data() + 12);
}

TEST_CASE("shuffle: reshuffles every pass unless told not to; every pass has every element") {
  fake_ports ports;
  auto passes = flat(dataset::range(50).shuffle(50, 3).repeat(3), ports.context());
  auto same = flat(dataset::range(50).shuffle(50, 3, false).repeat(3), ports.context());
  REQUIRE(passes.size() == 150);
  auto pass = [](const values& all, int i) {
    return values(all.begin() + 50 * i, all.begin() + 50 * (i + 1));
  };
  for (int i = 0; i < 3; ++i)
    CHECK(sorted(pass(passes, i)) == counted(0, 50));
  CHECK(pass(passes, 0) != pass(passes, 1));
  CHECK(pass(passes, 1) != pass(passes, 2));
  CHECK(pass(passes, 0) != pass(passes, 2));
  CHECK(pass(same, 0) == pass(same, 1));
  CHECK(pass(same, 1) == pass(same, 2));
  CHECK(pass(same, 0) != counted(0, 50));
}

TEST_CASE("shuffle: a buffer of the whole dataset gives every permutation as often") {
  fake_ports ports;
  std::map<values, int> counts;
  for (int i = 0; i < 24000; ++i)
    ++counts[flat(dataset::range(4).shuffle(4), ports.context())];
  CHECK(counts.size() == 24);
  double chi_squared = 0;
  for (const auto& [order, n] : counts)
    chi_squared += (n - 1000.0) * (n - 1000.0) / 1000.0;
  CHECK(chi_squared < 49.7); // 23 degrees of freedom, p = 0.001
}

TEST_CASE("shuffle: a buffer of k elements moves nothing forward by more than k - 1 places") {
  fake_ports ports;
  auto got = flat(dataset::range(200).shuffle(8, 1), ports.context());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] <= static_cast<std::int64_t>(i) + 7);
  CHECK(sorted(got) == counted(0, 200));
  CHECK(got != counted(0, 200));
}

TEST_CASE("repeat: counts passes, goes on forever, and ends on an empty input") {
  fake_ports ports;
  CHECK(flat(dataset::range(2).repeat(3), ports.context()) == values{0, 1, 0, 1, 0, 1});
  CHECK(flat(dataset::range(2).repeat(0), ports.context()).empty());
  CHECK(flat(dataset::range(2).repeat(), ports.context(), 5) == values{0, 1, 0, 1, 0});
  CHECK(flat(dataset::range(0).repeat(), ports.context()).empty());
  CHECK(flat(dataset::range(5).repeat(2).batch(4), ports.context(), 2)
        == values{0, 1, 2, 3, 4, 0, 1, 2});
  CHECK(flat(dataset::range(3).batch(2).repeat(), ports.context(), 3) == values{0, 1, 2, 0, 1});
}

TEST_CASE("shard: the shards are disjoint, in order, and together the whole") {
  fake_ports ports;
  for (bool mapped : {false, true}) {
    auto data = dataset::range(10);
    if (mapped)
      data = data.map([](const element& x) { return x; });
    CHECK(flat(data.shard(3, 0), ports.context()) == values{0, 3, 6, 9});
    CHECK(flat(data.shard(3, 1), ports.context()) == values{1, 4, 7});
    CHECK(flat(data.shard(3, 2), ports.context()) == values{2, 5, 8});
    CHECK(flat(data.shard(1, 0), ports.context()) == counted(0, 10));
    CHECK(flat(data.shard(20, 15), ports.context()).empty());
  }
}

TEST_CASE("take and skip: count in every pass, and take no more than there is") {
  fake_ports ports;
  CHECK(flat(dataset::range(5).take(2), ports.context()) == values{0, 1});
  CHECK(flat(dataset::range(5).take(9), ports.context()) == counted(0, 5));
  CHECK(flat(dataset::range(5).take(0).repeat(), ports.context()).empty());
  CHECK(flat(dataset::range(5).skip(3), ports.context()) == values{3, 4});
  CHECK(flat(dataset::range(5).skip(9), ports.context()).empty());
  CHECK(flat(dataset::range(5).skip(3).repeat(2), ports.context()) == values{3, 4, 3, 4});
  CHECK(flat(dataset::range(5).repeat().skip(3).take(4), ports.context()) == values{3, 4, 0, 1});
}

TEST_CASE("skip and shard do not call map functions for what they drop") {
  fake_ports ports;
  int calls = 0;
  auto data = dataset::range(20).map([&](const element& x) {
    ++calls;
    return x;
  });
  CHECK(flat(data.skip(5).shard(5, 0), ports.context()) == values{5, 10, 15});
  CHECK(calls == 3);
}

TEST_CASE("concatenate and zip: one after the other, and side by side until one ends") {
  fake_ports ports;
  auto low = dataset::range(3);
  CHECK(flat(low.concatenate(dataset::range(10, 12)), ports.context()) == values{0, 1, 2, 10, 11});
  CHECK(flat(low.concatenate(low).repeat(2).batch(4), ports.context())
        == values{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  auto it = dataset::zip(low.repeat(), dataset::range(5)).skip(3).iterate(ports.context());
  CHECK(it.next() == element{tensor::scalar<std::int64_t>(0), tensor::scalar<std::int64_t>(3)});
  it.next();
  CHECK_FALSE(it.try_next());
  CHECK_FALSE(it.try_next());
}

TEST_CASE("map: changes parts and types; what it throws comes through, and again until a restore") {
  fake_ports ports;
  bool healthy = false;
  auto it = dataset::range(6)
              .map([&](const element& x) {
                if (x.item<std::int64_t>() == 3 && !healthy)
                  throw std::runtime_error{"three"};
                return element{tensor::scalar(static_cast<float>(x.item<std::int64_t>())), x[0]};
              })
              .batch(2)
              .iterate(ports.context());
  CHECK(it.next()[0] == tensor::vector<float>({0, 1}));
  auto before = it.save_position();
  CHECK_THROWS_WITH_AS(it.next(), "three", std::runtime_error);
  CHECK_THROWS_WITH_AS(it.next(), "three", std::runtime_error);
  CHECK(failure_of([&] { (void)it.save_position(); }).code == errc::wrong_state);
  healthy = true;
  it.restore_position(before);
  CHECK(it.next()[0] == tensor::vector<float>({2, 3}));
}

TEST_CASE("batch: elements that differ in type, shape or parts are refused with both") {
  fake_ports ports;
  auto rows = [](std::int64_t width) {
    return dataset::from_tensors({tensor::zeros(dtype::f32, {1, width})});
  };
  auto shapes =
    failure_of([&] { rows(2).concatenate(rows(3)).batch(2).iterate(ports.context()).next(); });
  CHECK(shapes.code == errc::shape_mismatch);
  CHECK(says(shapes.text, "element 1, part 0 is [3], the first one [2]"));
  auto types = failure_of([&] {
    dataset::range(1)
      .concatenate(dataset::from_tensors({tensor::zeros(dtype::f32, {1})}))
      .batch(2)
      .iterate(ports.context())
      .next();
  });
  CHECK(types.code == errc::dtype_mismatch);
  auto parts = failure_of([&] {
    dataset::range(1)
      .concatenate(dataset::zip(dataset::range(1), dataset::range(1)))
      .batch(2)
      .iterate(ports.context())
      .next();
  });
  CHECK(parts.code == errc::shape_mismatch);
  auto undefined = failure_of([&] {
    dataset::range(1)
      .map([](const element&) { return element{tensor{}}; })
      .iterate(ports.context())
      .next();
  });
  CHECK(undefined.code == errc::invalid_argument);
}

TEST_CASE("batch: memory is used again only when nobody holds the batch") {
  fake_ports ports;
  for (bool mapped : {false, true}) {
    auto data = dataset::range(1000);
    if (mapped)
      data = data.map([](const element& x) { return x; });
    auto it = data.batch(10).iterate(ports.context());
    auto kept = it.next().only();
    auto kept_rows = it.next().only().rows(2, 4);
    std::set<const std::byte*> seen;
    for (int i = 0; i < 90; ++i) {
      auto x = it.next().only();
      CHECK(x.bytes().data() != kept.bytes().data());
      CHECK(x.as<std::int64_t>()[0] == 20 + 10 * i);
      seen.insert(x.bytes().data());
    }
    CHECK(seen.size() <= 2);
    CHECK(values_of<std::int64_t>(kept) == counted(0, 10));
    CHECK(values_of<std::int64_t>(kept_rows) == values{12, 13});
  }
}

TEST_CASE("batch: a batch outlives its iterator and dataset") {
  fake_ports ports;
  element x;
  {
    auto it = dataset::range(4).batch(4).iterate(ports.context());
    x = it.next();
  }
  CHECK(values_of<std::int64_t>(x.only()) == counted(0, 4));
}

TEST_CASE("dataset: arguments out of their domain are refused with their value") {
  auto refused = [](auto action, const char* part) {
    auto why = failure_of(action);
    CHECK(why.code == errc::invalid_argument);
    CHECK_MESSAGE(says(why.text, part), why.text);
  };
  auto data = dataset::range(3);
  refused([&] { data.batch(0); }, "batch: size is 0");
  refused([&] { data.shuffle(0); }, "shuffle: buffer is 0");
  refused([&] { data.repeat(-1); }, "repeat: count is -1");
  refused([&] { data.take(-2); }, "take: count is -2");
  refused([&] { data.skip(-3); }, "skip: count is -3");
  refused([&] { data.shard(0, 0); }, "shard: count is 0");
  refused([&] { data.shard(2, 2); }, "shard: index 2 of 2");
  refused([&] { data.shard(2, -1); }, "shard: index is -1");
  refused([&] { data.prefetch(-1); }, "prefetch: count is -1");
  refused([&] { data.map(nullptr); }, "map");
  refused([&] { dataset::range(0, 5, 0); }, "step is 0");
  refused([] { dataset::from_tensors({}); }, "no tensors");
  refused([] { dataset::from_tensors({tensor::scalar(1.0f)}); }, "tensor 0 has no rows");
  refused([] { dataset::from_tensors({tensor{}}); }, "tensor 0 has no rows");
  auto why = failure_of([] {
    dataset::from_tensors({tensor::zeros(dtype::f32, {2}), tensor::zeros(dtype::f32, {3})});
  });
  CHECK(why.code == errc::shape_mismatch);
  CHECK(says(why.text, "tensor 1 has 3 rows, tensor 0 has 2"));
}
