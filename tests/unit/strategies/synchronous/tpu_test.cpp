// The strategy of an accelerator slice. Goal: rows SYNC-TPU, LOG, T2, T3, T6, T7, G11, G18. Method:
// slices whose cores are CPU devices of this process.

#include "../replicas/support.hpp"

namespace {

using namespace replicas_test;
using agg = variable_aggregation;

tpu_options on_cpus(std::uint32_t n, bool spmd = false) {
  return {.spmd = spmd, .devices = cpus(n)};
}

topology slice_of(const mesh_coordinates& mesh) {
  return topology::of_one_task(mesh).value_or_throw();
}

tpu_strategy cores(std::vector<mesh_coordinates> at) {
  std::vector<std::vector<mesh_coordinates>> each;
  for (const auto& one : at)
    each.push_back({one});
  return {shared_runtime(),
          device_assignment::make(slice_of({2, 1, 1, 1}), std::move(each)).value_or_throw(),
          on_cpus(2)};
}

/// Two replicas of two cores each.
tpu_strategy two_by_two(bool spmd = false) {
  const auto slice = slice_of({2, 1, 1, 2});
  return {shared_runtime(),
          device_assignment::build(slice, {.computation_shape = {1, 1, 1, 2}, .num_replicas = 2})
            .value_or_throw(),
          on_cpus(4, spmd)};
}

std::vector<std::string> tpus(std::initializer_list<int> numbers) {
  std::vector<std::string> out;
  for (const int each : numbers)
    out.push_back("tpu:" + std::to_string(each));
  return out;
}

TEST_CASE("SYNC-TPU-1 SYNC-EXT-7 as many replicas as cores, or as the assignment says") {
  tpu_strategy all{shared_runtime(), on_cpus(4)};
  CHECK(all.num_replicas_in_sync() == 4);
  CHECK(all.num_logical_devices() == 1);
  CHECK(all.extended().worker_devices() == tpus({0, 1, 2, 3}));
  CHECK(all.extended().parameter_devices() == tpus({0, 1, 2, 3}));
  CHECK(all.extended().experimental_require_static_shapes());
  CHECK(!all.extended().experimental_between_graph());
  CHECK(tpu_strategy{shared_runtime(), slice_of({2, 1, 1, 1}), on_cpus(2)}.num_replicas_in_sync()
        == 2);
  CHECK(cores({{1, 0, 0, 0}}).num_replicas_in_sync() == 1);
  CHECK(two_by_two().num_replicas_in_sync() == 2);
  auto ids = all.run([](replica_context& ctx) { return std::pair{id_of(ctx), ctx.devices()}; });
  for (int i = 0; i < 4; ++i)
    CHECK(ids[static_cast<std::size_t>(i)] == std::pair{std::int64_t{i}, tpus({i})});
}

TEST_CASE("SYNC-TPU-1 slices that do not fit this process are refused, naming the numbers") {
  names(failure_of([] {
          (void)tpu_strategy{shared_runtime(), slice_of({4, 2, 1, 1}), on_cpus(4)};
        }),
        errc::invalid_argument, {"8 cores", "4 devices"});
  auto two_tasks = topology::make({2, 1, 1, 1}, {{{0, 0, 0, 0}}, {{1, 0, 0, 0}}}).value_or_throw();
  names(failure_of([&] {
          (void)tpu_strategy{shared_runtime(), two_tasks, on_cpus(4)};
        }),
        errc::invalid_argument, {"2 tasks"});
  names(failure_of([&] {
          (void)tpu_strategy{shared_runtime(), slice_of({1, 1, 1, 1}), {.devices = {"cpu:9"}}};
        }),
        errc::device_unavailable, {"cpu:9"});
}

TEST_CASE("SYNC-TPU-10 SYNC-T3 one core") {
  tpu_strategy s{shared_runtime(),
                 device_assignment::single_core(slice_of({2, 1, 1, 1})).value_or_throw(),
                 on_cpus(2)};
  CHECK(s.extended().num_hosts() == 1);
  CHECK(s.num_replicas_in_sync() == 1);
  CHECK(s.extended().num_replicas_per_host() == 1);
  CHECK(s.assignment().core_assignment()
        == std::vector<std::vector<mesh_coordinates>>{{{0, 0, 0, 0}}});
  CHECK(to_string(s.assignment().tpu_device().value_or_throw()) == "/task:0/device:TPU:0");
  CHECK(to_string(s.assignment().host_device().value_or_throw()) == "/task:0/device:CPU:0");
}

TEST_CASE("SYNC-TPU-6 SYNC-TPU-8 SYNC-G11 SYNC-G18 reductions and gathers") {
  tpu_strategy s{shared_runtime(), on_cpus(2)};
  auto squares = s.run([](float x) { return tensor::scalar(x * x); }, per_replica<float>{{2, 3}});
  CHECK(s.reduce(reduce_op::mean, squares).item<float>() == 6.5f);
  CHECK(s.reduce(reduce_op::sum, squares).item<float>() == 13);
  tpu_strategy four{shared_runtime(), on_cpus(4)};
  auto all = four.run([](replica_context& ctx) {
    return ctx.all_gather(tensor::of<std::int64_t>({1, 1}, {id_of(ctx) + 1}), 0);
  });
  for (const auto& each : all)
    CHECK(each == tensor::of<std::int64_t>({4, 1}, {1, 2, 3, 4}));
}

TEST_CASE("SYNC-TPU-7 SYNC-GAT-8 gathers take equal shapes only") {
  tpu_strategy s{shared_runtime(), on_cpus(2)};
  names(failure_of([&] {
          (void)s.gather(parts({vec<float>({1}), vec<float>({1, 2})}), 0);
        }),
        errc::shape_mismatch, {"component 1", "[2]", "[1]", "tpu_strategy"});
  CHECK(s.gather(parts({vec<float>({1}), vec<float>({2})}), 0) == vec<float>({1, 2}));
  names(failure_of([&] {
          s.run([](replica_context& ctx) {
            return ctx.all_gather(tensor::zeros(dtype::f32, {id_of(ctx) + 1}), 0);
          });
        }),
        errc::shape_mismatch, {"all_gather", "[1]", "[2]"});
}

TEST_CASE("SYNC-SCT-10 SYNC-UPD-8 rows and updates of aggregated variables") {
  tpu_strategy s{shared_runtime(), on_cpus(2)};
  auto make = [&](agg how) {
    return s.scope([&] {
      return make_variable({.name = "v", .initial = vec<float>({1, 1}), .aggregation = how});
    });
  };
  const auto zero = vec<std::int64_t>({0});
  auto sum = make(agg::sum), none = make(agg::none);
  names(failure_of([&] { sum.scatter_add(zero, vec<float>({1})); }), errc::invalid_argument,
        {"'v'", "scatter_add", "sum"});
  none.scatter_add(zero, vec<float>({1}));
  CHECK(none.component(1) == vec<float>({2, 1}));
  const auto each = parts({vec<float>({1, 1}), vec<float>({2, 2})});
  auto add = [](const distributed_variable& x, const tensor& y) { x.assign_add(y); };
  names(failure_of([&] { s.extended().update(sum, add, each); }), errc::invalid_argument,
        {"'v'", "must be mirrored"});
  const std::vector<std::tuple<int, std::map<int, per_replica<tensor>>>> nest{{1, {{2, each}}}};
  names(failure_of([&] {
          s.extended().update(
            sum, [](auto&, const auto&) {}, nest);
        }),
        errc::invalid_argument, {"must be mirrored"});
  s.extended().update(sum, add, mirrored<tensor>({vec<float>({1, 1}), vec<float>({1, 1})}));
  CHECK(sum.component(1) == vec<float>({2, 2}));
  s.extended().update(none, add, each);
  CHECK(none.component(0) == vec<float>({3, 2}));
  CHECK(none.component(1) == vec<float>({4, 3}));
}

TEST_CASE("SYNC-TPU-13 one strategy a core") {
  auto a = cores({{0, 0, 0, 0}}), b = cores({{1, 0, 0, 0}});
  CHECK(a.extended().worker_devices() == tpus({0}));
  CHECK(b.extended().worker_devices() == tpus({1}));
  float total = 0;
  for (const auto& s : {a, b}) {
    auto v = s.scope([] { return make_variable({.name = "v", .initial = tensor::scalar(0.0f)}); });
    total += s.run([&] { return v.item<float>() + 1; }).as_single();
  }
  CHECK(total == 2);
}

TEST_CASE("SYNC-TPU-14 SYNC-T2 a reversed assignment reads the copies the other way round") {
  auto s = cores({{0, 0, 0, 0}, {1, 0, 0, 0}}), reversed = cores({{1, 0, 0, 0}, {0, 0, 0, 0}});
  CHECK(reversed.extended().worker_devices() == tpus({1, 0}));
  auto v = s.scope([] {
    return make_variable({.name = "v", .initial = tensor::scalar(0.0f), .allow_divergence = true});
  });
  s.run([&](replica_context& ctx) { v.assign(tensor::scalar(id_of(ctx) == 0 ? 1.0f : 42.0f)); });
  auto own = [&](replica_context& ctx) { return v.component_on(ctx.devices()[0]).item<float>(); };
  CHECK(s.run(own).local_results() == std::vector<float>{1, 42});
  CHECK(reversed.run(own).local_results() == std::vector<float>{42, 1});
}

// --- input

/// Replica i on core at[i] of three.
tpu_strategy line_of_three(std::initializer_list<int> at, bool follows = true) {
  std::vector<std::vector<mesh_coordinates>> each;
  for (const int core : at)
    each.push_back({{core, 0, 0, 0}});
  auto options = on_cpus(3);
  options.input_follows_devices = follows;
  return {shared_runtime(),
          device_assignment::make(slice_of({3, 1, 1, 1}), std::move(each)).value_or_throw(),
          options};
}

std::vector<std::vector<std::int64_t>> pieces_of(const distributed_batch& batch) {
  std::vector<std::vector<std::int64_t>> out;
  for (const auto& each : batch.only()) {
    const auto all = each.as<std::int64_t>();
    out.emplace_back(all.begin(), all.end());
  }
  return out;
}

using pieces = std::vector<std::vector<std::int64_t>>;

TEST_CASE("SYNC-ITR-18 SYNC-I28 a replica gets the data of its device, wherever it stands") {
  auto reversed = cores({{1, 0, 0, 0}, {0, 0, 0, 0}});
  auto two = distribute_dataset(reversed, dataset::range(4).batch(2)).iterate();
  CHECK(pieces_of(two.next()) == pieces{{1}, {0}});
  CHECK(pieces_of(two.next()) == pieces{{3}, {2}});
  auto turned = line_of_three({2, 0, 1});
  auto first = [](const distributed_dataset& ds) { return pieces_of(ds.iterate().next()); };
  CHECK(first(distribute_dataset(turned, dataset::range(3).batch(3))) == pieces{{2}, {0}, {1}});
  CHECK(first(distribute_datasets_from_function(
          turned, [](const input_context&) { return dataset::range(6).batch(2); }))
        == pieces{{4, 5}, {0, 1}, {2, 3}});
  CHECK(first(distribute_dataset(turned, dataset::range(6).batch(6), {.weights = {3, 1, 2}}))
        == pieces{{3, 4, 5}, {0}, {1, 2}});
  auto plain = line_of_three({2, 0, 1}, false);
  CHECK(first(distribute_dataset(plain, dataset::range(3).batch(3))) == pieces{{0}, {1}, {2}});
  auto twice = line_of_three({1, 0, 1}); // one core of two replicas: in their order
  CHECK(first(distribute_dataset(twice, dataset::range(3).batch(3))) == pieces{{1}, {0}, {2}});
}

TEST_CASE("SYNC-ITR-18 a last batch without data for all, and a gather in dataset order") {
  auto turned = line_of_three({2, 0, 1});
  auto batch = distribute_dataset(turned, dataset::range(2).batch(3)).iterate().next();
  CHECK(batch.is_empty(0));
  CHECK(pieces_of(batch) == pieces{{}, {0}, {1}});
  auto full = distribute_dataset(turned, dataset::range(6).batch(6)).iterate().next();
  auto out = turned.run([](const element& x) { return x.only(); }, full);
  CHECK(gather_ordered(turned, out, full) == vec<std::int64_t>({0, 1, 2, 3, 4, 5}));
}

TEST_CASE("SYNC-VCR-16 SYNC-T9 a constraint is applied when somebody says so") {
  auto s = cores({{0, 0, 0, 0}, {1, 0, 0, 0}});
  auto one = [](const tensor& x) { return tensor::scalar(0 * x.item<float>() + 1); };
  auto v = s.scope([&] {
    return make_variable(
      {.name = "v", .initial = tensor::scalar(2.0f), .aggregation = agg::mean, .constraint = one});
  });
  CHECK(v.constraint());
  s.run([&] { v.assign_add(1); });
  CHECK(v.item<float>() == 3);
  s.run([&] { v.apply_constraint(); });
  CHECK(v.component(0).item<float>() == 1);
  CHECK(v.component(1).item<float>() == 1);
  v.assign_add(1);
  CHECK(v.item<float>() == 2);
  CHECK(v.apply_constraint().item<float>() == 1);
}

// --- logical devices

struct weights {
  distributed_variable v, w;
};

weights make_weights(const tpu_strategy& s) {
  return s.scope([&] {
    weights out;
    {
      auto first = s.extended().experimental_logical_device(0);
      out.v = make_variable({.name = "v", .initial = tensor::scalar(2.0f)});
    }
    auto second = s.extended().experimental_logical_device(1);
    out.w = make_variable({.name = "w", .initial = tensor::scalar(3.0f)});
    return out;
  });
}

per_replica<float> product(const tpu_strategy& s, const weights& of) {
  return s.run([&](replica_context&) {
    const tensor x = s.assign_to_logical_device(tensor::scalar(5.0f), 0);
    const tensor y =
      s.assign_to_logical_device(tensor::scalar(of.v.item<float>() * x.item<float>()), 1);
    return of.w.item<float>() * y.item<float>();
  });
}

TEST_CASE("SYNC-LOG-1 SYNC-LOG-2 SYNC-LOG-3 a replica on two devices") {
  auto s = two_by_two();
  CHECK(s.num_logical_devices() == 2);
  auto of = make_weights(s);
  CHECK(of.v.devices() == tpus({0, 2}));
  CHECK(of.w.devices() == tpus({1, 3}));
  auto out = product(s, of);
  CHECK(out.local_results() == std::vector<float>{30, 30});
  CHECK(s.reduce(reduce_op::sum, out).item<float>() == 60);
  names(failure_of([&] { (void)s.extended().experimental_logical_device(2); }),
        errc::invalid_argument, {"2"});
  names(
    failure_of([&] {
      s.scope([] {
        (void)make_variable({.name = "x", .initial = tensor::scalar(1.0f), .logical_device = 7});
      });
    }),
    errc::invalid_argument, {"7"});
}

TEST_CASE("SYNC-LOG-2 SYNC-COL-1 logical devices from replicas' functions, and colocated") {
  auto s = two_by_two();
  auto made = regroup(s.run([&](replica_context&) {
    auto second = s.extended().experimental_logical_device(1);
    return make_variable({.name = "v", .initial = tensor::scalar(1.0f)});
  }));
  CHECK(made.devices() == tpus({1, 3}));
  s.scope([&] {
    auto beside = s.extended().colocate_vars_with(made);
    CHECK(make_variable({.name = "w", .initial = tensor::scalar(1.0f)}).devices() == tpus({1, 3}));
  });
  CHECK(debiased_average{made, 0.5}.biased().devices() == tpus({1, 3}));
}

TEST_CASE("SYNC-LOG-4 SYNC-T6 saved, changed and put back") {
  auto s = two_by_two();
  auto of = make_weights(s);
  const auto v = of.v.saved_value(), w = of.w.saved_value();
  of.v.assign(1);
  of.w.assign(4);
  CHECK(s.reduce(reduce_op::sum, product(s, of)).item<float>() == 40);
  of.v.restore_value(v);
  of.w.restore_value(w);
  CHECK(s.reduce(reduce_op::sum, product(s, of)).item<float>() == 60);
}

TEST_CASE("SYNC-LOG-5 assign_to_logical_device") {
  auto s = two_by_two();
  auto out = s.run([&](replica_context&) {
    const auto x = tensor::scalar(5.0f);
    auto placed = s.assign_to_logical_device(x, 1);
    CHECK(placed.value() == x);
    return placed.devices()[0];
  });
  CHECK(out.local_results() == tpus({1, 3}));
  names(
    failure_of([&] { s.run([&] { (void)s.assign_to_logical_device(tensor::scalar(1.0f), 2); }); }),
    errc::invalid_argument, {"2"});
  names(failure_of([&] { (void)s.assign_to_logical_device(tensor::scalar(1.0f), 0); }),
        errc::wrong_state, {"assign_to_logical_device", "inside a replica"});
  auto spmd = two_by_two(true);
  names(failure_of(
          [&] { spmd.run([&] { (void)spmd.assign_to_logical_device(tensor::scalar(1.0f), 0); }); }),
        errc::invalid_argument, {"SPMD"});
}

TEST_CASE("SYNC-LOG-6 SYNC-LOG-7 tiles and copies") {
  auto s = two_by_two();
  const auto x = tensor::of<float>({2, 2}, {1, 2, 3, 4});
  auto out = s.run([&](replica_context&) {
    auto tiles = s.split_to_logical_devices(x, {1, 2});
    CHECK(tiles.size() == 2);
    CHECK(tiles[0].value() == tensor::of<float>({2, 1}, {1, 3}));
    CHECK(tiles[1].value() == tensor::of<float>({2, 1}, {2, 4}));
    CHECK(s.replicate_to_logical_devices(x).value() == x);
    return std::pair{tiles[1].devices()[0], s.replicate_to_logical_devices(x).devices()};
  });
  CHECK(out[0] == std::pair{std::string{"tpu:1"}, tpus({0, 1})});
  CHECK(out[1] == std::pair{std::string{"tpu:3"}, tpus({2, 3})});
  for (auto bad : {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{2, 2},
                   std::vector<std::int64_t>{3, 1}})
    names(failure_of([&] { s.run([&] { (void)s.split_to_logical_devices(x, bad); }); }),
          errc::invalid_argument, {"dims"});
}

TEST_CASE("SYNC-LOG-8 SYNC-T7 shards of one value on the devices of a replica") {
  auto s = two_by_two(true);
  auto w = s.scope([] {
    return make_variable({.name = "w", .shape = {16, 16}, .initial = random_uniform(-1, 1, 7)});
  });
  const auto x = vec<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  auto times = [&](const tensor& m) { // row of x by m
    std::vector<double> out(static_cast<std::size_t>(m.shape()[1]), 0.0);
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t k = 0; k < out.size(); ++k)
        out[k] += double{x.as<float>()[i]} * double{m.as<float>()[i * out.size() + k]};
    return tensor::of<double>({m.shape()[1]}, std::span<const double>{out});
  };
  auto results = s.run([&](replica_context&) {
    std::vector<tensor> parts;
    for (const auto& tile : s.split_to_logical_devices(w.read(), {1, 2}))
      parts.push_back(times(tile.value()));
    return concatenate(parts);
  });
  CHECK(w.component(0) == w.component(1));
  CHECK(results[0] == results[1]);
  const auto sum = s.reduce(reduce_op::sum, results);
  const auto whole = times(w.read());
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(sum.as<double>()[i] == doctest::Approx(2 * whole.as<double>()[i]));
}

TEST_CASE("SYNC-LOG-1 each logical device has streams and tensors of its own") {
  auto s = two_by_two();
  auto out = s.run([&](replica_context&) {
    std::vector<std::string> ids;
    for (std::uint32_t k = 0; k < 2; ++k) {
      auto& on = s.logical_device(k);
      const auto x = tensor::scalar(static_cast<float>(k));
      CHECK(on.get(on.put(x)) == x);
      CHECK(&on == &s.logical_device(k));
      ids.push_back(to_string(on.id()));
    }
    return ids;
  });
  CHECK(out[0] == std::vector<std::string>{"cpu:0", "cpu:1"});
  CHECK(out[1] == std::vector<std::string>{"cpu:2", "cpu:3"});
  names(failure_of([&] { s.run([&] { (void)s.logical_device(2); }); }), errc::invalid_argument,
        {"2"});
}

} // namespace
