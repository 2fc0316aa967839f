#include <troupe/data/split.hpp>

#include <doctest/doctest.h>

#include <numeric>

#include "support.hpp"

using namespace data_test;
using sizes = std::vector<std::int64_t>;

namespace {

std::int64_t sum(const sizes& xs) { return std::accumulate(xs.begin(), xs.end(), std::int64_t{0}); }

/// Text, because g++ 12 makes {3, 3, 3, 3} of a vector {3, 3, 3, 0} that it knows.
std::string text(const sizes& xs) {
  std::string out;
  for (auto x : xs)
    out += (out.empty() ? "" : " ") + std::to_string(x);
  return out;
}

} // namespace

TEST_CASE("SYNC-SPL-7 the stream rule's lists, each worked number") {
  CHECK(text(stream_split_sizes(8, 1, 2, 0)) == "4 4");
  CHECK(text(stream_split_sizes(8, 2, 2, 0)) == "2 2 2 2");
  CHECK(text(stream_split_sizes(8, 2, 2, 1)) == "2 2 2 2");
  CHECK(text(stream_split_sizes(4, 3, 1, 0)) == "2 1 1");
  CHECK(text(stream_split_sizes(4, 3, 1, 1)) == "1 1 2");
  CHECK(text(stream_split_sizes(4, 3, 1, 2)) == "1 2 1");
  CHECK(text(stream_split_sizes(3, 2, 1, 0)) == "2 1");
  CHECK(text(stream_split_sizes(3, 2, 1, 1)) == "1 2");
  CHECK(text(stream_split_sizes(10, 2, 2, 0)) == "3 3 2 2");
  CHECK(text(stream_split_sizes(10, 2, 2, 1)) == "2 2 3 3");
  CHECK(text(stream_split_sizes(4, 1, 5, 0)) == "1 1 1 1 0");
  CHECK(text(stream_split_sizes(5, 1, 2, 0)) == "3 2");
  CHECK(text(stream_split_sizes(3, 1, 2, 0)) == "2 1");
}

TEST_CASE("SYNC-SPL-3 lists sum to G, and so do all replicas of each step, sizes one apart") {
  for (std::int64_t rows = 0; rows < 20; ++rows)
    for (std::int64_t workers = 1; workers < 5; ++workers)
      for (std::int64_t each = 1; each < 4; ++each) {
        std::vector<sizes> lists;
        for (std::int64_t w = 0; w < workers; ++w) {
          lists.push_back(stream_split_sizes(rows, workers, each, w));
          CHECK(sum(lists.back()) == rows);
          auto [low, high] = std::minmax_element(lists.back().begin(), lists.back().end());
          CHECK(*high - *low <= 1);
        }
        for (std::int64_t step = 0; step < workers; ++step) {
          std::int64_t taken = 0;
          for (const auto& list : lists)
            for (std::int64_t r = 0; r < each; ++r)
              taken += list[static_cast<std::size_t>(step * each + r)];
          CHECK(taken == rows);
        }
      }
}

TEST_CASE("SYNC-SPL-4 a batch smaller than the replicas has entries of size 0") {
  auto got = stream_split_sizes(1, 2, 2, 1);
  CHECK(text(got) == "0 0 1 0");
  CHECK(text(stream_split_sizes(0, 1, 2, 0)) == "0 0");
}

TEST_CASE("SYNC-SPL-9 the per-batch rule cuts m rows into n pieces of ceil(m/n), each number") {
  CHECK(text(even_split_sizes(4, 2)) == "2 2");
  CHECK(text(even_split_sizes(4, 3)) == "2 2 0");
  CHECK(text(even_split_sizes(6, 2)) == "3 3");
  CHECK(text(even_split_sizes(5, 4)) == "2 2 1 0");
  CHECK(text(even_split_sizes(7, 4)) == "2 2 2 1");
  CHECK(text(even_split_sizes(9, 4)) == "3 3 3 0");
  CHECK(text(even_split_sizes(10, 4)) == "3 3 3 1");
  CHECK(text(even_split_sizes(32, 5)) == "7 7 7 7 4");
  CHECK(text(even_split_sizes(1, 2)) == "1 0");
  CHECK(text(even_split_sizes(1, 4)) == "1 0 0 0");
}

TEST_CASE("SYNC-SPL-5 the per-batch rule always gives n pieces that sum to m, the last smaller") {
  for (std::int64_t rows = 0; rows < 40; ++rows)
    for (std::int64_t pieces = 1; pieces < 9; ++pieces) {
      auto got = even_split_sizes(rows, pieces);
      CHECK(got.size() == static_cast<std::size_t>(pieces));
      CHECK(sum(got) == rows);
      CHECK(got[0] == (rows + pieces - 1) / pieces);
      CHECK(std::is_sorted(got.rbegin(), got.rend()));
    }
}

TEST_CASE("SYNC part 2 row 7: weights 3:1 take 6 and 2 of 8 rows, 4 and 1 of the last 5") {
  const std::vector<std::uint32_t> weights{3, 1};
  CHECK(text(weighted_split_sizes(8, weights)) == "6 2");
  CHECK(text(weighted_split_sizes(5, weights)) == "4 1");
  CHECK(text(weighted_split_sizes(0, weights)) == "0 0");
}

TEST_CASE("split: weights sum exactly, equal ones are the stream rule, 0 gets nothing") {
  const std::vector<std::uint32_t> odd{7, 0, UINT32_MAX, 1, 123456};
  for (std::int64_t rows : {0, 1, 2, 17, 1000, 2147483647}) {
    auto got = weighted_split_sizes(rows, odd);
    CHECK(sum(got) == rows);
    CHECK(got[1] == 0);
  }
  for (std::int64_t rows = 0; rows < 30; ++rows)
    CHECK(weighted_split_sizes(rows, std::vector<std::uint32_t>(4, 9))
          == stream_split_sizes(rows, 1, 4, 0));
}

TEST_CASE("split: arguments out of their domain are refused by name and value") {
  auto text_of = [](auto action) {
    auto why = failure_of(action);
    CHECK(why.code == errc::invalid_argument);
    return why.text;
  };
  CHECK(says(text_of([] { (void)stream_split_sizes(-1, 1, 1, 0); }), "global batch is -1"));
  CHECK(says(text_of([] { (void)stream_split_sizes(1, 0, 1, 0); }), "workers is 0"));
  CHECK(says(text_of([] { (void)stream_split_sizes(1, 2, 1, 2); }), "worker is 2"));
  CHECK(says(text_of([] { (void)stream_split_sizes(1, 1, 0, 0); }), "replicas of a worker is 0"));
  CHECK(says(text_of([] { (void)even_split_sizes(1, 0); }), "pieces is 0"));
  CHECK(says(text_of([] { (void)even_split_sizes(-3, 1); }), "rows is -3"));
  CHECK(says(text_of([] { (void)weighted_split_sizes(1, {}); }), "weights is 0"));
  const std::vector<std::uint32_t> none{0, 0};
  CHECK(says(text_of([&] { (void)weighted_split_sizes(1, none); }), "all 2 weights are 0"));
}

TEST_CASE("SYNC-INP-9 replicas that are no multiple of the workers are refused") {
  CHECK(replicas_per_worker(8, 2) == 4);
  auto why = failure_of([] { (void)replicas_per_worker(3, 2); });
  CHECK(why.code == errc::invalid_argument);
  CHECK(says(why.text, "3 replicas on 2 workers"));
  CHECK(says(why.text, "same number of replicas"));
}

TEST_CASE("SYNC-SPL-1 the batch size was lost behind repeat, skip, shard and concatenate") {
  auto batched = dataset::range(100).batch(8);
  CHECK(static_batch_size(batched) == 8);
  CHECK(static_batch_size(batched.take(3).prefetch(2)) == 8);
  CHECK(static_batch_size(batched.repeat()) == 8);
  CHECK(static_batch_size(batched.repeat(3).skip(1).shuffle(4, 1).shard(3, 1).prefetch(1)) == 8);
  CHECK(static_batch_size(batched.shard(shard_hint, shard_hint)) == 8);
  CHECK(static_batch_size(dataset::zip(batched, dataset::range(50).batch(8, true))) == 8);
  CHECK(static_batch_size(dataset::zip(batched, dataset::range(50).batch(4))) == -1);
  CHECK(static_batch_size(batched.concatenate(batched)) == 8);
  CHECK(static_batch_size(batched.concatenate(dataset::range(9).batch(3))) == -1);
  CHECK(static_batch_size(batched.map([](const element& x) { return x; })) == -1);
  CHECK(static_batch_size(batched.map([](const element& x) { return x; }).batch(2)) == 2);
  CHECK(static_batch_size(dataset::range(100)) == -1);
  CHECK(static_batch_size(dataset::range(100).shuffle(9, 1).repeat(2).batch(5)) == 5);
  CHECK(static_batch_size(dataset::from_tensors({tensor::zeros(dtype::f32, {4, 2})})) == -1);
  auto inner = [](const element&) { return dataset::range(8).batch(4); };
  CHECK(static_batch_size(dataset::range(2).flat_map(inner)) == -1);
}

TEST_CASE("SYNC-SPL-1 a batch dimension that every element has for certain comes first") {
  fake_ports ports;
  auto size_of = [&](const dataset& x) { return static_batch_size(x, ports.context()); };
  auto same = [](const element& x) { return x; };
  auto whole = dataset::range(100).batch(8, true);
  CHECK(size_of(whole) == 8);
  CHECK(size_of(whole.repeat().shuffle(3).map(same)) == 8); // a look-up would end at map
  CHECK(size_of(dataset::range(100).batch(8).map(same)) == -1);
  auto half = [](const element& x) { return element{x.only().rows(0, 4)}; };
  CHECK(size_of(whole.map(half)) == -1);
  CHECK(size_of(dataset::zip(whole, dataset::range(60).batch(4, true))) == -1);
  CHECK(size_of(dataset::zip(whole, dataset::range(60).batch(8))) == 8);
  CHECK(size_of(whole.concatenate(dataset::range(60).batch(4, true))) == -1);
  CHECK(size_of(dataset::from_tensors({tensor::zeros(dtype::f32, {4, 2})})) == 2);
  CHECK(size_of(dataset::from_tensors(
          {tensor::zeros(dtype::f32, {4, 2}), tensor::zeros(dtype::f32, {4, 3})}))
        == -1);
  CHECK(size_of(dataset::range(9)) == -1);
  CHECK(size_of(dataset::range(0).batch(4, true).map(same)) == -1); // nothing to call it on
  auto inner = [](const element&) { return dataset::range(8).batch(4, true); };
  CHECK(size_of(dataset::range(2).flat_map(inner)) == 4);
}

TEST_CASE("SYNC-INP-13 a dataset's cardinality, infinite or unknown ones told apart") {
  fake_ports ports;
  auto count = [&](const dataset& x) { return x.cardinality(ports.context()); };
  auto ten = dataset::range(10);
  CHECK(count(ten) == 10);
  CHECK(count(ten.batch(4)) == 3);
  CHECK(count(ten.batch(4, true)) == 2);
  CHECK(count(ten.repeat(3).skip(4)) == 26);
  CHECK(count(ten.skip(11)) == 0);
  CHECK(count(ten.shard(3, 1)) == 3);
  CHECK(count(ten.shard(3, 0)) == 4);
  CHECK(count(ten.repeat()) == infinite_cardinality);
  CHECK(count(ten.repeat().take(7)) == 7);
  CHECK(count(dataset::range(0).repeat()) == 0);
  CHECK(count(ten.repeat(0)) == 0);
  CHECK(count(ten.concatenate(ten)) == 20);
  CHECK(count(ten.concatenate(ten.repeat())) == infinite_cardinality);
  CHECK(count(dataset::zip(ten, ten.repeat())) == 10);
  CHECK(count(dataset::zip(ten, dataset::range(4))) == 4);
  CHECK(count(ten.map([](const element& x) { return x; }).shuffle(3).prefetch(1)) == 10);
  CHECK(count(ten.repeat(INT64_MAX)) == INT64_MAX);
}
