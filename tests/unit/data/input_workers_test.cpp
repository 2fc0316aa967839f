#include <doctest/doctest.h>

#include <map>
#include <numeric>

#include "input_support.hpp"

using namespace data_test;

TEST_CASE("SYNC-MWI-1 SYNC-MWI-2 DATA: every W-th piece, range(8).batch(3), 2 workers") {
  auto data = counted(8, 3);
  CHECK(steps_of(data, at(0, 2, 1, split::even)) == words{"0 1", "3 4", "6"});
  CHECK(steps_of(data, at(1, 2, 1, split::even)) == words{"2", "5", "7"});
  // Troupe's default keeps the sizes of a whole batch, 2 and 1
  CHECK(steps_of(data, at(0, 2, 1)) == words{"0 1", "3 4", "6 7"});
  CHECK(steps_of(data, at(1, 2, 1)) == words{"2", "5", "-"});
}

TEST_CASE("SYNC-MWI-3 SYNC-I11 range(14).batch(8), 2 workers, the second step") {
  auto data = counted(14, 8);
  CHECK(steps_of(data, at(0, 2, 1, split::even))[1] == "8 9 10");
  CHECK(steps_of(data, at(1, 2, 1, split::even))[1] == "11 12 13");
  CHECK(steps_of(data, at(0, 2, 1))[1] == "8 9 10 11");
  CHECK(steps_of(data, at(1, 2, 1))[1] == "12 13");
}

TEST_CASE("SYNC-MWI-5 SYNC-I3 2 workers of 2, range(15).batch(4): piece i to worker i mod 2") {
  auto data = counted(15, 4);
  for (auto rule : {split::stream, split::even}) {
    CHECK(steps_of(data, at(0, 2, 2, rule)) == words{"0|2", "4|6", "8|10", "12|14"});
    CHECK(steps_of(data, at(1, 2, 2, rule)) == words{"1|3", "5|7", "9|11", "13|-"});
  }
}

TEST_CASE("SYNC-I2 2 workers, range(9).batch(2): the last step leaves worker 1 without rows") {
  auto data = counted(9, 2);
  for (auto rule : {split::stream, split::even}) {
    CHECK(steps_of(data, at(0, 2, 1, rule)) == words{"0", "2", "4", "6", "8"});
    CHECK(steps_of(data, at(1, 2, 1, rule)) == words{"1", "3", "5", "7", "-"});
  }
  auto dropped = dataset::range(9).batch(2, true);
  CHECK(steps_of(dropped, at(0, 2, 1)).size() == 4);
  CHECK(steps_of(dropped, at(1, 2, 1)) == words{"1", "3", "5", "7"});
}

TEST_CASE("SYNC-MWI-6 SYNC-I6 OFF, range(12).batch(8), 2 workers: each sees everything") {
  for (std::int64_t w = 0; w < 2; ++w)
    CHECK(steps_of(counted(12, 8), at(w, 2, 1, split::stream, policy::off))
          == words{"0 1 2 3", "4 5 6 7", "8 9 10 11"});
}

TEST_CASE("SYNC-MWI-7 SYNC-I7 OFF, batches of unknown size 8 and 4, 2 workers") {
  for (std::int64_t w = 0; w < 2; ++w)
    CHECK(steps_of(mapped(counted(12, 8)), at(w, 2, 1, split::stream, policy::off))
          == words{"0 1 2 3", "4 5 6 7", "8 9", "10 11"});
}

TEST_CASE("SYNC-MWI-8 SYNC-I12 from function, 4 a replica, sharded by element: the second step") {
  fake_ports ports;
  auto make = [](const pipeline_place& x) {
    return counted(14, x.per_replica_batch_size(8)).shard(x.workers, x.worker);
  };
  auto chief = pipeline_pieces::from_function(make, at(0, 2, 1), ports.context());
  auto worker = pipeline_pieces::from_function(make, at(1, 2, 1), ports.context());
  CHECK(steps_of(chief) == words{"0 1 2 3", "8 9 10 11"});
  CHECK(steps_of(worker) == words{"4 5 6 7", "12 13"});
}

TEST_CASE("SYNC-I13 chief and worker, G = 10 from function: first batches sum to 10 and 35") {
  fake_ports ports;
  auto sum_of = [&](std::int64_t worker) {
    auto input = pipeline_pieces::from_function(
      [](const pipeline_place& x) {
        return counted(10, x.per_replica_batch_size(10)).shard(x.workers, x.worker);
      },
      at(worker, 2, 1), ports.context());
    auto all = values_of<std::int64_t>(input.next().pieces[0].data[0]);
    return std::accumulate(all.begin(), all.end(), std::int64_t{0});
  };
  CHECK(sum_of(0) == 10);
  CHECK(sum_of(1) == 35);
}

TEST_CASE("SYNC-MWI-10 SYNC-I9 range(4) as it is: AUTO shares it out, OFF gives all to both") {
  auto options = [](std::int64_t worker, policy how) {
    auto out = at(worker, 2, 1, split::stream, how);
    out.rebatch = false;
    return out;
  };
  CHECK(steps_of(dataset::range(4), options(0, policy::automatic)) == words{"0", "2"});
  CHECK(steps_of(dataset::range(4), options(1, policy::automatic)) == words{"1", "3"});
  for (std::int64_t w = 0; w < 2; ++w)
    CHECK(steps_of(dataset::range(4), options(w, policy::off)) == words{"0", "1", "2", "3"});
}

TEST_CASE("SYNC-MWI-11 SYNC-I10 from function, range(8) and range(9) by 2: step 5 is {-}, {8}") {
  fake_ports ports;
  auto make = [](const pipeline_place& x) { return counted(8 + x.worker, 2); };
  auto w0 = pipeline_pieces::from_function(make, at(0, 2, 1), ports.context());
  auto w1 = pipeline_pieces::from_function(make, at(1, 2, 1), ports.context());
  for (const auto* want : {"0 1", "2 3", "4 5", "6 7"}) {
    CHECK(text(w0.next()) == want);
    CHECK(text(w1.next()) == want);
  }
  auto empty = w0.next();
  CHECK_FALSE(empty.has_data);
  CHECK(empty.pieces[0].data[0].shape() == shape_t{0});
  auto last = w1.next();
  CHECK(last.has_data);
  CHECK(text(last) == "8");
  CHECK_FALSE(w0.next().has_data);
  CHECK_FALSE(w1.next().has_data);
}

TEST_CASE("SYNC-MWI-12 range(10).batch(1) as it is, 2 replicas, then shared out to 2 workers") {
  auto options = [](std::int64_t worker, std::int64_t replicas) {
    auto out = at(worker, 2, replicas, split::stream, policy::data);
    out.rebatch = false;
    return out;
  };
  auto data = counted(10, 1);
  CHECK(steps_of(data, options(0, 2)) == words{"0|2", "4|6", "8|-"});
  CHECK(steps_of(data, options(1, 2)) == words{"1|3", "5|7", "9|-"});
  CHECK(steps_of(data, options(0, 1)) == words{"0", "2", "4", "6", "8"});
  CHECK(steps_of(data, options(1, 1)) == words{"1", "3", "5", "7", "9"});
}

TEST_CASE("SYNC part 2 row 7: weights 3:1 take 6 and 2 rows of 8, then 4 and 1 of the last 5") {
  auto options = at(0, 1, 2);
  options.weights = {3, 1};
  for (auto rule : {split::stream, split::even}) {
    options.rule = rule;
    CHECK(steps_of(counted(13, 8), options) == words{"0 1 2 3 4 5|6 7", "8 9 10 11|12"});
  }
  // over two workers of one replica the same rows
  for (std::int64_t w = 0; w < 2; ++w) {
    auto one = at(w, 2, 1);
    one.weights = {3, 1};
    auto want = w == 0 ? words{"0 1 2 3 4 5", "8 9 10 11"} : words{"6 7", "12"};
    CHECK(steps_of(counted(13, 8), one) == want);
    one.policy = policy::off; // each its share of G, from a stream of its own
    auto all = steps_of(counted(13, 8), one);
    CHECK(all[0] == (w == 0 ? "0 1 2 3 4 5" : "0 1"));
    CHECK(all.size() == (w == 0 ? 3 : 7));
  }
}

TEST_CASE("input: weights follow ranks, whatever the order of pieces") {
  std::map<std::int64_t, std::size_t> rows; // by rank
  for (std::int64_t w = 0; w < 2; ++w) {
    fake_ports ports;
    auto options = at(w, 2, 2);
    options.weights = {1, 2, 3, 4};
    pipeline_pieces input{counted(20, 20), options, ports.context()};
    auto step = input.next();
    for (std::int64_t r = 0; r < 2; ++r)
      rows[w * 2 + r] = step.pieces[static_cast<std::size_t>(r)].global_rows.size();
  }
  CHECK(rows == std::map<std::int64_t, std::size_t>{{0, 2}, {1, 4}, {2, 6}, {3, 8}});
}

TEST_CASE(
  "SYNC-ITR-1 SYNC-ITR-6 SYNC-ITR-5 range(8).batch(2): 4 steps, then the end again and again") {
  fake_ports ports;
  pipeline_pieces input{counted(8, 2), at(0, 1, 2), ports.context()};
  int steps = 0;
  for (int i = 0; i < 6; ++i)
    steps += input.next().has_data ? 1 : 0;
  CHECK(steps == 4);
  auto after = input.next();
  CHECK_FALSE(after.has_data);
  CHECK(after.pieces.size() == 2);
  // a new one starts over
  pipeline_pieces other{counted(8, 2), at(0, 1, 2), ports.context()};
  CHECK(text(other.next()) == "0|1");
}

TEST_CASE("SYNC-ITR-2 an empty piece: batch dimension 0, unknown ones 0, right types, scalars 0") {
  fake_ports ports;
  auto data =
    dataset::from_tensors({tensor::zeros(dtype::f32, {1, 28, 3}), tensor::zeros(dtype::u8, {1})})
      .batch(4);
  pipeline_pieces input{data, at(0, 1, 2), ports.context()};
  auto step = input.next();
  const auto& empty = step.pieces[1];
  CHECK(empty.empty());
  CHECK(empty.data[0].shape() == shape_t{0, 28, 3});
  CHECK(empty.data[0].type() == dtype::f32);
  CHECK(empty.data[1].shape() == shape_t{0});
  CHECK(empty.data[1].type() == dtype::u8);
  ports.storage.files["a"] = "xy\n";
  auto lines = dataset::text_lines({"a"}).batch(1);
  pipeline_pieces text_input{lines, at(0, 1, 2), ports.context()};
  CHECK(text_input.next().pieces[1].data[0].shape() == shape_t{0, 0});
  auto whole = at(0, 1, 2);
  whole.rebatch = false;
  pipeline_pieces scalars{dataset::range(1), whole, ports.context()};
  auto last = scalars.next();
  CHECK(last.pieces[1].empty());
  CHECK(last.pieces[1].data.item<std::int64_t>() == 0);
}

TEST_CASE("SYNC-ITR-8 a dataset without elements ends in its first step") {
  fake_ports ports;
  pipeline_pieces input{counted(0, 2), at(0, 1, 2), ports.context()};
  auto step = input.next();
  CHECK_FALSE(step.has_data);
  CHECK(text(step) == "-|-");
  CHECK(input.cardinality() == 0);
}

TEST_CASE(
  "SYNC-ITR-7 SYNC-ITR-9 SYNC-ITR-10 partial steps: not when infinite or static and alone") {
  fake_ports ports;
  auto input = [&](const dataset& x, const pipeline_options& o) {
    return pipeline_pieces{x, o, ports.context()};
  };
  auto fixed = dataset::range(16).batch(8, true);
  CHECK_FALSE(input(fixed.repeat(), at(0, 2, 2)).has_partial_steps());
  // Endless, but with rows for some of the replicas only: who has none must be known.
  auto few = dataset::range(16).batch(3, true);
  CHECK(input(few.repeat(), at(0, 2, 2)).has_partial_steps());
  CHECK(input(few.repeat(), at(1, 2, 2)).has_partial_steps()); // else one asks whom nobody answers
  CHECK(input(dataset::range(16).repeat().batch(3), at(1, 2, 2)).has_partial_steps());
  CHECK_FALSE(input(few.repeat(), at(0, 1, 4)).has_partial_steps()); // alone it sees them all
  auto weighted = at(1, 2, 2);
  weighted.weights = {1, 1, 1, 0};
  CHECK(input(dataset::range(16).repeat().batch(8), weighted).has_partial_steps());
  CHECK_FALSE(input(fixed, at(0, 1, 2)).has_partial_steps());
  CHECK(input(fixed, at(0, 2, 1)).has_partial_steps());
  CHECK(input(counted(16, 8), at(0, 1, 2)).has_partial_steps());
  auto spec = [&](const dataset& x, const pipeline_options& o) {
    return to_string(input(x, o).element_spec()[0]);
  };
  CHECK(spec(fixed, at(0, 1, 2)) == "i64[4]");
  CHECK(spec(fixed, at(0, 1, 3)) == "i64[-1]"); // 3, 3 and 2
  CHECK(spec(fixed, at(0, 2, 1)) == "i64[-1]");
  CHECK(spec(counted(16, 8), at(0, 1, 2)) == "i64[-1]");
  CHECK(spec(fixed, at(0, 1, 1)) == "i64[8]");
  auto endless = dataset::range(16).repeat().batch(8, true);
  CHECK(spec(endless, at(1, 2, 2)) == "i64[2]");
}

TEST_CASE("input: global row numbers restore dataset order over all workers and replicas") {
  for (auto rule : {split::stream, split::even})
    for (std::int64_t workers : {1, 2, 3})
      for (std::int64_t replicas : {1, 2}) {
        std::map<std::uint64_t, std::int64_t> by_row;
        for (std::int64_t w = 0; w < workers; ++w) {
          fake_ports ports{static_cast<std::uint64_t>(100 * w)};
          auto data = dataset::range(100, 129).batch(8);
          pipeline_pieces input{data, at(w, workers, replicas, rule), ports.context()};
          for (auto step = input.next(); step.has_data; step = input.next())
            for (const auto& x : step.pieces) {
              auto values = values_of<std::int64_t>(x.data[0]);
              REQUIRE(values.size() == x.global_rows.size());
              for (std::size_t i = 0; i < values.size(); ++i)
                CHECK(by_row.emplace(x.global_rows[i], values[i]).second);
            }
        }
        CHECK(by_row.size() == 29);
        for (auto [row, value] : by_row)
          CHECK(value == static_cast<std::int64_t>(row) + 100);
      }
}

TEST_CASE("input: under FILE row numbers are unique over workers and in each one's order") {
  fake_ports ports;
  ports.storage.files["a"] = "abc";
  ports.storage.files["b"] = "de";
  auto data = dataset::fixed_records({"a", "b"}, 1).batch(2);
  std::map<std::uint64_t, std::string> by_row;
  for (std::int64_t w = 0; w < 2; ++w) {
    pipeline_pieces input{data, at(w, 2, 1), ports.context()};
    CHECK(input.policy() == policy::file);
    CHECK(input.note().empty());
    for (auto step = input.next(); step.has_data; step = input.next())
      for (std::size_t i = 0; i < step.pieces[0].global_rows.size(); ++i)
        by_row[step.pieces[0].global_rows[i]] = text_of(step.pieces[0].data[0].rows(
          static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1));
  }
  std::string all;
  for (const auto& [row, value] : by_row)
    all += std::to_string(row) + value;
  CHECK(all == "0a1d2b3e4c");
}

TEST_CASE("input: a shuffle without a seed has one order on all workers under DATA") {
  std::vector<std::int64_t> together;
  for (std::int64_t w = 0; w < 3; ++w) {
    fake_ports ports{static_cast<std::uint64_t>(1000 * w + 1)}; // every process draws others
    auto options = at(w, 3, 1);
    options.shared_seed = 42;
    pipeline_pieces input{dataset::range(60).shuffle(60).batch(6), options, ports.context()};
    CHECK(ports.random.draws == 0);
    for (auto step = input.next(); step.has_data; step = input.next())
      for (auto v : values_of<std::int64_t>(step.pieces[0].data[0]))
        together.push_back(v);
  }
  CHECK(together.size() == 60);
  CHECK_FALSE(std::is_sorted(together.begin(), together.end()));
  std::sort(together.begin(), together.end());
  CHECK(std::unique(together.begin(), together.end()) == together.end());
}

TEST_CASE("SYNC part 1: AUTO that falls back to DATA says so, and is the same as DATA") {
  fake_ports ports;
  ports.storage.files["a"] = "abcd";
  auto data = dataset::fixed_records({"a"}, 1).batch(2);
  pipeline_pieces input{data, at(1, 2, 1), ports.context()};
  CHECK(input.policy() == policy::data);
  CHECK(says(input.note(), "1 files for 2 workers"));
  CHECK(input.global_batch_size() == 2);
  CHECK(text_of(input.next().pieces[0].data[0]) == "b");
  auto by_name = failure_of([&] {
    pipeline_pieces{data, at(1, 2, 1, split::stream, policy::file), ports.context()};
  });
  CHECK(by_name.code == errc::invalid_argument);
}

TEST_CASE("input: options out of their domain are refused by name and value") {
  auto refused = [](pipeline_options x) {
    auto got = why(counted(4, 2), x);
    CHECK(got.code == errc::invalid_argument);
    return got.text;
  };
  CHECK(says(refused(at(0, 0, 1)), "workers is 0"));
  CHECK(says(refused(at(2, 2, 1)), "worker is 2, expected 0 to 1"));
  CHECK(says(refused(at(0, 1, 0)), "replicas of a worker is 0"));
  auto weights = at(0, 2, 1);
  weights.weights = {1, 2, 3};
  CHECK(says(refused(weights), "3 weights for 2 replicas"));
  weights.weights = {0, 0};
  CHECK(says(refused(weights), "all 2 weights are 0"));
  weights.weights = {1, 1};
  weights.rebatch = false;
  CHECK(says(refused(weights), "weights require rebatch"));
  weights.rebatch = true;
  weights.policy = policy::off;
  CHECK(says(why(mapped(counted(4, 2)), weights).text, "a known batch size"));
  weights.weights = {0, 1};
  CHECK(says(refused(weights), "worker 0 takes none of 2 rows"));
}
