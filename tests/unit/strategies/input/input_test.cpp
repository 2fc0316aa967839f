// Input of synchronous strategies: pieces for each replica, the end of the data, replicas without
// data, order-preserving gather, saved positions. Goal: rows SYNC-INP, SPL, ITR, ICX, OPT and part
// 2, row 7, as a strategy shows them; the rules themselves are tested in tests/unit/data. Method:
// strategies over CPU devices of this process.

#include "../../../support/tensors.hpp"
#include "../replicas/support.hpp"

namespace {

using namespace replicas_test;

dataset numbers(std::int64_t n, std::int64_t batch) { return dataset::range(n).batch(batch); }

using pieces = std::vector<std::vector<std::int64_t>>;

pieces pieces_of(const distributed_batch& batch) {
  pieces out;
  for (const auto& each : batch.only())
    out.push_back(values_of<std::int64_t>(each));
  return out;
}

std::vector<pieces> all_of(const distributed_dataset& ds) {
  std::vector<pieces> out;
  for (auto& batch : ds)
    out.push_back(pieces_of(batch));
  return out;
}

TEST_CASE(
  "SYNC-INP-1 SYNC-INP-4 SYNC-INP-5 each step gives every replica a piece of a global batch") {
  auto s = mirrored_over(2);
  auto ds = distribute_dataset(s, numbers(4, 2));
  std::vector<std::vector<std::int64_t>> doubled;
  for (auto& batch : ds) {
    auto out = s.run(
      [](const element& x) {
        auto y = x.only().clone();
        for (auto& each : y.mutable_as<std::int64_t>())
          each *= 2;
        return y;
      },
      batch);
    doubled.push_back({out[0].as<std::int64_t>()[0], out[1].as<std::int64_t>()[0]});
  }
  CHECK(doubled == pieces{{0, 2}, {4, 6}});
  CHECK(ds.cardinality() == 2);
}

TEST_CASE("SYNC-SPL-10 SYNC-SPL-14 the last partial batch, by both rules, and its mean") {
  auto s = mirrored_over(2);
  auto stream = all_of(distribute_dataset(s, numbers(14, 8)));
  CHECK(stream.back() == pieces{{8, 9, 10, 11}, {12, 13}});
  auto even = all_of(distribute_dataset(s, numbers(14, 8), {.rule = split::even}));
  CHECK(even.back() == pieces{{8, 9, 10}, {11, 12, 13}});
  auto input = distribute_dataset(s, dataset::range(5, 8).batch(4)).iterate();
  auto batch = input.next();
  CHECK(pieces_of(batch) == pieces{{5, 6}, {7}});
  CHECK(s.reduce(reduce_op::mean, batch.only(), 0).item<double>() == 6.0);
}

TEST_CASE("SYNC-ITR-1 SYNC-ITR-5 SYNC-ITR-6 the end, and another pass") {
  auto s = mirrored_over(2);
  auto input = distribute_dataset(s, numbers(8, 2)).iterate();
  int steps = 0;
  for (int i = 0; i < 6; ++i)
    steps += input.try_next() ? 1 : 0;
  CHECK(steps == 4);
  for (int i = 0; i < 2; ++i)
    names(failure_of([&] { (void)input.next(); }), errc::end_of_data, {"mirrored_strategy"});
  input.start_pass(1);
  CHECK(input.pass() == 1);
  CHECK(pieces_of(input.next()) == pieces{{0}, {1}});
}

TEST_CASE("SYNC-ITR-4 next is called outside replicas") {
  auto s = mirrored_over(2);
  auto input = distribute_dataset(s, numbers(8, 2)).iterate();
  names(failure_of([&] { s.run([&] { (void)input.next(); }); }), errc::wrong_state,
        {"next", "replica"});
  names(failure_of([&] { s.run([&] { (void)distribute_dataset(s, numbers(8, 2)); }); }),
        errc::wrong_state, {"distribute_dataset"});
}

TEST_CASE("SYNC-ITR-2 SYNC-SPL-17 a replica without data: skipped, or called with zero rows") {
  auto s = mirrored_over(2);
  std::atomic<int> calls{0};
  auto sum_of = [&](distributed_batch batch) {
    return s.run(
      [&](replica_context& ctx, const element& x) {
        ++calls;
        auto total = tensor::scalar<std::int64_t>(0);
        for (auto each : x.only().as<std::int64_t>())
          total.mutable_as<std::int64_t>()[0] += each;
        (void)ctx.all_reduce(reduce_op::max, total);
        ctx.barrier();
        (void)ctx.all_gather(x.only());
        return ctx.all_reduce(reduce_op::mean, total);
      },
      batch);
  };
  auto one = distribute_dataset(s, numbers(1, 2)).iterate().next();
  CHECK(one.live_replicas() == 1);
  CHECK(one.is_empty(1));
  auto skipped = sum_of(distribute_dataset(s, dataset::range(5, 6).batch(2)).iterate().next());
  CHECK(calls == 1);
  CHECK(skipped[0].item<double>() == 5); // the mean of those that have data
  CHECK(!skipped[1].defined());
  CHECK(s.reduce(reduce_op::sum, skipped).item<double>() == 5);
  CHECK(s.reduce(reduce_op::mean, skipped).item<double>() == 5);
  calls = 0;
  auto called =
    sum_of(distribute_dataset(s, dataset::range(5, 6).batch(2), {.empties = empty_pieces::call})
             .iterate()
             .next());
  CHECK(calls == 2);
  CHECK(called.size() == 2);
  CHECK(called[1].defined());
  names(failure_of([&] {
          s.run([](replica_context& ctx, const element&) { ctx.merge_call([](strategy&) {}); },
                one);
        }),
        errc::invalid_argument, {"merge_call", "empty_pieces::call"});
  CHECK(s.run([](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, 1.0f); }).as_single()
        == 2);
}

TEST_CASE("a replica without data says what the others say, and refuses what it can't") {
  auto s = mirrored_over(2);
  auto one = distribute_dataset(s, numbers(1, 2)).iterate().next();
  auto out = s.run(
    [](replica_context& ctx, const element&) {
      collective_options with;
      with.wire = kernels::encoding::bf16;
      return ctx.all_reduce(reduce_op::sum, vec<float>({1, 2}), with);
    },
    one);
  CHECK(out[0] == vec<float>({1, 2}));
  auto other = distribute_dataset(s, numbers(1, 2), {.weights = {0, 1}}).iterate().next();
  REQUIRE(other.is_empty(0));
  names(failure_of([&] {
          s.run(
            [](replica_context& ctx, const element&) { (void)ctx.broadcast(vec<float>({1}), 0); },
            other);
        }),
        errc::invalid_argument, {"broadcast", "replica 0", "empty_pieces::call"});
  const user_reduction join{"join", [](std::byte*, const std::byte*, std::size_t) {}};
  auto joined =
    s.run([&](replica_context& ctx,
              const element&) { return ctx.all_reduce(reduction{join}, vec<float>({1})); },
          one);
  CHECK(joined[0] == vec<float>({1})); // it is left out, having no value that changes nothing
}

TEST_CASE("copies stay equal in a step that a replica has no data for") {
  const auto one = [](const strategy& s) {
    return distribute_dataset(s, numbers(1, 2)).iterate().next();
  };
  auto check = [](const distributed_variable& v, tensor expected) {
    for (std::size_t i = 0; i < v.components(); ++i)
      CHECK(v.component(i) == expected);
  };
  for (const strategy& s : {strategy{mirrored_over(3)},
                            strategy{central_storage_strategy{shared_runtime(), cpus(3)}}}) {
    CAPTURE(s.to_string());
    auto made = [&](variable_aggregation how) {
      return s.scope([&] {
        return make_variable(
          {.name = "v", .initial = vec<float>({1, 1}), .aggregation = how, .optimizer = sgd{0.5f}});
      });
    };
    auto sum = made(variable_aggregation::sum), mean = made(variable_aggregation::mean),
         first = made(variable_aggregation::only_first_replica);
    auto trained = made(variable_aggregation::mean);
    auto batch = one(s);
    REQUIRE(batch.live_replicas() == 1);
    s.run(
      [&](replica_context& ctx, const element&) {
        sum.assign_add(vec<float>({1, 2}));
        mean.assign_add(vec<float>({1, 2}));
        first.assign(7);
        trained.scatter_add(vec<std::int64_t>({1}), vec<float>({1}));
        ctx.apply({trained}, {vec<float>({2, 2})}, reduce_op::mean);
      },
      batch);
    check(sum, vec<float>({2, 3}));
    check(mean, vec<float>({2, 3}));
    check(first, vec<float>({7, 7}));
    check(trained, vec<float>({0, 1}));
  }
}

TEST_CASE("SYNC part 2, row 7: capability weights, and a gather in dataset order") {
  auto s = mirrored_over(2);
  auto ds = distribute_dataset(s, numbers(13, 8), {.weights = {3, 1}});
  auto steps = all_of(ds);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0] == pieces{{0, 1, 2, 3, 4, 5}, {6, 7}});
  CHECK(steps[1] == pieces{{8, 9, 10, 11}, {12}});
  std::vector<std::int64_t> seen;
  for (auto& batch : distribute_dataset(s, dataset::range(20).shuffle(20, 3).batch(7))) {
    auto out = s.run([](const element& x) { return x.only(); }, batch);
    for (auto each : values_of<std::int64_t>(gather_ordered(s, out, batch)))
      seen.push_back(each);
  }
  std::vector<std::int64_t> expected;
  auto plain = dataset::range(20).shuffle(20, 3).iterate(data_context{shared_runtime().env()});
  while (auto x = plain.try_next())
    expected.push_back(x->item<std::int64_t>());
  CHECK(seen == expected);
}

TEST_CASE("SYNC-INP-2 SYNC-ICX-4 SYNC-OPT-3 SYNC-OPT-4 SYNC-I18 datasets from a function") {
  auto s = mirrored_over(2);
  std::vector<input_context> asked;
  auto made = [&](const input_context& at) {
    asked.push_back(at);
    return dataset::range(1, 11).batch(5);
  };
  auto per_worker = all_of(distribute_datasets_from_function(s, made));
  CHECK(per_worker[0] == pieces{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}});
  REQUIRE(!asked.empty());
  CHECK(asked[0] == input_context{1, 0, 2});
  asked.clear();
  auto scaled = [&](const input_context& at) {
    asked.push_back(at);
    const auto k = static_cast<std::int64_t>(at.input_pipeline_id) + 1;
    return dataset::range(1, 10).map([k](const element& x) {
      return element{tensor::vector<std::int64_t>({x.item<std::int64_t>() * k})};
    });
  };
  distribute_options each;
  each.input.replication = input_replication::per_replica;
  auto input = distribute_datasets_from_function(s, scaled, each).iterate();
  for (std::int64_t i = 1; i < 10; ++i)
    CHECK(pieces_of(input.next()) == pieces{{i}, {2 * i}});
  CHECK(!input.try_next());
  REQUIRE(asked.size() == 2);
  CHECK(asked[1] == input_context{2, 1, 2});
  names(failure_of([&] { (void)distribute_dataset(s, numbers(4, 2), each); }),
        errc::invalid_argument, {"per_replica"});
}

TEST_CASE(
  "SYNC part 2, row 5a: a saved position goes on exactly, with one pipeline and with several") {
  auto s = mirrored_over(2);
  auto shuffled = dataset::range(30).shuffle(30, 9).batch(4);
  auto all = all_of(distribute_dataset(s, shuffled));
  auto input = distribute_dataset(s, shuffled).iterate();
  for (int i = 0; i < 3; ++i)
    (void)input.next();
  const auto saved = input.save_position();
  auto other = distribute_dataset(s, shuffled).iterate();
  other.restore_position(saved);
  for (std::size_t i = 3; i < all.size(); ++i)
    CHECK(pieces_of(other.next()) == all[i]);
  CHECK(!other.try_next());
  names(failure_of([&] { other.restore_position("0000zzzz"); }), errc::corrupt, {"byte 0"});
  names(failure_of([&] { other.restore_position(""); }), errc::mismatch, {"0 pipelines", "1"});
  distribute_options each;
  each.input.replication = input_replication::per_replica;
  auto made = [](const input_context& at) {
    return dataset::range(10 * at.input_pipeline_id, 10 * at.input_pipeline_id + 5).batch(1);
  };
  auto two = distribute_datasets_from_function(s, made, each).iterate();
  (void)two.next();
  auto again = distribute_datasets_from_function(s, made, each).iterate();
  again.restore_position(two.save_position());
  CHECK(pieces_of(again.next()) == pieces{{1}, {11}});
}

TEST_CASE("SYNC-ITR-15 SYNC-ITR-13 sums over all steps") {
  auto s = mirrored_over(2);
  double total = 0;
  for (auto& batch : distribute_dataset(s, numbers(10, 3))) {
    auto out = s.run(
      [](const element& x) {
        double sum = 0;
        for (auto each : x.only().as<std::int64_t>())
          sum += static_cast<double>(each * each);
        return tensor::scalar(sum);
      },
      batch);
    total += s.reduce(reduce_op::sum, out).item<double>();
  }
  CHECK(total == 285);
}

TEST_CASE("SYNC-ONE-4 one replica has all of it") {
  one_device_strategy one{shared_runtime(), "cpu:0"};
  auto steps = all_of(distribute_dataset(one, numbers(5, 2)));
  CHECK(steps == std::vector<pieces>{{{0, 1}}, {{2, 3}}, {{4}}});
}

TEST_CASE("SYNC-DEF-5 SYNC-S18 the default strategy gives a dataset's elements as they are") {
  strategy none;
  auto ds = distribute_dataset(none, numbers(10, 2));
  auto input = ds.iterate();
  const auto first = input.next();
  CHECK(pieces_of(first) == pieces{{0, 1}});
  CHECK(first.live_replicas() == 1);
  CHECK(!first.device(0));
  CHECK(none.run([](const element& x) { return x.only(); }, first)[0] == vec<std::int64_t>({0, 1}));
  CHECK(all_of(ds).size() == 5);
  CHECK(ds.cardinality() == 5);
  // elements without a batch dimension too, the last smaller batch, files, and shuffles
  CHECK(distribute_dataset(none, dataset::range(3)).iterate().next().piece(0).item<std::int64_t>()
        == 0);
  CHECK(all_of(distribute_dataset(none, numbers(3, 2))).back() == pieces{{2}});
  CHECK(all_of(distribute_dataset(none, dataset::range(30).shuffle(30).batch(30))).size() == 1);
  names(failure_of([&] {
          (void)distribute_dataset(none, dataset::text_lines({"nowhere/x"})).iterate().next();
        }),
        errc::not_found, {"nowhere/x"});
  const auto saved = input.save_position();
  auto other = ds.iterate();
  other.restore_position(saved);
  CHECK(pieces_of(other.next()) == pieces{{2, 3}});
  mirrored_over(2).scope([&] {
    names(failure_of([&] { (void)distribute_dataset(none, numbers(4, 2)); }), errc::wrong_state,
          {"distribute_dataset", "default strategy"});
  });
}

TEST_CASE("SYNC-DEF-6 SYNC-S18 the default strategy calls a dataset function for one pipeline") {
  std::vector<input_context> asked;
  auto ds = distribute_datasets_from_function(strategy{}, [&](const input_context& at) {
    asked.push_back(at);
    return numbers(10, 2);
  });
  CHECK(pieces_of(ds.iterate().next()) == pieces{{0, 1}});
  CHECK(asked == std::vector<input_context>{{1, 0, 1}});
}

} // namespace
