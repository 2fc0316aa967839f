// Constraints of variables. Goal: row SYNC-VCR-16: kept, and applied by whoever asks, to the copies
// that the caller means, in every strategy. Method: a constraint that halves.

#include "../replicas/support.hpp"

namespace {

using namespace replicas_test;

distributed_variable halved(const strategy& s, distributed_variable_options options) {
  options.name = "v";
  options.initial = vec<float>({8, 4});
  options.constraint = [](const tensor& x) {
    auto out = x.clone();
    for (auto& each : out.mutable_as<float>())
      each /= 2;
    return out;
  };
  return s.scope([&] { return make_variable(options); });
}

TEST_CASE("SYNC-VCR-16 in replicas each copy is constrained once, the shared one too") {
  for (const strategy& s :
       {strategy{mirrored_over(3)}, strategy{central_storage_strategy{shared_runtime(), cpus(3)}},
        strategy{mirrored_over(1)}, strategy{}}) {
    CAPTURE(s.to_string());
    auto v = halved(s, {});
    s.run([&] { v.apply_constraint(); });
    for (std::size_t i = 0; i < v.components(); ++i)
      CHECK(v.component(i) == vec<float>({4, 2}));
    v.apply_constraint();
    for (std::size_t i = 0; i < v.components(); ++i)
      CHECK(v.component(i) == vec<float>({2, 1}));
  }
}

TEST_CASE("SYNC-VCR-16 copies that may differ are constrained each by itself") {
  auto s = mirrored_over(2);
  auto v = halved(s, {.synchronization = variable_synchronization::on_read,
                      .aggregation = variable_aggregation::sum});
  s.run([&](replica_context& ctx) {
    v.assign(vec<float>({8, static_cast<float>(id_of(ctx))}));
    if (id_of(ctx) == 1)
      v.apply_constraint();
  });
  CHECK(v.component(0) == vec<float>({8, 0}));
  CHECK(v.component(1) == vec<float>({4, 0.5f}));
}

TEST_CASE("SYNC-VCR-16 a replica without data keeps its copy equal") {
  auto s = mirrored_over(2);
  auto v = halved(s, {});
  auto batch = distribute_dataset(s, dataset::range(1).batch(2)).iterate().next();
  s.run([&](const element&) { v.apply_constraint(); }, batch);
  CHECK(v.component(0) == vec<float>({4, 2}));
  CHECK(v.component(1) == vec<float>({4, 2}));
}

TEST_CASE("SYNC-VCR-16 what does not fit is refused, and nothing is changed") {
  auto s = mirrored_over(2);
  auto made = [&](std::function<tensor(const tensor&)> f) {
    return s.scope([&] {
      return make_variable({.name = "v", .initial = vec<float>({1, 2}), .constraint = f});
    });
  };
  auto none = made({});
  CHECK(!none.constraint());
  names(failure_of([&] { none.apply_constraint(); }), errc::wrong_state, {"'v'", "constraint"});
  auto longer = made([](const tensor&) { return vec<float>({1, 2, 3}); });
  names(failure_of([&] { longer.apply_constraint(); }), errc::shape_mismatch,
        {"'v'", "[3]", "[2]"});
  auto other = made([](const tensor&) { return vec<double>({1, 2}); });
  names(failure_of([&] { other.apply_constraint(); }), errc::dtype_mismatch, {"'v'", "f64", "f32"});
  CHECK(other.component(1) == vec<float>({1, 2}));
}

} // namespace
