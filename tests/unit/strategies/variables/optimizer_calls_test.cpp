// What training loops ask of optimizers beside `apply`. Goal: gradients that were summed already
// are applied once to each copy, also to those of replicas without data, and a rate that is set is
// the next update's on every copy. Method: numbers that are exact in binary.

#include "../replicas/support.hpp"

#include <limits>

#include <troupe/strategies/variables/optimizer_calls.hpp>

namespace {

using namespace replicas_test;

distributed_variable make_w(const strategy& s) {
  return s.scope([] {
    return make_variable({.name = "w", .initial = vec<float>({1, 2}), .optimizer = sgd{0.5f}});
  });
}

std::vector<tensor> copies(const distributed_variable& w) {
  std::vector<tensor> out;
  for (std::size_t i = 0; i < w.components(); ++i)
    out.push_back(w.component(i));
  return out;
}

TEST_CASE("apply_reduced: each copy's optimizer takes the gradient as it is, once") {
  for (std::uint32_t n : {1u, 3u})
    for (const bool shared : {false, true}) {
      CAPTURE(n);
      const strategy s = shared ? strategy{central_storage_strategy{shared_runtime(), cpus(n)}}
                                : strategy{mirrored_over(n)};
      auto w = make_w(s);
      s.run([&](replica_context& ctx) { apply_reduced(ctx, {w}, {vec<float>({2, 4})}); });
      CHECK(w.components() == (shared ? 1 : n));
      for (const auto& each : copies(w))
        CHECK(each == vec<float>({0, 0}));
    }
}

TEST_CASE("apply_reduced: a replica without data in the step applies it too") {
  const auto s = mirrored_over(3);
  auto w = make_w(s);
  const auto data = dataset::from_tensors({vec<float>({1, 2})}).batch(2);
  for (auto& batch : distribute_dataset(s, data))
    s.run(
      [&](replica_context& ctx, const element&) {
        apply_reduced(ctx, {w}, {vec<float>({2, 4})});
      },
      batch);
  for (const auto& each : copies(w))
    CHECK(each == vec<float>({0, 0}));
}

TEST_CASE("apply_reduced: wrong counts, shapes and places are named") {
  const auto s = mirrored_over(2);
  auto w = make_w(s);
  const auto refused = [&](const std::vector<tensor>& gradients) {
    return failure_of(
      [&] { s.run([&](replica_context& ctx) { apply_reduced(ctx, {w}, gradients); }); });
  };
  names(refused({}), errc::invalid_argument, {"0 gradients", "1 variables"});
  names(refused({vec<float>({1, 2, 3})}), errc::shape_mismatch, {"w", "[3]", "[2]"});
  s.run([&](replica_context& ctx) {
    ctx.merge_call([&](strategy&) {
      names(failure_of([&] {
              apply_reduced(ctx, {w}, {vec<float>({2, 4})});
            }),
            errc::wrong_state, {"w", "apply_reduced", "inside the replica function"});
    });
  });
  CHECK(w.read() == vec<float>({1, 2}));
}

TEST_CASE("set_learning_rate: the next update of every copy uses it") {
  for (const bool shared : {false, true}) {
    const strategy s = shared ? strategy{central_storage_strategy{shared_runtime(), cpus(2)}}
                              : strategy{mirrored_over(2)};
    auto w = make_w(s);
    const auto update = [&] {
      s.run([&](replica_context& ctx) { ctx.apply({w}, {vec<float>({1, 1})}); });
      return copies(w);
    };
    CHECK(update()[0] == vec<float>({0, 1})); // two replicas' gradients, by 0.5
    set_learning_rate(w, 0.25f);
    for (const auto& each : update())
      CHECK(each == vec<float>({-0.5f, 0.5f}));
    set_learning_rate(w, 0);
    for (const auto& each : update())
      CHECK(each == vec<float>({-0.5f, 0.5f}));
  }
}

TEST_CASE("set_learning_rate: no rate, no optimizer, and not inside a replica") {
  const auto s = mirrored_over(2);
  auto w = make_w(s);
  auto plain = s.scope([] { return make_variable({.name = "p", .initial = vec<float>({1})}); });
  for (const float rate : {-1.0f, std::numeric_limits<float>::quiet_NaN()})
    names(failure_of([&] { set_learning_rate(w, rate); }), errc::invalid_argument, {"w"});
  names(failure_of([&] { set_learning_rate(plain, 1); }), errc::wrong_state, {"p"});
  s.run([&](replica_context&) {
    names(failure_of([&] { set_learning_rate(w, 1); }), errc::wrong_state,
          {"w", "set_learning_rate", "cross-replica"});
  });
}

} // namespace
