// The calls of v1, and datasets of arrays. Goal: rows SYNC-V1-1 to V1-7, V1-9, GRP-1 and I26.
// Method: strategies over CPU devices of this process.

#include "../replicas/support.hpp"

#include "../../data/support.hpp"
#include "../../data/zip_support.hpp"

namespace {

using namespace replicas_test;
namespace v1 = compat_v1;
using pieces = std::vector<std::vector<std::int64_t>>;

pieces pieces_of(const distributed_batch& batch) {
  pieces out;
  for (const auto& each : batch.only()) {
    auto all = each.as<std::int64_t>();
    out.emplace_back(all.begin(), all.end());
  }
  return out;
}

void check_hundred(v1::input_iterator& input) {
  for (int pass = 0; pass < 2; ++pass) {
    input.initialize();
    for (std::int64_t i = 0; i < 100; i += 2)
      CHECK(pieces_of(input.get_next()) == pieces{{i}, {i + 1}});
    for (int again = 0; again < 2; ++again)
      names(failure_of([&] { (void)input.get_next(); }), errc::end_of_data,
            {"get_next", "mirrored_strategy(cpu:0, cpu:1)", "initialize"});
  }
}

TEST_CASE("SYNC-V1-1 SYNC-V1-4 an iterator of global batches ends and begins again") {
  auto s = mirrored_over(2);
  auto input = v1::make_dataset_iterator(s, dataset::range(100).batch(2));
  check_hundred(input);
  auto single = v1::make_dataset_iterator(s, dataset::range(100), {.rebatch = false});
  check_hundred(single);
}

TEST_CASE("SYNC-V1-1 initialize begins another pass, and nothing where none was taken") {
  auto s = mirrored_over(2);
  auto input = v1::make_dataset_iterator(s, dataset::range(64).shuffle(64, 5).batch(64));
  auto same = v1::make_dataset_iterator(s, dataset::range(64).shuffle(64, 5).batch(64));
  same.initialize();
  same.initialize();
  const auto first = pieces_of(input.get_next());
  CHECK(first == pieces_of(same.get_next()));
  input.initialize(); // in the middle of a pass, too
  const auto second = pieces_of(input.get_next());
  CHECK(second != first); // shuffled anew
  CHECK(second[0].size() == 32);
}

TEST_CASE("SYNC-V1-2 SYNC-V1-4 an input function is asked once a worker, with its place") {
  auto s = mirrored_over(2);
  std::vector<input_context> asked;
  auto input = v1::make_input_fn_iterator(s, [&](const input_context& at) {
    asked.push_back(at);
    return dataset::range(100).batch(1);
  });
  check_hundred(input);
  CHECK(asked == std::vector<input_context>{{1, 0, 2}});
  const auto made = [](const input_context&) { return dataset::range(4); };
  names(
    failure_of([&] { (void)v1::make_input_fn_iterator(s, made, input_replication::per_replica); }),
    errc::invalid_argument, {"mode", "per_replica", "per_worker"});
}

TEST_CASE("SYNC-V1-3 a callable is asked once a device and step") {
  auto s = mirrored_over(2);
  int calls = 0, made = 0;
  const auto counting = [&](const input_context& at) {
    ++made;
    CHECK(at == input_context{1, 0, 2});
    return [&calls, next = std::int64_t{0}]() mutable {
      ++calls;
      if (next == 100)
        throw_failure(errc::end_of_data, "counted");
      return tensor::vector<std::int64_t>({next++});
    };
  };
  auto input = v1::make_input_fn_iterator(s, counting);
  CHECK(calls == 0);
  CHECK(pieces_of(input.get_next()) == pieces{{0}, {1}});
  CHECK(calls == 2);
  input.initialize();
  CHECK(made == 2);
  CHECK(pieces_of(input.get_next()) == pieces{{0}, {1}});
  input.initialize();
  check_hundred(input);
  const auto before = calls;
  CHECK_THROWS_AS((void)input.get_next(), error);
  CHECK(calls == before); // an ended one is not asked again
  names(failure_of(
          [&] { (void)v1::make_input_fn_iterator(s, counting, input_replication::per_replica); }),
        errc::invalid_argument, {"mode", "per_replica"});
  names(failure_of([&] { s.run([&] { (void)input.get_next(); }); }), errc::wrong_state,
        {"get_next", "replica"});
}

TEST_CASE("SYNC-V1-3 a callable that ends within a step leaves the others without data") {
  auto s = mirrored_over(3);
  auto input = v1::make_input_fn_iterator(s, [](const input_context&) {
    return [next = 0]() mutable -> element {
      if (next == 4)
        throw_failure(errc::end_of_data, "counted");
      return tensor::vector<float>({static_cast<float>(next++), 7});
    };
  });
  (void)input.get_next();
  auto last = input.get_next();
  CHECK(last.live_replicas() == 1);
  CHECK(last.is_empty(1));
  CHECK(last.part(0)[2].shape() == shape_t{0});
  CHECK(last.global_rows(0) == std::vector<std::uint64_t>{6, 7});
  std::atomic<int> runs{0};
  auto sums = s.run(
    [&](replica_context& ctx, const element& x) {
      ++runs;
      return ctx.all_reduce(reduce_op::mean, x.only().as<float>()[0]);
    },
    last);
  CHECK(runs == 1);
  CHECK(sums[0] == 3);
  CHECK_THROWS_AS((void)input.get_next(), error);
  auto failing = v1::make_input_fn_iterator(s, [](const input_context&) {
    return []() -> element { throw std::runtime_error{"the disk"}; };
  });
  CHECK_THROWS_WITH_AS((void)failing.get_next(), "the disk", std::runtime_error);
  names(failure_of([&] {
          (void)v1::make_input_fn_iterator(
            s, [](const input_context&) { return std::function<element()>{}; });
        }),
        errc::invalid_argument, {"empty callable"});
}

TEST_CASE("SYNC-V1-5 experimental_run takes the next inputs, or none, in the scope") {
  auto s = mirrored_over(2);
  auto input = v1::make_dataset_iterator(s, dataset::range(4).batch(2));
  const auto doubled = [](const element& x) { return 2 * x.only().as<std::int64_t>()[0]; };
  CHECK(v1::experimental_run(s, doubled, input).local_results() == std::vector<std::int64_t>{0, 2});
  CHECK(v1::experimental_run(s, doubled, input).local_results() == std::vector<std::int64_t>{4, 6});
  CHECK_THROWS_AS((void)v1::experimental_run(s, doubled, input), error);
  CHECK(v1::experimental_run(s, [](replica_context& ctx) { return id_of(ctx); }).local_results()
        == std::vector<std::int64_t>{0, 1});
  CHECK(!has_strategy());
  auto other = mirrored_over(1);
  names(failure_of([&] { other.scope([&] { v1::experimental_run(s, [] {}); }); }),
        errc::wrong_state, {"mixed"});
  CHECK(v1::experimental_run_v2(
          s, [](int x, int y) { return x + y; }, 3, 4)
          .as_single()
        == 7);
  one_device_strategy one{shared_runtime(), "cpu:0"};
  CHECK(v1::experimental_run_v2(
          one, [](int x) { return x + 1; }, 3)
        == 4); // bare, as its run
}

TEST_CASE("SYNC part 1: datasets from a function by the old name") {
  auto s = mirrored_over(2);
  auto ds = v1::experimental_distribute_datasets_from_function(s, [](const input_context& at) {
    return dataset::range(8).batch(at.per_replica_batch_size(4));
  });
  CHECK(ds.cardinality() == 2);
  CHECK(pieces_of(ds.iterate().next()) == pieces{{0, 1}, {2, 3}});
}

TEST_CASE("SYNC-V1-6 SYNC-V1-7 SYNC-I26 arrays, twice, and then the end") {
  auto s = mirrored_over(2);
  auto x = tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  auto y = vec<std::int64_t>({10, 11, 12, 13});
  const auto x_before = x.clone();
  auto ds = v1::experimental_make_numpy_dataset(s, {x, y});
  x.mutable_as<float>()[0] = 99; // they were copied
  auto input = v1::make_dataset_iterator(s, ds.repeat(2).batch(4));
  const auto parts = [](const element& mine) { return std::pair{mine[0], mine[1]}; };
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto [xs, ys] = regroup(s.run(parts, input.get_next()));
    CHECK(xs[0].rows() == 2);
    CHECK(s.gather(xs, 0) == x_before);
    CHECK(s.gather(ys, 0) == y);
  }
  names(failure_of([&] { (void)input.get_next(); }), errc::end_of_data, {"get_next"});
}

TEST_CASE("SYNC-V1-6 who may make a dataset of arrays, and of which") {
  auto s = mirrored_over(2);
  const auto four = vec<float>({1, 2, 3, 4});
  CHECK(make_numpy_dataset(s, four).cardinality(shared_runtime().env()) == 4);
  CHECK(s.scope([&] { return make_numpy_dataset(s, four).cardinality(shared_runtime().env()); })
        == 4);
  CHECK(make_numpy_dataset(strategy{}, four).cardinality(shared_runtime().env()) == 4);
  names(failure_of([&] { s.run([&] { (void)make_numpy_dataset(s, four); }); }), errc::wrong_state,
        {"make_numpy_dataset", "replica"});
  names(failure_of([&] { (void)make_numpy_dataset(s, std::vector<tensor>{}); }),
        errc::invalid_argument, {"no array"});
  CHECK(failure_of([&] {
          (void)make_numpy_dataset(s, {four, vec<float>({1})});
        }).code
        == errc::shape_mismatch);
  CHECK(failure_of([&] { (void)make_numpy_dataset(s, tensor::scalar(1.0f)); }).code
        == errc::invalid_argument);
  CHECK(failure_of([&] { (void)make_numpy_dataset(s, tensor{}); }).code == errc::invalid_argument);
}

TEST_CASE("SYNC-V1-6 a list becomes one array first") {
  auto s = mirrored_over(2);
  const auto one = stacked({vec<float>({1, 2}), vec<float>({3, 4}), vec<float>({5, 6})});
  CHECK(one == tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  CHECK(make_numpy_dataset(s, one).cardinality(shared_runtime().env()) == 3);
  CHECK(stacked({tensor::scalar(1.0f), tensor::scalar(2.0f)}) == vec<float>({1, 2}));
  names(failure_of([] {
          (void)stacked({vec<float>({1}), vec<float>({1, 2})});
        }),
        errc::shape_mismatch, {"tensor 1", "[2]", "[1]"});
  names(failure_of([] {
          (void)stacked({vec<float>({1}), vec<double>({1})});
        }),
        errc::dtype_mismatch, {"tensor 1", "f64", "f32"});
  names(failure_of([] {
          (void)stacked({vec<float>({1}), tensor{}});
        }),
        errc::invalid_argument, {"tensor 1"});
  CHECK(failure_of([] { (void)stacked({}); }).code == errc::invalid_argument);
}

TEST_CASE("SYNC-V1-6 large arrays are copied in blocks of whole rows of at most 64 MiB") {
  const std::int64_t mib = 1 << 20;
  CHECK(detail::numpy_block_bytes_max == 64 * mib);
  const tensor big{dtype::u8, {70, 3 * mib}};
  CHECK(detail::numpy_block_rows(big, detail::numpy_block_bytes_max) == 21); // 63 MiB
  CHECK(detail::numpy_block_rows(big, 2 * mib) == 1);                        // a longer row alone
  CHECK(detail::numpy_block_rows(tensor{dtype::f32, {3, 0}}, 64) == 3);
  auto x = tensor::of<std::int64_t>({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (std::int64_t bytes : {1, 16, 32, 48, 79, 80, 1000}) {
    const auto copy = detail::copy_in_row_blocks(x, bytes);
    CHECK(copy == x);
    CHECK(copy.bytes().data() != x.bytes().data());
  }
  CHECK(detail::copy_in_row_blocks(tensor{dtype::f32, {0, 4}}).shape() == shape_t{0, 4});
}

TEST_CASE("SYNC-V1-6 an npy or npz file by its path") {
  auto s = mirrored_over(2);
  data_test::memory_storage files;
  const auto array = [](const char* type, const std::string& data) {
    return data_test::npy_bytes(data_test::npy_header(type, "(3,)"), data);
  };
  const std::string small = array("|u1", "abc"),
                    large = array("<i4", {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0});
  files.files["x.npy"] = small;
  files.files["x.npz"] =
    data_test::zip_bytes({{.name = "y.npy", .plain = large}, {.name = "x.npy", .plain = small}});
  const auto rows_of = [&](const char* path) {
    std::vector<element> out;
    auto at = make_numpy_dataset(s, path).iterate({files, shared_runtime().env().random});
    while (auto x = at.try_next())
      out.push_back(*x);
    return out;
  };
  const auto letter = [](char x) { return tensor::scalar(static_cast<std::uint8_t>(x)); };
  CHECK(rows_of("x.npy") == std::vector<element>{{letter('a')}, {letter('b')}, {letter('c')}});
  const auto both = rows_of("x.npz");
  REQUIRE(both.size() == 3);
  CHECK(both[2] == element{tensor::scalar(std::int32_t{3}), letter('c')}); // in the archive's order
  names(failure_of([&] { (void)make_numpy_dataset(s, "dir/x.txt"); }), errc::invalid_argument,
        {"dir/x.txt", ".npy", ".npz"});
  names(
    failure_of([&] {
      (void)distribute_dataset(s, make_numpy_dataset(s, "nowhere/x.npy").batch(2)).iterate().next();
    }),
    errc::not_found, {"nowhere/x.npy"});
}

TEST_CASE("SYNC-V1-9 configure does nothing") {
  auto s = mirrored_over(2);
  const auto before = s.to_string();
  v1::session_config config;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  v1::configure(s, config, cluster_spec{}, "worker", 0);
  v1::configure(s);
#pragma GCC diagnostic pop
  CHECK(s.to_string() == before);
  CHECK(config == v1::session_config{});
}

struct waited {
  std::atomic<int>* waits = nullptr;
  bool fails = false;
  void wait() const {
    ++*waits;
    if (fails)
      throw std::runtime_error{"component"};
  }
};

TEST_CASE("SYNC-GRP-1 unwrap and group") {
  auto s = mirrored_over(2);
  auto ids = s.run([](replica_context& ctx) { return id_of(ctx); });
  CHECK(v1::unwrap(s, ids) == s.local_results(ids));
  CHECK(v1::unwrap(s, ids) == std::vector<std::int64_t>{0, 1});
  CHECK(v1::unwrap(s, 7) == std::vector<int>{7});
  CHECK(!v1::group(s, ids)); // several: nothing in particular
  CHECK(v1::group(s, 7) == 7);
  std::atomic<int> waits{0};
  CHECK(!v1::group(s, per_replica<waited>{{{&waits}, {&waits}}}));
  CHECK(waits == 2);
  CHECK_THROWS_WITH_AS((void)v1::group(s, per_replica<waited>{{{&waits, true}, {&waits}}}),
                       "component", std::runtime_error);
  CHECK(waits == 4); // the others are waited for all the same
}

} // namespace
