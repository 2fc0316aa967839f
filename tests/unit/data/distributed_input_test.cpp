#include <troupe/data/distributed_input.hpp>

#include <doctest/doctest.h>

#include "input_support.hpp"

using namespace data_test;

TEST_CASE("SYNC-INP-1 SYNC-INP-4 range(4).batch(2) on 2 replicas: {0|1}, {2|3}") {
  CHECK(steps_of(counted(4, 2), at(0, 1, 2)) == words{"0|1", "2|3"});
  CHECK(steps_of(counted(4, 2), at(0, 1, 2, split::even)) == words{"0|1", "2|3"});
}

TEST_CASE("SYNC-INP-5 [5,6,7,8].batch(2): {5|6}, {7|8}, whose squares are {25|36}, {49|64}") {
  fake_ports ports;
  pipeline_pieces input{of({5, 6, 7, 8}, 2), at(0, 1, 2), ports.context()};
  std::vector<std::int64_t> squares;
  for (auto step = input.next(); step.has_data; step = input.next())
    for (const auto& x : step.pieces)
      squares.push_back(x.data.item<std::int64_t>() * x.data.item<std::int64_t>());
  CHECK(squares == std::vector<std::int64_t>{25, 36, 49, 64});
}

TEST_CASE("SYNC-INP-2 from function: nothing rebatched, a worker with 2 replicas takes 2 a step") {
  fake_ports ports;
  int calls = 0;
  auto make = [&](const pipeline_place& x) {
    ++calls;
    CHECK(x.workers == 2);
    CHECK(x.worker == 1);
    CHECK(x.replicas_in_sync == 4);
    CHECK(x.per_replica_batch_size(8) == 2);
    CHECK(says(failure_of([&] { (void)x.per_replica_batch_size(7); }).text, "batch size 7"));
    return counted(7, 2);
  };
  auto input = pipeline_pieces::from_function(make, at(1, 2, 2), ports.context());
  CHECK(steps_of(input) == words{"0 1|2 3", "4 5|6"});
  CHECK(calls == 1);
  CHECK(
    failure_of([&] { (void)pipeline_pieces::from_function({}, at(0, 1, 1), ports.context()); }).code
    == errc::invalid_argument);
}

TEST_CASE("SYNC-INP-6 SYNC-INP-6b pieces go to worker i mod W, so ranks hold 0, 2, 1, 3") {
  CHECK(steps_of(counted(4, 4), at(0, 2, 2)) == words{"0|2"});
  CHECK(steps_of(counted(4, 4), at(1, 2, 2)) == words{"1|3"});
  CHECK(steps_of(counted(8, 4), at(0, 1, 4)) == words{"0|1|2|3", "4|5|6|7"});
}

TEST_CASE("SYNC-INP-10 elements without a batch dimension are refused for n > 1, with a way out") {
  auto got = why(dataset::range(4), at(0, 1, 2));
  CHECK(got.code == errc::invalid_argument);
  CHECK(says(got.text, "part 0 is i64[] and has no batch dimension"));
  CHECK(says(got.text, "batch the dataset first"));
  auto uneven = dataset::range(2).map([](const element&) {
    return element{tensor::zeros(dtype::f32, {4}), tensor::zeros(dtype::f32, {3})};
  });
  auto differs = why(uneven, at(0, 1, 2));
  CHECK(differs.code == errc::shape_mismatch);
  CHECK(says(differs.text, "part 1 has 3 rows, part 0 has 4"));
}

TEST_CASE("SYNC-INP-11 one replica has every element as it is, batched or not") {
  CHECK(steps_of(counted(5, 2), at(0, 1, 1)) == words{"0 1", "2 3", "4"});
  CHECK(steps_of(dataset::range(3), at(0, 1, 1)) == words{"0", "1", "2"});
}

TEST_CASE("SYNC-INP-12 SYNC-I14 passes: the same without reshuffle, others with it, by the seed") {
  fake_ports ports;
  auto pass_of = [&](const dataset& data, std::uint64_t pass) {
    pipeline_pieces input{data, at(0, 1, 2), ports.context()};
    input.start_pass(pass);
    CHECK(input.pass() == pass);
    return steps_of(input);
  };
  auto same = dataset::range(64).shuffle(64, 5, false).batch(8);
  CHECK(pass_of(same, 0) == pass_of(same, 1));
  auto other = dataset::range(64).shuffle(64, 5).batch(8);
  CHECK(pass_of(other, 0) != pass_of(other, 1));
  CHECK(pass_of(other, 1) == pass_of(other, 1));
  // a pass can be begun in the middle of another, and after an end
  pipeline_pieces input{other, at(0, 1, 2), ports.context()};
  auto first = steps_of(input);
  CHECK_FALSE(input.next().has_data);
  input.start_pass(1);
  CHECK(text(input.next()) == pass_of(other, 1)[0]);
  input.start_pass(0);
  CHECK(steps_of(input) == first);
}

TEST_CASE("SYNC-INP-13 cardinality of the pipeline in steps, known, unknown or infinite") {
  fake_ports ports;
  auto count = [&](const dataset& x, const pipeline_options& o) {
    return pipeline_pieces{x, o, ports.context()}.cardinality();
  };
  CHECK(count(counted(10, 4), at(0, 1, 2)) == 3);
  CHECK(count(counted(10, 4), at(1, 2, 2)) == 3);
  CHECK(count(counted(10, 4).repeat(), at(0, 1, 2)) == infinite_cardinality);
  CHECK(count(counted(10, 4), at(0, 2, 1, split::stream, policy::off)) == unknown_cardinality);
  auto whole = at(0, 1, 2);
  whole.rebatch = false;
  CHECK(count(counted(10, 2), whole) == 3);
  whole.workers = 2;
  CHECK(count(counted(10, 2), whole) == 2);
}

TEST_CASE("SYNC-SPL-2 the stream rule runs on across the borders of batches") {
  fake_ports ports;
  ports.storage.files["a"] = "aabbccdd";
  ports.storage.files["b"] = "eeffgg";
  // workers' own streams of G = 3: w0 takes 2, 1, 2, 1; w1 takes 1, 2
  auto data = dataset::fixed_records({"a", "b"}, 2).batch(3);
  auto texts_of = [&](std::int64_t worker) {
    pipeline_pieces input{data, at(worker, 2, 1, split::stream, policy::file), ports.context()};
    words out;
    for (auto step = input.next(); step.has_data; step = input.next())
      out.push_back(text_of(step.pieces[0].data[0]));
    return out;
  };
  CHECK(texts_of(0) == words{"aabb", "cc", "dd"});
  CHECK(texts_of(1) == words{"ee", "ffgg"});
}

TEST_CASE(
  "SYNC-SPL-1 range(36).batch(9).repeat() over 4 replicas: 0 1 2|3 4|5 6|7 8, as TensorFlow") {
  const words first{"0 1 2|3 4|5 6|7 8", "9 10 11|12 13|14 15|16 17"};
  for (auto how : {policy::automatic, policy::off}) {
    CHECK(steps_of(counted(36, 9).repeat(), at(0, 1, 4, split::stream, how), 2) == first);
    CHECK(steps_of(counted(36, 9).repeat(2), at(0, 1, 4, split::stream, how)).size() == 8);
  }
  // Behind the other operations that change no element, and with a remainder that is dropped.
  CHECK(steps_of(counted(36, 9).skip(1), at(0, 1, 4), 1) == words{first[1]});
  CHECK(steps_of(counted(36, 9).shard(2, 1), at(0, 1, 4), 1) == words{first[1]});
  CHECK(steps_of(counted(36, 9).concatenate(counted(9, 9)), at(0, 1, 4), 2) == first);
  CHECK(steps_of(dataset::range(36).batch(9, true).map([](const element& x) { return x; }),
                 at(0, 1, 4), 2)
        == first);
  // A map hides it: by the per-batch rule as before.
  CHECK(steps_of(mapped(counted(36, 9)).repeat(), at(0, 1, 4), 1) == words{"0 1 2|3 4 5|6 7 8|-"});
  // Workers that read streams of their own fill pieces across the passes.
  CHECK(steps_of(counted(3, 2).repeat(2), at(0, 2, 1, split::stream, policy::off))
        == words{"0", "1", "2", "0", "1", "2"});
}

TEST_CASE("SYNC-SPL-2 with batches of fewer rows in the middle the number of steps is not told") {
  fake_ports ports;
  auto input = [&](const dataset& x) { return pipeline_pieces{x, at(0, 1, 2), ports.context()}; };
  CHECK(input(counted(10, 4).repeat(2)).cardinality() == unknown_cardinality);
  CHECK(steps_of(counted(10, 4).repeat(2), at(0, 1, 2)).size() == 5); // of 20 rows, in 6 batches
  CHECK(input(counted(10, 4).shuffle(3, 1).skip(1)).cardinality() == 2);
  CHECK(input(dataset::range(10).batch(4, true).repeat(3)).cardinality() == 6);
  CHECK(input(counted(10, 4).concatenate(counted(4, 4))).cardinality() == unknown_cardinality);
  auto even = pipeline_pieces{counted(10, 4).repeat(2), at(0, 1, 2, split::even), ports.context()};
  CHECK(even.cardinality() == 6);
}

TEST_CASE("SYNC-SPL-4 a size of 0 is an empty piece, and no sign of the end") {
  CHECK(steps_of(counted(8, 4), at(0, 1, 5)) == words{"0|1|2|3|-", "4|5|6|7|-"});
  // 2 workers of 1 replica, G = 1, all on each: worker 1's first size is 0
  auto options = at(1, 2, 1, split::stream, policy::off);
  CHECK(steps_of(counted(2, 1), options) == words{"-", "0", "-", "1"});
}

TEST_CASE("SYNC-SPL-10 the last 6 rows of 8 on 2 replicas, by both rules") {
  CHECK(steps_of(counted(6, 8), at(0, 1, 2)) == words{"0 1 2 3|4 5"});
  CHECK(steps_of(counted(6, 8), at(0, 1, 2, split::even)) == words{"0 1 2|3 4 5"});
  // MEAN over axis 0 is 2.5 either way
  for (auto rule : {split::stream, split::even}) {
    fake_ports ports;
    pipeline_pieces input{counted(6, 8), at(0, 1, 2, rule), ports.context()};
    double sum = 0;
    std::size_t rows = 0;
    for (const auto& x : input.next().pieces) {
      for (auto v : values_of<std::int64_t>(x.data[0]))
        sum += static_cast<double>(v);
      rows += x.global_rows.size();
    }
    CHECK(sum / static_cast<double>(rows) == 2.5);
  }
}

TEST_CASE("SYNC-SPL-11 range(10).batch(4), 2 replicas, by both rules") {
  CHECK(steps_of(counted(10, 4), at(0, 1, 2)) == words{"0 1|2 3", "4 5|6 7", "8 9|-"});
  CHECK(steps_of(counted(10, 4), at(0, 1, 2, split::even)) == words{"0 1|2 3", "4 5|6 7", "8|9"});
}

TEST_CASE("SYNC-SPL-12 range(9).batch(4), 2 replicas: the last step is {8|-} by both rules") {
  for (auto rule : {split::stream, split::even}) {
    auto got = steps_of(counted(9, 4), at(0, 1, 2, rule));
    CHECK(got.size() == 3);
    CHECK(got.back() == "8|-");
  }
}

TEST_CASE("SYNC-SPL-14 SYNC-I20 [5,6,7].batch(4), 2 replicas: {5 6|7}, sizes 2 and 1, mean 6") {
  for (auto rule : {split::stream, split::even}) {
    fake_ports ports;
    pipeline_pieces input{of({5, 6, 7}, 4), at(0, 1, 2, rule), ports.context()};
    auto step = input.next();
    CHECK(text(step) == "5 6|7");
    CHECK(step.pieces[0].data[0].rows() == 2);
    CHECK(step.pieces[1].data[0].rows() == 1);
    CHECK(step.pieces[0].global_rows == std::vector<std::uint64_t>{0, 1});
    CHECK(step.pieces[1].global_rows == std::vector<std::uint64_t>{2});
    auto a = values_of<std::int64_t>(step.pieces[0].data[0]);
    CHECK((a[0] + a[1]) / 2.0 == 5.5);
    CHECK((a[0] + a[1] + values_of<std::int64_t>(step.pieces[1].data[0])[0]) / 3.0 == 6.0);
  }
}

TEST_CASE("SYNC-SPL-15 SYNC-I4 SYNC-I5 range(100).batch(10), 2 replicas: 5 and 5, or 10 and 10") {
  fake_ports ports;
  for (bool rebatch : {true, false}) {
    auto options = at(0, 1, 2);
    options.rebatch = rebatch;
    pipeline_pieces input{counted(100, 10), options, ports.context()};
    std::int64_t steps = 0;
    for (auto step = input.next(); step.has_data; step = input.next()) {
      ++steps;
      for (const auto& x : step.pieces)
        CHECK(x.data[0].rows() == (rebatch ? 5 : 10));
    }
    CHECK(steps == (rebatch ? 10 : 5));
    CHECK(input.cardinality() == steps);
  }
}

TEST_CASE("SYNC-SPL-16 batches without a remainder: {5|6}, and {5|-}, {6|-} of batches of 1") {
  for (auto rule : {split::stream, split::even}) {
    CHECK(steps_of(of({5, 6}, 2, true), at(0, 1, 2, rule)) == words{"5|6"});
    CHECK(steps_of(of({5, 6}, 1, true), at(0, 1, 2, rule)) == words{"5|-", "6|-"});
  }
}

TEST_CASE("SYNC-SPL-17 SYNC-I21 [5].batch(2), 2 replicas: {5|-}, and the empty piece has no rows") {
  fake_ports ports;
  pipeline_pieces input{of({5}, 2), at(0, 1, 2), ports.context()};
  auto step = input.next();
  CHECK(text(step) == "5|-");
  CHECK(step.pieces[1].data[0].type() == dtype::i64);
  CHECK(step.pieces[1].data[0].shape() == shape_t{0});
  CHECK(step.pieces[1].global_rows.empty());
}

TEST_CASE("SYNC-SPL-18 SYNC-SPL-19 from function: 5 rows of 3 are {3|2}, 20 rows of 16 {16|4}") {
  fake_ports ports;
  auto rows_of = [&](std::int64_t rows, std::int64_t batch) {
    auto input = pipeline_pieces::from_function(
      [=](const pipeline_place&) { return counted(rows, batch); }, at(0, 1, 2), ports.context());
    auto step = input.next();
    CHECK_FALSE(input.next().has_data);
    return std::pair{step.pieces[0].data[0].rows(), step.pieces[1].data[0].rows()};
  };
  CHECK(rows_of(5, 3) == std::pair<std::int64_t, std::int64_t>{3, 2});
  CHECK(rows_of(20, 16) == std::pair<std::int64_t, std::int64_t>{16, 4});
}

TEST_CASE("SYNC-SPL-20 from function: replicas may have other inner shapes") {
  fake_ports ports;
  auto make = [](const pipeline_place&) {
    return dataset::range(2, 4).map([](const element& x) {
      auto n = x.item<std::int64_t>();
      tensor out{dtype::i64, {2, n}};
      auto to = out.mutable_as<std::int64_t>();
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = static_cast<std::int64_t>(i) % n + 1;
      return element{out};
    });
  };
  auto input = pipeline_pieces::from_function(make, at(0, 1, 2), ports.context());
  auto step = input.next();
  CHECK(step.pieces[0].data[0].shape() == shape_t{2, 2});
  CHECK(step.pieces[1].data[0].shape() == shape_t{2, 3});
  CHECK(text(step) == "1 2 1 2|1 2 3 1 2 3"); // means 1.5 and 2
}
