// Collective calls and cross-device reductions by the numbers, and input rows of strategies other
// than the mirrored one. Goal: rows SYNC-RED, GAT, ARD, XDO, COL, GRP, INP, CEN, TPU and the
// scenarios G, X, I, T. Method: strategies over CPU devices of this process.

#include "support.hpp"

namespace {

using namespace replicas_test;

std::size_t at(replica_context& ctx) { return static_cast<std::size_t>(id_of(ctx)); }

sparse_gradient rows(std::initializer_list<std::int64_t> indices,
                     std::initializer_list<float> values) {
  return {.indices = vec<std::int64_t>(indices),
          .values = tensor::of<float>({static_cast<std::int64_t>(values.size()), 1},
                                      std::vector<float>(values))};
}

/// Rows of `width` values, those at one place summed.
std::vector<float> densified(const sparse_gradient& x, std::size_t rows, std::size_t width) {
  std::vector<float> out(rows * width, 0.0f);
  const auto values = x.values.as<float>();
  for (std::size_t i = 0; i < x.indices.as<std::int64_t>().size(); ++i)
    for (std::size_t k = 0; k < width; ++k)
      out[static_cast<std::size_t>(x.indices.as<std::int64_t>()[i]) * width + k] +=
        values[i * width + k];
  return out;
}

// --- reduce and gather

TEST_CASE("SYNC-RED-12 SYNC-G1 the sum of ones is n, one plain tensor, inside a scope or not") {
  for (std::uint32_t n : {1u, 2u, 4u}) {
    auto s = mirrored_over(n);
    auto ones = s.run([] { return tensor::scalar(1.0f); });
    static_assert(std::is_same_v<decltype(s.reduce(reduce_op::sum, ones)), tensor>);
    CHECK(s.reduce(reduce_op::sum, ones).item<float>() == static_cast<float>(n));
    CHECK(s.scope([&] { return s.reduce(reduce_op::sum, ones); }).item<float>()
          == static_cast<float>(n));
  }
}

TEST_CASE("SYNC-RED-13 SYNC-G3 a nest is reduced value by value") {
  auto s = mirrored_over(2);
  auto nest = regroup(s.run(
    [](float x) {
      return std::tuple{x + 1, tensor::scalar(x - 1)};
    },
    mirrored<float>({3, 3})));
  auto [more, less] = s.reduce(reduce_op::sum, nest);
  CHECK(more.item<float>() == 8);
  CHECK(less.item<float>() == 4);
}

TEST_CASE("SYNC-GAT-2 gather is called across replicas, all_gather inside them") {
  auto s = mirrored_over(2);
  auto x = parts({vec<float>({1}), vec<float>({2})});
  CHECK(s.gather(x, 0) == vec<float>({1, 2}));
  CHECK(s.scope([&] { return s.gather(x, 0); }) == vec<float>({1, 2}));
  names(failure_of([&] { s.run([&] { (void)s.gather(x, 0); }); }), errc::wrong_state,
        {"gather", "all_gather"});
}

TEST_CASE("SYNC-G7 SYNC-G8 gathers along each axis, of parts of any length") {
  for (std::uint32_t n : {1u, 2u, 4u}) {
    auto s = mirrored_over(n);
    auto same = s.run([] { return vec<int>({1, 2, 3}); });
    auto once = s.gather(same, 0);
    REQUIRE(once.size() == 3 * n);
    for (std::size_t i = 0; i < 3 * n; ++i)
      CHECK(once.as<int>()[i] == static_cast<int>(i % 3) + 1);
    auto wide = s.run([] { return tensor::of<int>({1, 3}, {1, 2, 3}); });
    CHECK(s.gather(wide, 0).shape() == shape_t{n, 3});
    CHECK(s.gather(wide, 1).shape() == shape_t{1, 3 * n});
    const std::int64_t all = n * (n + 1) / 2;
    auto tall = [](replica_context& ctx) { return tensor::zeros(dtype::f32, {id_of(ctx) + 1, 1}); };
    auto flat = [](replica_context& ctx) { return tensor::zeros(dtype::f32, {1, id_of(ctx) + 1}); };
    CHECK(s.gather(s.run(tall), 0).shape() == shape_t{all, 1});
    CHECK(s.gather(s.run(flat), 1).shape() == shape_t{1, all});
    auto inside = s.run([&](replica_context& ctx) {
      return std::pair{ctx.all_gather(tall(ctx), 0).shape(), ctx.all_gather(flat(ctx), 1).shape()};
    });
    for (const auto& each : inside)
      CHECK(each == std::pair{shape_t{all, 1}, shape_t{1, all}});
  }
}

TEST_CASE("SYNC-G9 parts that differ off the axis, or in rank, are refused") {
  auto s = mirrored_over(2);
  auto wide = [](replica_context& ctx) { return tensor::zeros(dtype::f32, {1, id_of(ctx) + 1}); };
  auto ranks = [](replica_context& ctx) {
    return tensor::zeros(dtype::f32, id_of(ctx) == 0 ? shape_t{1} : shape_t{1, 2});
  };
  names(failure_of([&] { (void)s.gather(s.run(wide), 0); }), errc::shape_mismatch,
        {"dimension 1", "component 1"});
  names(failure_of([&] { (void)s.gather(s.run(ranks), 0); }), errc::shape_mismatch, {"rank 2"});
  names(
    failure_of([&] { s.run([&](replica_context& ctx) { (void)ctx.all_gather(wide(ctx), 0); }); }),
    errc::shape_mismatch, {"all_gather", "replica 0", "replica 1"});
  names(
    failure_of([&] { s.run([&](replica_context& ctx) { (void)ctx.all_gather(ranks(ctx), 0); }); }),
    errc::shape_mismatch, {"f32[-1]", "f32[-1, 2]"});
}

// --- all_reduce

TEST_CASE("SYNC-ARD-2 operators by name in replicas") {
  auto s = mirrored_over(2);
  auto by_name = [&](const char* op) {
    return s.run([op](replica_context& ctx) {
      return ctx.all_reduce(op, 2 * static_cast<float>(id_of(ctx)));
    });
  };
  for (auto op : {"sum", "SUM"})
    CHECK(by_name(op).as_single() == 2);
  for (auto op : {"mean", "MEAN"})
    CHECK(by_name(op).as_single() == 1);
  names(failure_of([&] { (void)by_name("median"); }), errc::invalid_argument, {"'median'"});
}

TEST_CASE("SYNC-X1 SYNC-X2 SYNC-X3 the worked numbers of 1, 2 and 4 participants") {
  constexpr float sums[] = {0, 1, 3, 0, 10}, means[] = {0, 1, 1.5f, 0, 2.5f};
  for (std::uint32_t n : {1u, 2u, 4u}) {
    auto s = mirrored_over(n);
    auto each = s.run([](replica_context& ctx) { return static_cast<float>(at(ctx) + 1); });
    CHECK(s.reduce(reduce_op::sum, each).item<float>() == sums[n]);
    CHECK(s.reduce(reduce_op::mean, each).item<float>() == means[n]);
    auto inside = [&](reduce_op op) {
      return s.run([op](replica_context& ctx) {
        return ctx.all_reduce(op, std::tuple{1.0f, 2.0f});
      });
    };
    const auto k = static_cast<float>(n);
    CHECK(inside(reduce_op::sum).as_single() == std::tuple{k, 2 * k});
    CHECK(inside(reduce_op::mean).as_single() == std::tuple{1.0f, 2.0f});
  }
  for (auto [n, sum] : {std::pair{2u, std::pair{4.0f, 6.0f}}, {4u, {16.0f, 20.0f}}}) {
    auto s = mirrored_over(n);
    auto pairs = regroup(s.run([](replica_context& ctx) {
      const auto odd = static_cast<float>(2 * at(ctx) + 1);
      return std::pair{odd, odd + 1};
    }));
    auto both = s.extended().batch_reduce_to(reduce_op::sum,
                                             {{pairs.first, "cpu:0"}, {pairs.second, "cpu:0"}});
    CHECK(both[0].value().item<float>() == sum.first);
    CHECK(both[1].value().item<float>() == sum.second);
    auto mean = s.extended().batch_reduce_to(reduce_op::mean,
                                             {{pairs.first, "cpu:0"}, {pairs.second, "cpu:0"}});
    CHECK(mean[0].value().item<float>() == sum.first / static_cast<float>(n));
    CHECK(mean[1].value().item<float>() == sum.second / static_cast<float>(n));
  }
}

TEST_CASE("SYNC-X4 SYNC-X5 the worked numbers of sparse values") {
  const sparse_gradient first[] = {rows({0, 1}, {1, 2}), rows({1, 2}, {3, 4}), rows({7, 8}, {5, 6}),
                                   rows({3, 2}, {7, 8})};
  auto summed = [](const mirrored_strategy& s, auto mine) {
    return s.run([&](replica_context& ctx) { return ctx.all_reduce(reduce_op::sum, mine(ctx)); });
  };
  auto two = summed(mirrored_over(2), [&](replica_context& ctx) { return first[at(ctx)]; });
  CHECK(two[0].indices == vec<std::int64_t>({0, 1, 1, 2}));
  CHECK(two[1].values == tensor::of<float>({4, 1}, {1, 2, 3, 4}));
  auto four = summed(mirrored_over(4), [&](replica_context& ctx) { return first[at(ctx)]; });
  CHECK(four[3].indices == vec<std::int64_t>({0, 1, 1, 2, 7, 8, 3, 2}));
  CHECK(four[0].values == tensor::of<float>({8, 1}, {1, 2, 3, 4, 5, 6, 7, 8}));
  auto mixed = summed(mirrored_over(2), [&](replica_context& ctx) {
    const auto odd = static_cast<float>(2 * at(ctx) + 1);
    return std::tuple{tensor::scalar(odd), tensor::scalar(odd + 1), first[at(ctx)]};
  });
  CHECK(std::get<0>(mixed[0]).item<float>() == 4);
  CHECK(std::get<1>(mixed[1]).item<float>() == 6);
  CHECK(std::get<2>(mixed[1]).indices == vec<std::int64_t>({0, 1, 1, 2}));
  auto uneven = summed(mirrored_over(2), [](replica_context& ctx) {
    return at(ctx) == 0 ? rows({0}, {1}) : rows({0, 1, 2}, {2, 3, 4});
  });
  CHECK(uneven[0].indices == vec<std::int64_t>({0, 0, 1, 2}));
  CHECK(uneven[1].values == tensor::of<float>({4, 1}, {1, 2, 3, 4}));
}

TEST_CASE("SYNC-XDO-7 SYNC-XDO-8 dense and sparse sums agree, and means divide them") {
  auto s = mirrored_over(2);
  const auto a = tensor::of<float>({3, 2}, {1, 2, 0, 0, 3, 4}),
             b = tensor::of<float>({3, 2}, {0, 0, 5, 6, 7, 8});
  CHECK(s.reduce(reduce_op::sum, parts({a, b})) == tensor::of<float>({3, 2}, {1, 2, 5, 6, 10, 12}));
  CHECK(s.reduce(reduce_op::mean, parts({a, b}))
        == tensor::of<float>({3, 2}, {0.5f, 1, 2.5f, 3, 5, 6}));
  auto sparse = [&](reduce_op op) {
    return s.run([op](replica_context& ctx) {
      const bool zero = at(ctx) == 0;
      return ctx.all_reduce(
        op, sparse_gradient{.indices = zero ? vec<std::int64_t>({0, 2}) : vec<std::int64_t>({1, 2}),
                            .values = zero ? tensor::of<float>({2, 2}, {1, 2, 3, 4})
                                           : tensor::of<float>({2, 2}, {5, 6, 7, 8})});
    })[1];
  };
  CHECK(densified(sparse(reduce_op::sum), 3, 2) == std::vector<float>{1, 2, 5, 6, 10, 12});
  CHECK(densified(sparse(reduce_op::mean), 3, 2) == std::vector<float>{0.5f, 1, 2.5f, 3, 5, 6});
}

TEST_CASE("SYNC-XDO-2 one component on its destination is the result") {
  auto s = mirrored_over(1);
  const auto x = vec<float>({1, 2});
  for (auto op : {reduce_op::sum, reduce_op::mean}) {
    auto out = s.extended().reduce_to(op, parts({x}), "cpu:0");
    CHECK(out.value() == x);
    CHECK(out.devices() == std::vector<std::string>{"cpu:0"});
  }
}

TEST_CASE("SYNC-COL-M collectives in a branch that all take, and in one that not all take") {
  auto s = mirrored_over(2);
  auto branched = [&](auto takes) {
    return s.run([&](replica_context& ctx) {
      return takes(ctx) ? ctx.all_reduce(reduce_op::sum, 1.0f) : 0.0f;
    });
  };
  CHECK(branched([](replica_context&) { return true; }).as_single() == 2);
  CHECK(branched([](replica_context&) { return false; }).as_single() == 0);
  names(failure_of([&] { branched([](replica_context& ctx) { return at(ctx) == 0; }); }),
        errc::mismatch, {"all_reduce", "replica 1 has ended"});
}

TEST_CASE("SYNC-X7 a participant that stays away is named, whatever the call") {
  auto missing = [](auto call) {
    auto s = mirrored_over(2, {.collective_timeout = 100ms});
    std::atomic<bool> go{false};
    auto why = failure_of([&] {
      s.run([&](replica_context& ctx) {
        if (at(ctx) == 1) {
          while (!go)
            std::this_thread::yield();
          return;
        }
        try {
          call(ctx);
        } catch (...) {
          go = true;
          throw;
        }
      });
    });
    names(why, errc::deadline, {"all_reduce", "1"});
  };
  missing([](replica_context& ctx) { (void)ctx.all_reduce(reduce_op::sum, 1.0f); });
  missing([](replica_context& ctx) {
    (void)ctx.all_reduce(reduce_op::sum,
                         std::vector<tensor>{tensor::scalar(1.0f), tensor::scalar(2.0f)});
  });
}

TEST_CASE("SYNC-GRP-C5 a broadcast has one source") {
  auto s = mirrored_over(3);
  auto from = [&](auto root) {
    return s.run([&](replica_context& ctx) {
      return ctx.broadcast(tensor::scalar(id_of(ctx)), root(ctx)).template item<std::int64_t>();
    });
  };
  CHECK(from([](replica_context&) { return 2u; }).as_single() == 2);
  names(failure_of([&] { from([](replica_context&) { return 3u; }); }), errc::out_of_range,
        {"root is 3"});
  names(failure_of([&] { from([](replica_context& ctx) { return at(ctx) == 0 ? 0u : 1u; }); }),
        errc::mismatch, {"broadcast"});
}

// --- input

template <class D>
constexpr bool can_change = requires(D d) {
  d.batch(2);
}
|| requires(D d) { d.take(2); };

TEST_CASE("SYNC-INP-3 a distributed dataset is iterated and described, not changed") {
  static_assert(can_change<dataset> && !can_change<distributed_dataset>);
  auto s = mirrored_over(2);
  auto ds = distribute_dataset(s, dataset::range(8).batch(4));
  CHECK(ds.cardinality() == 2);
  REQUIRE(ds.element_spec().size() == 1);
  CHECK(ds.element_spec()[0].type == dtype::i64);
}

TEST_CASE("SYNC-I16 next inside a replica's function, and past the end") {
  auto s = mirrored_over(2);
  auto input = distribute_dataset(s, dataset::range(2).batch(2)).iterate();
  names(failure_of([&] { s.run([&] { (void)input.next(); }); }), errc::wrong_state, {"next"});
  CHECK(input.next().only()[1].at<std::int64_t>(0) == 1);
  names(failure_of([&] { (void)input.next(); }), errc::end_of_data, {});
}

TEST_CASE("SYNC-ITR-16 gradients of x^2 over {5|6} and {7|8}") {
  auto s = mirrored_over(2);
  std::vector<std::vector<std::int64_t>> out;
  for (auto& batch : distribute_dataset(s, dataset::range(5, 9).batch(2)))
    out.push_back(s.run([](const element& x) { return 2 * x.only().as<std::int64_t>()[0]; }, batch)
                    .local_results());
  CHECK(out == std::vector<std::vector<std::int64_t>>{{10, 12}, {14, 16}});
}

TEST_CASE("SYNC-CEN-6 SYNC-CEN-7 input of central storage, with options too") {
  auto s = central(1);
  std::vector<tensor> steps;
  for (auto& batch : distribute_dataset(s, dataset::range(10).batch(2)))
    steps.push_back(batch.only()[0]);
  REQUIRE(steps.size() == 5);
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(steps[static_cast<std::size_t>(i)] == vec<std::int64_t>({2 * i, 2 * i + 1}));
  distribute_options options;
  options.input.per_replica_buffer_size = 0;
  auto batch =
    distribute_datasets_from_function(
      central(2), [](const input_context&) { return dataset::range(4).batch(1); }, options)
      .iterate()
      .next();
  CHECK(batch.only()[0] == vec<std::int64_t>({0}));
  CHECK(batch.only()[1] == vec<std::int64_t>({1}));
}

// --- slices of accelerators

tpu_strategy tpu_over(std::uint32_t n) {
  return tpu_strategy{shared_runtime(), tpu_options{.devices = cpus(n)}};
}

TEST_CASE("SYNC-TPU-9 the first replica's value reaches all cores") {
  auto s = tpu_over(4);
  auto v = s.scope([] {
    return make_variable({.name = "v",
                          .initial = tensor::scalar(0.0f),
                          .aggregation = variable_aggregation::only_first_replica});
  });
  s.run([&](replica_context& ctx) { v.assign(tensor::scalar(5 + static_cast<float>(at(ctx)))); });
  REQUIRE(v.components() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(v.component(i).item<float>() == 5);
}

TEST_CASE("SYNC-TPU-12 pieces of different sizes: means {5.5|7}, masked sums {5|7}") {
  auto s = tpu_over(2);
  auto of = [&](auto f) {
    auto input = distribute_dataset(s, dataset::range(5, 8).batch(4)).iterate();
    auto batch = input.next();
    return s.run([f](const element& x) { return f(x.only().template as<std::int64_t>()); }, batch);
  };
  CHECK(of([](auto xs) {
          double sum = 0;
          for (auto x : xs)
            sum += static_cast<double>(x);
          return sum / static_cast<double>(xs.size());
        }).local_results()
        == std::vector<double>{5.5, 7});
  CHECK(of([](auto xs) {
          double sum = 0;
          for (std::size_t i = 0; i < xs.size(); i += 2)
            sum += static_cast<double>(xs[i]);
          return sum;
        }).local_results()
        == std::vector<double>{5, 7});
}

TEST_CASE("SYNC-T10 an external variable and each core's datum") {
  auto s = tpu_over(4);
  auto v = make_variable({.name = "outside", .initial = tensor::scalar(2.0f)});
  auto out = s.run([&](float x) { return x + v.item<float>(); }, per_replica<float>{{0, 1, 2, 3}});
  CHECK(out.local_results() == std::vector<float>{2, 3, 4, 5});
  CHECK(v.components() == 1);
}

} // namespace
